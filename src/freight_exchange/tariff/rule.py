"""A row of a tariff, with the conditions under which it applies to a request."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Final

import attrs

from freight_exchange.base import Serializable
from freight_exchange.models import Shipment
from freight_exchange.platform.text import fold
from freight_exchange.words import RequestType

__all__ = ["ANYWHERE", "Rule", "Unit"]

ANYWHERE: Final = "*"
"""Place of a rule that applies to all origins or destinations."""


class Unit(StrEnum):
    """The measure that a rate is charged by."""

    REVENUE_TON = "revenue ton"
    CHARGEABLE_KG = "chargeable kg"
    KG = "kg"
    M3 = "m3"
    PACKAGE = "package"
    SHIPMENT = "shipment"
    PERCENT = "percent"


@attrs.frozen(kw_only=True, repr=False)
class Rule(Serializable):
    """A row of a tariff: a rate for a charge on a lane, from a break on.

    Attributes:
        line: The line of the file, which errors name.
        type: The mode of transport.
        origin, destination: The places, folded for comparison; `*` is every place.
        currency: Three letters in upper case.
        charge: The name of the fee in an offer's `rates`.
        surcharge: True for a charge that is added to freight and makes no offer alone.
        unit: The measure that the rate is charged by.
        start: The break: the least measure for this rate. The rate applies to the whole measure.
        rate: The amount per unit, or the percentage of the freight; `None` refuses a quote from this break on.
        minimum: The least amount of the charge.
        valid_from, valid_until: The first and the last day; `None` for no limit.
        hazardous: `True` for dangerous goods only, `False` for other goods only, `None` for both.
        terms: Terms and conditions for the offer.
    """

    line: int
    type: RequestType
    origin: frozenset[str]
    destination: frozenset[str]
    currency: str
    charge: str
    surcharge: bool = False
    unit: Unit
    start: Decimal = Decimal(0)
    rate: Decimal | None
    minimum: Decimal | None = None
    valid_from: date | None = None
    valid_until: date | None = None
    hazardous: bool | None = None
    terms: str | None = None

    @property
    def precision(self) -> tuple[bool, bool]:
        """Two flags: the rule names its origin, and its destination. The most precise rules price a charge."""
        return ANYWHERE not in self.origin, ANYWHERE not in self.destination

    def serves(self, request: Shipment, on: date) -> bool:
        """Return whether the rule is for the request's mode and lane on that day, without regard to `hazardous`."""
        return (
            request.type == self.type
            and _includes(self.origin, request.origin)
            and _includes(self.destination, request.destination)
            and self._first_day <= on <= self._last_day
        )

    def contradicts(self, other: Rule) -> str | None:
        """Return the column in which two rules contradict each other; `None` if both can be in a tariff."""
        if not self._meets(other):
            return None
        if self.surcharge != other.surcharge:
            return "kind"
        if self.currency != other.currency:
            return "currency"
        if self.unit != other.unit:
            return "unit"
        return "from" if self.start == other.start else None

    def _meets(self, other: Rule) -> bool:
        """Return whether both rules can price the same charge of one request."""
        return (
            self.type == other.type
            and fold(self.charge) == fold(other.charge)
            and self.precision == other.precision
            and bool(self.origin & other.origin)
            and bool(self.destination & other.destination)
            and max(self._first_day, other._first_day) <= min(self._last_day, other._last_day)
            and (None in (self.hazardous, other.hazardous) or self.hazardous == other.hazardous)
        )

    @property
    def _first_day(self) -> date:
        return self.valid_from or date.min

    @property
    def _last_day(self) -> date:
        return self.valid_until or date.max


def _includes(places: frozenset[str], place: str | None) -> bool:
    return ANYWHERE in places or (place is not None and fold(place) in places)
