"""`bids`: your own offers on the requests of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

import freight_exchange
from freight_exchange.cli.confirm import check, confirm
from freight_exchange.cli.drafts import all_fields, draft_options
from freight_exchange.cli.exit_status import InterruptedWriteError
from freight_exchange.cli.options import INDEX, WordOf, json_option, limit_option, yes_option
from freight_exchange.cli.render.freight import units
from freight_exchange.cli.render.listing import show_listing
from freight_exchange.cli.render.money import codes, fees, money
from freight_exchange.cli.render.tables import Column, said, show_details, show_json
from freight_exchange.cli.session import connected
from freight_exchange.cli.warn import aside
from freight_exchange.errors import FreightExchangeError
from freight_exchange.models import validation

if TYPE_CHECKING:
    from freight_exchange import Bid, FreightExchange
    from freight_exchange.cli.settings import Settings

__all__ = ["bids"]


@click.group
def bids() -> None:
    """Your own offers: list them, submit one."""


@bids.command("list")
@click.option("--state", type=WordOf("BidsType"), help="Selected (sel), not selected (nsel), active, or all offers.")
@limit_option
@json_option
@click.pass_obj
def list_(settings: Settings, /, state: str | None, limit: int | None, as_json: bool) -> None:
    """List your own offers, and whom to call where one was selected.

    \b
    Example:
      freight-exchange bids list --state sel
    """

    async def work(exchange: FreightExchange) -> None:
        await show_listing(
            exchange.bids.list(type=state),
            _columns({} if as_json else await codes(exchange)),
            as_json=as_json,
            nothing="There are no such offers of yours.",
            limit=limit,
        )

    connected(settings, work)


@bids.command
@click.argument("request", type=INDEX)
@draft_options("Offer")
@click.option("--rate", "rates", multiple=True, metavar="NAME=AMOUNT", help="A fee within the total; may be repeated.")
@yes_option
@json_option
@click.pass_obj
def submit(settings: Settings, /, request: int, rates: Sequence[str], yes: bool, as_json: bool, **given: Any) -> None:
    """Submit an offer on REQUEST.

    The request is given by its index. The offer is sent once, whatever happens; offers of yours that are on it already
    are said before.

    \b
    Examples:
      freight-exchange bids submit 4 --amount 1840.50 --currency USD --terms "valid 14 days"
      freight-exchange bids submit 4 --amount 1840.50 --currency USD --rate "Ocean Freight=1700" --rate "Chassis=140.50"
    """
    check(yes=yes)
    values = all_fields("Offer", given, more=("rates",))
    amount = validation.amount(values["amount"], "amount")
    currency, terms = values["currency"], values.get("terms")
    itemised = validation.rates({**_fees_of_file(values.get("rates", {})), **_fees_of_options(rates)})
    price = f"{amount:f} {said(currency)}"
    before: list[str] = []

    async def work(exchange: FreightExchange) -> None:
        on = None if yes else await exchange.requests.get(request)
        if on is not None:
            show_details([("offer", price), *fees(itemised), ("terms", terms)], err=True)
        _say_difference(amount, itemised)
        earlier = [bid async for bid in exchange.bids.list(sweep=True) if bid.index == request]
        # Before the offer: what fails after it would be taken for the offer's failure.
        known = await codes(exchange) if earlier or not as_json else {}
        _say_earlier(earlier, known)
        alike = sum(bid.amount == amount and _is_in(bid, currency, known) for bid in earlier)
        before.append(f"Before it was sent, {_offers(alike)} of {price} of yours stood on request {request}.")
        if on is not None:
            if str(on.status).casefold() == "selected":
                aside("The request is Selected: its shipper has accepted an offer.")
            what = f"{units(on)} of {on.commodity}, {on.origin} to {on.destination}"
            confirm(f"Offer {price} on {said(what)}?", yes=yes)
        bid = await exchange.bids.submit(request, amount=amount, currency=currency, rates=itemised or None, terms=terms)
        if as_json:
            show_json(bid)
        else:
            _show(bid, known)

    try:
        connected(settings, work, look="bids list")
    except (FreightExchangeError, InterruptedWriteError) as error:
        if before and (isinstance(error, InterruptedWriteError) or error.may_have_taken_effect):
            # The listing alone cannot tell an offer that was there from the one in doubt.
            error.add_note(before[0])
        raise


def _fees_of_file(rates: object) -> Mapping[str, object]:
    if not isinstance(rates, Mapping):
        raise click.UsageError(
            'rates in the file must be amounts by the names of fees, such as {"Ocean Freight": 1700}; nothing was sent'
        )
    return rates


def _fees_of_options(rates: Sequence[str]) -> dict[str, str]:
    found = {}
    for rate in rates:
        name, equals, amount = rate.rpartition("=")
        if not equals:
            raise click.UsageError(f"--rate takes NAME=AMOUNT, not {rate!r}; nothing was sent")
        found[name.strip()] = amount.strip()
    return found


def _say_earlier(earlier: Sequence[Bid], known: Mapping[int, str]) -> None:
    if earlier:
        each = (f"{money(bid.amount, bid.currency, known)} ({_status(bid)})" for bid in earlier)
        aside(f"You have {_offers(len(earlier))} on it already: {said(', '.join(each))}.")


def _status(bid: Bid) -> object:
    return bid.status if bid.offer is None or bid.offer.status is None else bid.offer.status


def _offers(count: int) -> str:
    return f"{count} offer{'' if count == 1 else 's'}"


def _is_in(bid: Bid, currency: object, known: Mapping[int, str]) -> bool:
    return bid.currency is not None and known.get(bid.currency, "").casefold() == said(currency).casefold()


def _say_difference(amount: Decimal, itemised: Mapping[str, Decimal]) -> None:
    difference = freight_exchange.Offer(amount=amount, rates=itemised).difference
    if difference:
        which = "more" if difference > 0 else "less"
        aside(f"Are its fees right? The amount is {abs(difference):f} {which} than they come to.")


def _columns(known: Mapping[int, str]) -> Sequence[Column[Bid]]:
    return (
        Column("REQUEST", lambda bid: bid.index, right=True),
        Column("REF", lambda bid: bid.ref_id, spare=5),
        Column("COMMODITY", lambda bid: bid.commodity, folds=True, spare=2),
        Column("ORIGIN", lambda bid: bid.origin, folds=True, spare=4),
        Column("DESTINATION", lambda bid: bid.destination, folds=True, spare=3),
        Column("OFFER", lambda bid: money(bid.amount, bid.currency, known), right=True),
        Column("STATUS", lambda bid: bid.status),
        Column("CONTACT", _contact, folds=True, spare=1),
    )


def _contact(bid: Bid) -> str | None:
    if bid.contact is None:
        return None
    return " ".join(part for part in (bid.contact.name, bid.contact.email and f"<{bid.contact.email}>") if part)


def _show(bid: Bid, known: Mapping[int, str]) -> None:
    offer = bid.offer
    show_details(
        [
            ("request", bid.index),
            ("commodity", bid.commodity),
            ("from", bid.origin),
            ("to", bid.destination),
            ("offer", money(bid.amount, bid.currency, known)),
            *fees(None if offer is None else offer.rates),
            ("terms", None if offer is None else offer.terms),
            ("status", bid.status if offer is None else offer.status),
        ]
    )
