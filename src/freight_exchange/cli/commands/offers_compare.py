"""Command `offers compare`, and the look-up of a request with its offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import click

from freight_exchange import quotes
from freight_exchange.cli.client.session import client_command
from freight_exchange.cli.options import INDEX, json_option
from freight_exchange.cli.render.record import format_value, print_json
from freight_exchange.cli.render.table import Column, print_table
from freight_exchange.errors import NotFoundError

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Listing
    from freight_exchange.quotes import ComparedOffer, Comparison

__all__ = ["compare", "get_listing"]


def _parse_rates(context: click.Context, option: click.Parameter, values: Sequence[str]) -> Mapping[str, str]:
    rates: dict[str, str] = {}
    for value in values:
        code, equals, rate = value.partition("=")
        if not equals or not code.strip() or not rate.strip():
            raise click.BadParameter(f"{value!r} must be a code and a rate, such as EUR=1.08")
        if code.strip().upper() in rates:
            raise click.BadParameter(f"{code.strip()} is given twice")
        rates[code.strip().upper()] = rate.strip()
    return rates


@click.command
@click.argument("request", type=INDEX)
@click.option("--to", required=True, metavar="CODE", help="The currency to compare in, such as USD.")
@click.option(
    "--rate",
    "rates",
    multiple=True,
    metavar="CODE=RATE",
    callback=_parse_rates,
    help="Exchange rate: value of 1 CODE in the currency of --to, such as EUR=1.08; may be repeated.",
)
@json_option
@client_command
async def compare(exchange: FreightExchange, /, request: int, to: str, rates: Mapping[str, str], as_json: bool) -> None:
    """Rank the offers on one of your requests in one currency.

    Offers in another currency need a rate. OWN TERMS are the clauses that not every offer has.

    \b
    Example:
      freight-exchange offers compare 4 --to USD --rate EUR=1.08
    """
    listing = await get_listing(exchange, request)
    comparison = await quotes.compare(listing, to=to, rates=rates, currencies=exchange.currencies.list())
    if as_json:
        print_json(comparison)
        return
    print_table(comparison.offers, _columns(comparison), empty_message="There are no priced offers.")
    if comparison.common_terms:
        click.echo(f"\nTerms of all offers: {format_value('; '.join(comparison.common_terms))}")


async def get_listing(exchange: FreightExchange, request: int) -> Listing:
    """Return a published request with its offers. The error of an unknown request names the forwarder's command."""
    try:
        return await exchange.offers.get(request)
    except NotFoundError as error:
        error.add_note(f"For a request that another shipper published, see `freight-exchange requests get {request}`.")
        raise


def _columns(comparison: Comparison) -> Sequence[Column[ComparedOffer]]:
    """Return the columns of a comparison, one for each fee."""

    def fee_column(name: str) -> Column[ComparedOffer]:
        figures = {id(compared): fee for compared, fee in comparison.by_fee(name)}
        return Column(name.upper(), lambda row: _format_figure(figures.get(id(row))), align_right=True, drop_order=2)

    return (
        Column("RANK", lambda row: row.rank, align_right=True),
        Column("OFFER", lambda row: row.offer.id, align_right=True),
        Column(f"TOTAL {comparison.currency}", lambda row: _format_figure(row.total), align_right=True),
        Column("OFFERED", lambda row: f"{row.offer.amount} {row.currency}", align_right=True, drop_order=3),
        *map(fee_column, comparison.fee_names),
        Column("STATUS", lambda row: row.offer.status, drop_order=4),
        Column("OWN TERMS", lambda row: "; ".join(row.own_terms) or None, wraps=True, drop_order=1),
    )


def _format_figure(figure: Decimal | None) -> str | None:
    return None if figure is None else f"{figure:.2f}"
