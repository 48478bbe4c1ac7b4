"""`carriers` and `currencies`: what offers and routes refer to by a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freight_exchange.cli.options import json_option
from freight_exchange.cli.render.listing import show_listing
from freight_exchange.cli.render.tables import Column
from freight_exchange.cli.session import connected

if TYPE_CHECKING:
    from freight_exchange import Carrier, Currency, FreightExchange
    from freight_exchange.cli.settings import Settings

__all__ = ["carriers", "currencies"]

_CARRIERS: tuple[Column[Carrier], ...] = (
    Column("INDEX", lambda carrier: carrier.index, right=True),
    Column("NAME", lambda carrier: carrier.name),
)
_CURRENCIES: tuple[Column[Currency], ...] = (
    Column("INDEX", lambda currency: currency.index, right=True),
    Column("CODE", lambda currency: currency.code),
    Column("NAME", lambda currency: currency.name),
)


@click.command
@json_option
@click.pass_obj
def carriers(settings: Settings, /, as_json: bool) -> None:
    """List the carriers that routes refer to.

    \b
    Example:
      freight-exchange carriers
    """

    async def work(exchange: FreightExchange) -> None:
        await show_listing(exchange.carriers.list(), _CARRIERS, as_json=as_json, nothing="There are no carriers.")

    connected(settings, work)


@click.command
@json_option
@click.pass_obj
def currencies(settings: Settings, /, as_json: bool) -> None:
    """List the currencies that an offer can be made in.

    \b
    Example:
      freight-exchange currencies --json
    """

    async def work(exchange: FreightExchange) -> None:
        await show_listing(exchange.currencies.list(), _CURRENCIES, as_json=as_json, nothing="There are no currencies.")

    connected(settings, work)
