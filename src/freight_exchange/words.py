"""The service's words, as enums, and the units of its measures.

A field of a record has an enum member for a known word in any case, and an `UnknownWord` for any other word. Both are
equal to the same word in any case: `request.type == RequestType.SHIPPING`, `request.type == "shipping"`.

A set or dict finds a member by the member or its documented spelling (`{"Air Freight": 1}[request.type]`), and an
unknown word by the word or its lower case.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum, unique
from typing import Final


def _equal(self: str, other: object) -> bool:
    return str.casefold(self) == str.casefold(other) if isinstance(other, str) else NotImplemented


def _unequal(self: str, other: object) -> bool:
    return str.casefold(self) != str.casefold(other) if isinstance(other, str) else NotImplemented


class UnknownWord(str):
    """A word of the service that is unknown to this package, as it was written."""

    __slots__ = ()

    __eq__ = _equal
    __ne__ = _unequal

    def __hash__(self) -> int:
        return hash(str.casefold(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class Word(StrEnum):
    """A word of the service's vocabulary; `Kind("any case")` finds the member."""

    __eq__ = _equal
    __ne__ = _unequal
    # The hash of the text, so that a dict of documented words finds the member.
    __hash__ = str.__hash__

    @classmethod
    def _missing_(cls, value: object) -> Word | None:
        if isinstance(value, str):
            folded = value.strip().casefold()
            return next((member for member in cls if member.value.casefold() == folded), None)
        return None


@unique
class RequestType(Word):
    """The mode of transport, or storage (service document, Rate request)."""

    SHIPPING = "Shipping"
    AIR_FREIGHT = "Air Freight"
    TRUCKING = "Trucking"
    WAREHOUSING = "Warehousing"


@unique
class Packaging(Word):
    """The kind of a packaging unit (service document, 4.3)."""

    PALLET = "pallet"
    CARTON = "carton"
    PIECE = "piece"


@unique
class RequestStatus(Word):
    """The state of a rate request. The service document (section 3) shows one and implies others."""

    AVAILABLE = "Available"


@unique
class OfferStatus(Word):
    """The state of an offer (service document, section 3). The word for a declined offer is not documented."""

    PENDING = "pending"
    SELECTED = "selected"


DECLINED: Final = frozenset({"declined", "rejected", "refused"})
"""Words for a declined offer. The document shows none (section 3), and no other word counts as one."""


@unique
class BidStatus(Word):
    """The state of a bid in the listing of your bids (service document, section 3)."""

    AVAILABLE = "Available"
    SELECTED = "Selected"


@unique
class SearchType(Word):
    """The requests that `requests.search` lists (service document, 4.4)."""

    ALL = "all"
    ACCEPT = "accept"
    PENDING = "pending"


@unique
class OffersType(Word):
    """The requests that `offers.search` lists (service document, 4.7)."""

    ALL = "all"
    OFFERS = "offers"
    SELECTED = "sel"
    NOT_SELECTED = "nsel"


@unique
class BidsType(Word):
    """The bids that `bids.list` lists (service document, 4.9)."""

    ACTIVE = "active"
    NOT_SELECTED = "nsel"
    SELECTED = "sel"
    OFFERS = "offers"


# The service document has only `m` and `kg` (section 2, Rate request). Other known units are converted. Unknown ones
# are refused, and never read as metres or kilograms.
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


def metres_per(unit: str | None) -> Decimal | None:
    """Return the metres in one unit; `None` for an unknown unit. A missing unit is the metre."""
    return _factor(unit, _METRES)


def kilograms_per(unit: str | None) -> Decimal | None:
    """Return the kilograms in one unit; `None` for an unknown unit. A missing unit is the kilogram."""
    return _factor(unit, _KILOGRAMS)


def _factor(unit: str | None, units: dict[Decimal, tuple[str, ...]]) -> Decimal | None:
    word = (unit or "").strip().casefold().removesuffix(".")
    return next((factor for factor, words in units.items() if word in words), None) if word else Decimal(1)
