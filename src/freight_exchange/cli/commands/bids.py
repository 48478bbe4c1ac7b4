"""Command `bids`: your own offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

import freight_exchange
from freight_exchange import validation
from freight_exchange.cli.client.session import client_command, run_with_client
from freight_exchange.cli.drafts import draft_options, require_fields
from freight_exchange.cli.enum_choice import EnumChoice
from freight_exchange.cli.exit_status import InterruptedWriteError
from freight_exchange.cli.options import INDEX, json_option, limit_option, yes_option
from freight_exchange.cli.output import Output, format_options
from freight_exchange.cli.render.csv_rows import csv_columns
from freight_exchange.cli.render.freight import format_units
from freight_exchange.cli.render.listing import print_listing
from freight_exchange.cli.render.record import (
    currency_codes,
    fee_details,
    format_amount,
    format_value,
    print_details,
    print_json,
)
from freight_exchange.cli.render.table import Column
from freight_exchange.cli.terminal import confirm, require_confirmation, warn
from freight_exchange.errors import FreightExchangeError

if TYPE_CHECKING:
    from freight_exchange import Bid, FreightExchange
    from freight_exchange.cli.options import GlobalOptions

__all__ = ["bids"]


@click.group
def bids() -> None:
    """Your own offers: list them, submit one."""


@bids.command("list")
@click.option(
    "--state",
    type=EnumChoice("BidsType", {"selected": "sel", "not-selected": "nsel", "all": "offers"}),
    help="State of your offers.",
)
@limit_option
@format_options
@client_command
async def list_(exchange: FreightExchange, /, state: str | None, limit: int | None, output: Output) -> None:
    """List your own offers, with the contact of each selected one.

    \b
    Example:
      freight-exchange bids list --state selected
    """
    await print_listing(
        exchange.bids.list(type=state),
        _columns({} if output else await currency_codes(exchange)),
        output=output,
        csv_columns=csv_columns(freight_exchange.Bid),
        empty_message="You have no such offers. See `freight-exchange offers list` for those on your requests.",
        limit=limit,
    )


@bids.command
@click.argument("request", type=INDEX)
@draft_options("Offer")
@click.option("--rate", "rates", multiple=True, metavar="NAME=AMOUNT", help="Fee, part of the total; may be repeated.")
@click.option("--again", is_flag=True, help="Submit the offer even if you have an identical one on the request.")
@yes_option
@json_option
@click.pass_obj
def submit(
    options: GlobalOptions, /, request: int, rates: Sequence[str], again: bool, yes: bool, as_json: bool, **fields: Any
) -> None:
    """Submit an offer on REQUEST.

    REQUEST is the index of the request. The offer is sent only once: a failure is not retried. Your earlier offers on
    the request are shown first. A second offer with the same amount and currency needs --again.

    \b
    Examples:
      freight-exchange bids submit 4 --amount 1840.50 --currency USD --terms "valid 14 days"
      freight-exchange bids submit 4 --amount 1840.50 --currency USD --rate "Ocean Freight=1700" --rate "Chassis=140.50"
    """
    require_confirmation(yes=yes)
    values = require_fields("Offer", fields, file_fields=("rates",))
    amount = validation.amount(values["amount"], "amount")
    currency, terms = values["currency"], values.get("terms")
    itemised = validation.rates({**_file_fees(values.get("rates", {})), **_option_fees(rates)})
    price = f"{amount:f} {format_value(currency)}"
    earlier_note: list[str] = []

    async def work(exchange: FreightExchange) -> None:
        rate_request = None if yes else await exchange.requests.get(request)
        if rate_request is not None:
            print_details([("offer", price), *fee_details(itemised), ("terms", terms)], err=True)
        _warn_of_difference(amount, itemised)
        earlier = [bid async for bid in exchange.bids.list(sweep=True) if bid.index == request]
        # Before the offer: a later failure would look like the offer's own.
        codes = await currency_codes(exchange) if earlier or not as_json else {}
        _warn_of_earlier(request, earlier, codes)
        equal_count = sum(bid.amount == amount and _has_currency(bid, currency, codes) for bid in earlier)
        if equal_count and not again:
            raise click.UsageError(
                f"you have {_count_offers(equal_count)} of {price} on request {request} already: give --again"
                " to send another; nothing was sent"
            )
        earlier_note.append(f"Before this offer, you had {_count_offers(equal_count)} of {price} on request {request}.")
        if rate_request is not None:
            if str(rate_request.status).casefold() == "selected":
                warn("The request is Selected: its shipper has accepted an offer.")
            freight = f"{format_units(rate_request)} of {rate_request.commodity}"
            places = f"{rate_request.origin} to {rate_request.destination}"
            confirm(f"Offer {price} on {format_value(freight)}, {format_value(places)}?", yes=yes)
        bid = await exchange.bids.submit(request, amount=amount, currency=currency, rates=itemised or None, terms=terms)
        if as_json:
            print_json(bid)
        else:
            _print_bid(bid, codes)

    try:
        run_with_client(options, work, lookup_command="bids list")
    except (FreightExchangeError, InterruptedWriteError) as error:
        if earlier_note and (isinstance(error, InterruptedWriteError) or error.may_have_taken_effect):
            # The listing alone cannot distinguish an earlier offer from the one in doubt.
            error.add_note(earlier_note[0])
        raise


def _file_fees(rates: object) -> Mapping[str, object]:
    if not isinstance(rates, Mapping):
        raise click.UsageError(
            'rates in the file must be amounts by the names of fees, such as {"Ocean Freight": 1700}; nothing was sent'
        )
    return rates


def _option_fees(rates: Sequence[str]) -> dict[str, str]:
    fees = {}
    for rate in rates:
        name, equals, amount = rate.rpartition("=")
        if not equals:
            raise click.UsageError(f"--rate takes NAME=AMOUNT, not {rate!r}; nothing was sent")
        fees[name.strip()] = amount.strip()
    return fees


def _warn_of_earlier(request: int, earlier: Sequence[Bid], codes: Mapping[int, str]) -> None:
    if earlier:
        bids = (f"{format_amount(bid.amount, bid.currency, codes)} ({_status(bid)})" for bid in earlier)
        count = _count_offers(len(earlier))
        warn(f"You have {count} on request {request} already: {format_value(', '.join(bids))}.")


def _status(bid: Bid) -> object:
    return bid.status if bid.offer is None or bid.offer.status is None else bid.offer.status


def _count_offers(count: int) -> str:
    return f"{count} offer{'' if count == 1 else 's'}"


def _has_currency(bid: Bid, currency: object, codes: Mapping[int, str]) -> bool:
    """Return whether a bid is in a currency, given by its code or, in a file, its index."""
    code = format_value(currency).casefold()
    return bid.currency is not None and code in (str(bid.currency), codes.get(bid.currency, "").casefold())


def _warn_of_difference(amount: Decimal, itemised: Mapping[str, Decimal]) -> None:
    difference = freight_exchange.Offer(amount=amount, rates=itemised).difference
    if difference:
        direction = "more" if difference > 0 else "less"
        warn(f"Check the fees: the amount is {abs(difference):f} {direction} than their sum.")


def _columns(codes: Mapping[int, str]) -> Sequence[Column[Bid]]:
    return (
        Column("REQUEST", lambda bid: bid.index, align_right=True),
        Column("REF", lambda bid: bid.ref_id, drop_order=5),
        Column("COMMODITY", lambda bid: bid.commodity, wraps=True, drop_order=2),
        Column("ORIGIN", lambda bid: bid.origin, wraps=True, drop_order=4),
        Column("DESTINATION", lambda bid: bid.destination, wraps=True, drop_order=3),
        Column("OFFER", lambda bid: format_amount(bid.amount, bid.currency, codes), align_right=True),
        Column("STATUS", lambda bid: bid.status),
        Column("CONTACT", _contact, wraps=True, drop_order=1),
    )


def _contact(bid: Bid) -> str | None:
    if bid.contact is None:
        return None
    return " ".join(part for part in (bid.contact.name, bid.contact.email and f"<{bid.contact.email}>") if part)


def _print_bid(bid: Bid, codes: Mapping[int, str]) -> None:
    offer = bid.offer
    print_details(
        [
            ("request", bid.index),
            ("commodity", bid.commodity),
            ("from", bid.origin),
            ("to", bid.destination),
            ("offer", format_amount(bid.amount, bid.currency, codes)),
            *fee_details(None if offer is None else offer.rates),
            ("terms", None if offer is None else offer.terms),
            ("status", bid.status if offer is None else offer.status),
        ]
    )
