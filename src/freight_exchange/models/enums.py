"""The service's words: closed where they are sent, open where they are read.

A field of a record holds the enum member where the word is known, in whatever case it came, and an
`UnknownWord` where it is not. Both compare equal to the same word in any case: `request.type ==
RequestType.SHIPPING`, `request.type == "shipping"`. In a set or dict a member is found by itself and by the
documented spelling (`{"Air Freight": 1}[request.type]`), and by no other, as a hash knows only one; an unknown
word is found by itself in any case and by its lower case.
"""

from __future__ import annotations

from enum import StrEnum, unique

__all__ = [
    "BidStatus",
    "BidsType",
    "OfferStatus",
    "OffersType",
    "Packaging",
    "RequestStatus",
    "RequestType",
    "SearchType",
    "UnknownWord",
    "Word",
]


def _equal(self: str, other: object) -> bool:
    return str.casefold(self) == str.casefold(other) if isinstance(other, str) else NotImplemented


def _unequal(self: str, other: object) -> bool:
    return str.casefold(self) != str.casefold(other) if isinstance(other, str) else NotImplemented


class UnknownWord(str):
    """A word the service used that this package does not know, as it was written."""

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
    # As the text it is: a plain dict of the documented words is what most callers look a member up in.
    __hash__ = str.__hash__

    @classmethod
    def _missing_(cls, value: object) -> Word | None:
        if isinstance(value, str):
            folded = value.strip().casefold()
            return next((member for member in cls if member.value.casefold() == folded), None)
        return None


@unique
class RequestType(Word):
    """How the freight is to travel, or that it is to be stored (service document, Rate request)."""

    SHIPPING = "Shipping"
    AIR_FREIGHT = "Air Freight"
    TRUCKING = "Trucking"
    WAREHOUSING = "Warehousing"


@unique
class Packaging(Word):
    """What one packaging unit is (service document, 4.3)."""

    PALLET = "pallet"
    CARTON = "carton"
    PIECE = "piece"


@unique
class RequestStatus(Word):
    """The state of a rate request; the service document (section 3) shows one and points to others."""

    AVAILABLE = "Available"


@unique
class OfferStatus(Word):
    """The state of an offer (service document, section 3). The word for a declined one is not documented."""

    PENDING = "pending"
    SELECTED = "selected"


@unique
class BidStatus(Word):
    """The state of an own bid's listing record (service document, section 3)."""

    AVAILABLE = "Available"
    SELECTED = "Selected"


@unique
class SearchType(Word):
    """Which requests `requests.search` lists (service document, 4.4)."""

    ALL = "all"
    ACCEPT = "accept"
    PENDING = "pending"


@unique
class OffersType(Word):
    """Which requests `offers.search` lists (service document, 4.7)."""

    ALL = "all"
    OFFERS = "offers"
    SELECTED = "sel"
    NOT_SELECTED = "nsel"


@unique
class BidsType(Word):
    """Which bids `bids.list` lists (service document, 4.9)."""

    ACTIVE = "active"
    NOT_SELECTED = "nsel"
    SELECTED = "sel"
    OFFERS = "offers"
