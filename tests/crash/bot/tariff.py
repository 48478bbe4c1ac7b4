"""Tariff on which the bot and its checker agree beforehand."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

__all__ = ["PORTS", "price"]

_BASE: Final = {"Los Angeles": Decimal("310.25"), "Oakland": Decimal("335.40"), "Long Beach": Decimal("298.75")}
PORTS: Final = tuple(_BASE)


def price(quantity: int, destination: str) -> Decimal:
    """Return the price of a quantity to a port. Requests of this test that differ in either have different prices."""
    return _BASE[destination] + quantity * Decimal("17.35")
