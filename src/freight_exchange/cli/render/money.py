"""Amounts with the code of their currency, where the service names it by a number."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from freight_exchange.cli.render.tables import said

if TYPE_CHECKING:
    from freight_exchange import FreightExchange

__all__ = ["codes", "fees", "money"]


async def codes(exchange: FreightExchange) -> dict[int, str]:
    """The code of each currency, by its index."""
    return {currency.index: currency.code async for currency in exchange.currencies.list() if currency.code}


def fees(rates: Mapping[str, Decimal] | None) -> list[tuple[str, Decimal]]:
    """Itemised fees as lines of a record, below its total."""
    return [(f"  {said(name)}", fee) for name, fee in (rates or {}).items()]


def money(amount: Decimal | None, currency: int | None, known: Mapping[int, str]) -> str | None:
    """An amount as people read it."""
    if amount is None:
        return None
    if currency is None:
        return f"{amount:f}"
    return f"{amount:f} {known.get(currency, f'(currency {currency})')}"
