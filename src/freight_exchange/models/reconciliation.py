"""The results of finding out what became of a write whose outcome was unknown."""

from __future__ import annotations

import attrs

from freight_exchange.models._base import Frozen
from freight_exchange.models.bid import Bid
from freight_exchange.models.listing import Listing
from freight_exchange.models.request import RateRequest
from freight_exchange.models.route import Route

__all__ = ["Applied", "Conflict", "NotApplied", "Reconciliation", "StillUnknown"]


@attrs.frozen(eq=False, repr=False)
class Applied(Frozen):
    """The write happened: `record` shows it."""

    record: RateRequest | Listing | Bid | Route


@attrs.frozen(eq=False, repr=False)
class NotApplied(Frozen):
    """The write did not happen: complete, agreeing readings over the settle time do not show it."""


@attrs.frozen(eq=False, repr=False)
class Conflict(Frozen):
    """`record` contradicts the write: it did not happen, or was undone since."""

    record: RateRequest | Listing | Bid | Route


@attrs.frozen(eq=False, repr=False)
class StillUnknown(Frozen):
    """Nothing was proven; `candidates` are the records most like the write."""

    candidates: tuple[RateRequest | Listing | Bid | Route, ...] = ()


Reconciliation = Applied | NotApplied | Conflict | StillUnknown
