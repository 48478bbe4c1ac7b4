"""Units of length and mass, and their exact factors to metres and kilograms.

The service document has only `m` and `kg` (section 2, Rate request). Other known units are converted. Unknown units are
refused, and never read as metres or kilograms.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

__all__ = ["kilograms_per", "metres_per"]

_METRES: Final = {
    Decimal(1): ("m", "meter", "meters", "metre", "metres"),
    Decimal("0.01"): ("cm", "centimeter", "centimeters", "centimetre", "centimetres"),
    Decimal("0.001"): ("mm", "millimeter", "millimeters", "millimetre", "millimetres"),
    Decimal("0.0254"): ("in", "inch", "inches"),
    Decimal("0.3048"): ("ft", "foot", "feet"),
}
_KILOGRAMS: Final = {
    Decimal(1): ("kg", "kgs", "kilo", "kilos", "kilogram", "kilograms"),
    Decimal("0.001"): ("g", "gram", "grams"),
    Decimal(1000): ("t", "tonne", "tonnes"),
    Decimal("0.45359237"): ("lb", "lbs", "pound", "pounds"),
}
_METRES_PER: Final = {word: factor for factor, words in _METRES.items() for word in words}
_KILOGRAMS_PER: Final = {word: factor for factor, words in _KILOGRAMS.items() for word in words}


def metres_per(unit: str | None) -> Decimal | None:
    """Return the metres in one unit; `None` for an unknown unit. A missing unit is the metre."""
    return _factor(unit, _METRES_PER)


def kilograms_per(unit: str | None) -> Decimal | None:
    """Return the kilograms in one unit; `None` for an unknown unit. A missing unit is the kilogram."""
    return _factor(unit, _KILOGRAMS_PER)


def _factor(unit: str | None, factors: dict[str, Decimal]) -> Decimal | None:
    word = (unit or "").strip().casefold().removesuffix(".")
    return factors.get(word) if word else Decimal(1)
