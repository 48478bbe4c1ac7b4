"""Command `offers`: offers on your own requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import click

import freight_exchange
from freight_exchange.cli.client.session import client_command, run_with_client
from freight_exchange.cli.commands.offers_compare import compare, get_listing
from freight_exchange.cli.commands.offers_export import export
from freight_exchange.cli.commands.offers_watch import watch_offers
from freight_exchange.cli.enum_choice import EnumChoice
from freight_exchange.cli.options import INDEX, json_option, limit_option, yes_option
from freight_exchange.cli.output import Output, format_options
from freight_exchange.cli.render.csv_rows import csv_columns
from freight_exchange.cli.render.listing import collect, show_progress, start_output
from freight_exchange.cli.render.record import (
    currency_codes,
    fee_details,
    format_amount,
    format_value,
    print_details,
    print_json,
    to_json,
)
from freight_exchange.cli.render.table import Column, print_table
from freight_exchange.cli.terminal import confirm, require_confirmation
from freight_exchange.errors import BadRequestError, NotFoundError

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Listing, Offer
    from freight_exchange.cli.options import GlobalOptions

__all__ = ["offers"]

_NO_REQUESTS: Final = "You have published no such requests. See `freight-exchange bids list` for your own offers."


@attrs.frozen
class _Row:
    """Offer with its request; a request without offers has a row too."""

    listing: Listing
    offer: Offer | None


@click.group
def offers() -> None:
    """Offers on your own requests: list, watch, compare and export them, approve or decline one."""


@offers.command("list")
@click.option(
    "--state",
    type=EnumChoice("OffersType", {"with-offers": "offers", "selected": "sel", "not-selected": "nsel"}),
    default="all",
    show_default=True,
    help="Your requests with offers, with a selected offer, without a selected offer, or all.",
)
@limit_option
@format_options
@client_command
async def list_(exchange: FreightExchange, /, state: str, limit: int | None, output: Output) -> None:
    """List your requests, each with the offers on it.

    CSV has a row for each offer.

    \b
    Example:
      freight-exchange offers list --state with-offers
    """
    listing = exchange.offers.search(type=state)
    if output == "json":
        await collect(listing, limit=limit, on_record=print_json)
        return
    if output == "csv":
        print_row = start_output("csv", _csv_columns())
        for record in await collect(listing, limit=limit):
            for offer in record.offers or (None,):
                print_row({**to_json(record), "offer": to_json(offer)})
        return
    codes = await currency_codes(exchange)
    records = await collect(listing, limit=limit)
    rows = [_Row(record, offer) for record in records for offer in record.offers or (None,)]
    print_table(rows, _columns(codes), empty_message=_NO_REQUESTS)


@offers.command
@click.argument("request", type=INDEX)
@json_option
@client_command
async def get(exchange: FreightExchange, /, request: int, as_json: bool) -> None:
    """Show one of your requests, with the offers on it.

    \b
    Example:
      freight-exchange offers get 4
    """
    listing = await get_listing(exchange, request)
    if as_json:
        print_json(listing)
    else:
        _print_listing(listing, await currency_codes(exchange))


@offers.command
@click.argument("offer", type=INDEX)
@yes_option
@json_option
@click.pass_obj
def approve(options: GlobalOptions, /, offer: int, yes: bool, as_json: bool) -> None:
    """Approve OFFER, and show who made it.

    OFFER is the number of the offer. The service gives you and the forwarder each other's contact.

    \b
    Example:
      freight-exchange offers approve 17
    """
    _respond(options, offer, "Approve", lambda exchange: exchange.offers.approve, yes=yes, as_json=as_json)


@offers.command
@click.argument("offer", type=INDEX)
@yes_option
@json_option
@click.pass_obj
def decline(options: GlobalOptions, /, offer: int, yes: bool, as_json: bool) -> None:
    """Decline OFFER.

    OFFER is the number of the offer.

    \b
    Example:
      freight-exchange offers decline 17 --yes
    """
    _respond(options, offer, "Decline", lambda exchange: exchange.offers.decline, yes=yes, as_json=as_json)


def _respond(
    options: GlobalOptions,
    number: int,
    verb: str,
    operation: Callable[[FreightExchange], Callable[[int], Awaitable[Listing | None]]],
    *,
    yes: bool,
    as_json: bool,
) -> None:
    require_confirmation(yes=yes)

    async def work(exchange: FreightExchange) -> None:
        # Before the write: a later failure would look like the write's own.
        codes = {} if yes and as_json else await currency_codes(exchange)
        if not yes:
            await _confirm(exchange, number, verb, codes)
        listing = await _send(exchange, number, operation(exchange))
        if as_json:
            print_json(listing)
        elif listing is None:
            click.echo(f"{verb} of offer {number}: done; the service returned no record of it.")
        else:
            _print_listing(listing, codes)

    run_with_client(options, work, lookup_command="offers list")


async def _send(
    exchange: FreightExchange, number: int, operation: Callable[[int], Awaitable[Listing | None]]
) -> Listing | None:
    """Send the answer; turn the refusal of an unknown offer into `NotFoundError`."""
    try:
        return await operation(number)
    except BadRequestError:
        await _find(exchange, number)
        raise


async def _confirm(exchange: FreightExchange, number: int, verb: str, codes: Mapping[int, str]) -> None:
    listing, offer = await _find(exchange, number)
    price = format_amount(offer.amount, offer.currency, codes)
    summary = f"{price} on {listing.commodity}, {listing.origin} to {listing.destination}"
    confirm(f"{verb} offer {number}: {format_value(summary)}?", yes=False)


async def _find(exchange: FreightExchange, number: int) -> tuple[Listing, Offer]:
    with show_progress("requests searched:") as advance:
        async for listing in exchange.offers.search(type="offers"):
            advance(1)
            for offer in listing.offers:
                if offer.id == number:
                    return listing, offer
    raise NotFoundError(f"there is no offer {number} on your requests; nothing was changed")


def _csv_columns() -> list[str]:
    """Return the columns of a request, and those of one of its offers."""
    return [
        *csv_columns(freight_exchange.Listing, exclude=("offers",)),
        *csv_columns(freight_exchange.Offer, prefix="offer."),
    ]


def _columns(codes: Mapping[int, str]) -> Sequence[Column[_Row]]:
    return (
        Column("REQUEST", lambda row: row.listing.index, align_right=True),
        Column("COMMODITY", lambda row: row.listing.commodity, wraps=True, drop_order=1),
        Column("ORIGIN", lambda row: row.listing.origin, wraps=True, drop_order=3),
        Column("DESTINATION", lambda row: row.listing.destination, wraps=True, drop_order=2),
        Column("OFFER", lambda row: None if row.offer is None else row.offer.id, align_right=True),
        Column(
            "AMOUNT",
            lambda row: None if row.offer is None else format_amount(row.offer.amount, row.offer.currency, codes),
            align_right=True,
        ),
        Column("STATUS", lambda row: "no offer yet" if row.offer is None else row.offer.status),
        Column("TERMS", lambda row: None if row.offer is None else row.offer.terms, wraps=True, drop_order=4),
    )


def _print_listing(listing: Listing, codes: Mapping[int, str]) -> None:
    company, contact = listing.company, listing.contact
    print_details(
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
        print_details(
            [
                ("offer", offer.id),
                ("amount", format_amount(offer.amount, offer.currency, codes)),
                *fee_details(offer.rates),
                ("terms", offer.terms),
                ("status", offer.status),
            ]
        )


offers.add_command(watch_offers)
offers.add_command(export)
offers.add_command(compare)
