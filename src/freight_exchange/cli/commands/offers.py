"""`offers`: what forwarders offer on your own requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import click

from freight_exchange.cli.confirm import check, confirm
from freight_exchange.cli.options import INDEX, WordOf, json_option, limit_option, yes_option
from freight_exchange.cli.render.listing import progress, read, show_listing
from freight_exchange.cli.render.money import codes, fees, money
from freight_exchange.cli.render.tables import Column, said, show_details, show_json, show_table
from freight_exchange.cli.session import connected
from freight_exchange.errors import BadRequestError, NotFoundError

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Listing, Offer
    from freight_exchange.cli.settings import Settings

__all__ = ["offers"]


@attrs.frozen
class _Row:
    """An offer with the request that it is on; a request without offers has a row of its own."""

    listing: Listing
    offer: Offer | None


@click.group
def offers() -> None:
    """Offers on your own requests: list them, approve or decline one."""


@offers.command("list")
@click.option(
    "--state",
    type=WordOf("OffersType"),
    default="all",
    help="Your requests with an offer (offers), with a selected one (sel), without (nsel), or all.",
)
@limit_option
@json_option
@click.pass_obj
def list_(settings: Settings, /, state: str, limit: int | None, as_json: bool) -> None:
    """List your requests, each with the offers on it.

    \b
    Example:
      freight-exchange offers list --state offers
    """

    async def work(exchange: FreightExchange) -> None:
        listing = exchange.offers.search(type=state)
        if as_json:
            await show_listing(listing, (), as_json=True, nothing="", limit=limit)
            return
        known = await codes(exchange)
        found = await read(listing, limit=limit)
        rows = [_Row(record, offer) for record in found for offer in record.offers or (None,)]
        show_table(rows, _columns(known), nothing="There are no such requests of yours.")

    connected(settings, work)


@offers.command
@click.argument("request", type=INDEX)
@json_option
@click.pass_obj
def get(settings: Settings, /, request: int, as_json: bool) -> None:
    """Show one of your requests, with the offers on it.

    \b
    Example:
      freight-exchange offers get 4
    """

    async def work(exchange: FreightExchange) -> None:
        listing = await exchange.offers.get(request)
        if as_json:
            show_json(listing)
        else:
            _show(listing, await codes(exchange))

    connected(settings, work)


@offers.command
@click.argument("offer", type=INDEX)
@yes_option
@json_option
@click.pass_obj
def approve(settings: Settings, /, offer: int, yes: bool, as_json: bool) -> None:
    """Accept OFFER, and learn whose it is.

    It is given by its number. You and the forwarder are told how to reach each other.

    \b
    Example:
      freight-exchange offers approve 17
    """
    _respond(settings, offer, "Approve", lambda exchange: exchange.offers.approve, yes=yes, as_json=as_json)


@offers.command
@click.argument("offer", type=INDEX)
@yes_option
@json_option
@click.pass_obj
def decline(settings: Settings, /, offer: int, yes: bool, as_json: bool) -> None:
    """Decline OFFER, given by its number.

    \b
    Example:
      freight-exchange offers decline 17 --yes
    """
    _respond(settings, offer, "Decline", lambda exchange: exchange.offers.decline, yes=yes, as_json=as_json)


def _respond(
    settings: Settings,
    number: int,
    verb: str,
    operation: Callable[[FreightExchange], Callable[[int], Awaitable[Listing | None]]],
    *,
    yes: bool,
    as_json: bool,
) -> None:
    check(yes=yes)

    async def work(exchange: FreightExchange) -> None:
        # Before the answer: what fails after it would be taken for the answer's failure.
        known = {} if yes and as_json else await codes(exchange)
        if not yes:
            await _ask(exchange, number, verb, known)
        listing = await _answered(exchange, number, operation(exchange))
        if as_json:
            show_json(listing)
        elif listing is None:
            click.echo(f"{verb} of offer {number}: done; the service returned no record of it.")
        else:
            _show(listing, known)

    connected(settings, work, look="offers list")


async def _answered(
    exchange: FreightExchange, number: int, operation: Callable[[int], Awaitable[Listing | None]]
) -> Listing | None:
    """What became of the request; `NotFoundError` where the service refuses an offer that there is not."""
    try:
        return await operation(number)
    except BadRequestError:
        await _found(exchange, number)
        raise


async def _ask(exchange: FreightExchange, number: int, verb: str, known: Mapping[int, str]) -> None:
    listing, offer = await _found(exchange, number)
    price = money(offer.amount, offer.currency, known)
    what = f"{price} on {listing.commodity}, {listing.origin} to {listing.destination}"
    confirm(f"{verb} offer {number}: {said(what)}?", yes=False)


async def _found(exchange: FreightExchange, number: int) -> tuple[Listing, Offer]:
    with progress("looking for the offer:") as advance:
        async for listing in exchange.offers.search(type="offers"):
            advance(1)
            for offer in listing.offers:
                if offer.id == number:
                    return listing, offer
    raise NotFoundError(f"there is no offer {number} on your requests; nothing was changed")


def _columns(known: Mapping[int, str]) -> Sequence[Column[_Row]]:
    return (
        Column("REQUEST", lambda row: row.listing.index, right=True),
        Column("COMMODITY", lambda row: row.listing.commodity, folds=True, spare=1),
        Column("ORIGIN", lambda row: row.listing.origin, folds=True, spare=3),
        Column("DESTINATION", lambda row: row.listing.destination, folds=True, spare=2),
        Column("OFFER", lambda row: None if row.offer is None else row.offer.id, right=True),
        Column(
            "AMOUNT",
            lambda row: None if row.offer is None else money(row.offer.amount, row.offer.currency, known),
            right=True,
        ),
        Column("STATUS", lambda row: "no offer yet" if row.offer is None else row.offer.status),
        Column("TERMS", lambda row: None if row.offer is None else row.offer.terms, folds=True, spare=4),
    )


def _show(listing: Listing, known: Mapping[int, str]) -> None:
    company, contact = listing.company, listing.contact
    show_details(
        [
            ("request", listing.index),
            ("commodity", listing.commodity),
            ("from", listing.origin),
            ("to", listing.destination),
            ("status", listing.status),
            ("contact", None if contact is None else contact.name),
            ("email", None if contact is None else contact.email),
            ("company", None if company is None else company.name),
            ("city", None if company is None else company.city),
            ("fax", None if company is None else company.fax),
        ]
    )
    for offer in listing.offers:
        click.echo()
        show_details(
            [
                ("offer", offer.id),
                ("amount", money(offer.amount, offer.currency, known)),
                *fees(offer.rates),
                ("terms", offer.terms),
                ("status", offer.status),
            ]
        )
