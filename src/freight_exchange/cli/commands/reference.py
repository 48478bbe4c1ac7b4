"""Commands `carriers` and `currencies`: the records that routes and offers refer to by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freight_exchange.cli.options import json_option
from freight_exchange.cli.render.listing import print_listing
from freight_exchange.cli.render.table import Column
from freight_exchange.cli.session import run_with_client

if TYPE_CHECKING:
    from freight_exchange import Carrier, Currency, FreightExchange
    from freight_exchange.cli.options import GlobalOptions

__all__ = ["carriers", "currencies"]

_CARRIERS: tuple[Column[Carrier], ...] = (
    Column("INDEX", lambda carrier: carrier.index, align_right=True),
    Column("NAME", lambda carrier: carrier.name),
)
_CURRENCIES: tuple[Column[Currency], ...] = (
    Column("INDEX", lambda currency: currency.index, align_right=True),
    Column("CODE", lambda currency: currency.code),
    Column("NAME", lambda currency: currency.name),
)


@click.command
@json_option
@click.pass_obj
def carriers(options: GlobalOptions, /, as_json: bool) -> None:
    """List the carriers of routes.

    \b
    Example:
      freight-exchange carriers
    """

    async def work(exchange: FreightExchange) -> None:
        await print_listing(
            exchange.carriers.list(), _CARRIERS, as_json=as_json, empty_message="There are no carriers."
        )

    run_with_client(options, work)


@click.command
@json_option
@click.pass_obj
def currencies(options: GlobalOptions, /, as_json: bool) -> None:
    """List the currencies of offers.

    \b
    Example:
      freight-exchange currencies --json
    """

    async def work(exchange: FreightExchange) -> None:
        await print_listing(
            exchange.currencies.list(), _CURRENCIES, as_json=as_json, empty_message="There are no currencies."
        )

    run_with_client(options, work)
