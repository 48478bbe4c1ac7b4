"""Tariff on which the bot and its checker agree beforehand."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

__all__ = ["PORTS", "price"]

_BASE: Final = {"Los Angeles": Decimal("310.25"), "Oakland": Decimal("335.40"), "Long Beach": Decimal("298.75")}
PORTS: Final = tuple(_BASE)


def price(quantity: int, destination: str) -> Decimal:
    """The price of so many pieces to that port; no two of the requests here that differ in either cost the same."""
    return _BASE[destination] + quantity * Decimal("17.35")
