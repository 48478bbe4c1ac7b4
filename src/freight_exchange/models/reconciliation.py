"""Results of the reconciliation of a write whose outcome was unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeAlias

import attrs

from freight_exchange.models._base import Frozen
from freight_exchange.models.bid import Bid
from freight_exchange.models.listing import Listing
from freight_exchange.models.request import RateRequest
from freight_exchange.models.route import Route

__all__ = ["Applied", "Conflict", "NotApplied", "Reconciliation", "RecordT_co", "StillUnknown", "WrittenRecord"]


WrittenRecord: TypeAlias = RateRequest | Listing | Bid | Route
"""A record that shows the effect of a write."""

if TYPE_CHECKING:
    # The typing module of Python 3.11 has no defaults; type checkers support them.
    from typing_extensions import TypeVar

    RecordT_co = TypeVar("RecordT_co", bound=WrittenRecord, default=WrittenRecord, covariant=True)
else:
    from typing import TypeVar

    RecordT_co = TypeVar("RecordT_co", bound=WrittenRecord, covariant=True)


@attrs.frozen(eq=False, repr=False)
class Applied(Frozen, Generic[RecordT_co]):
    """The write happened: `record` shows it."""

    record: RecordT_co


@attrs.frozen(eq=False, repr=False)
class NotApplied(Frozen):
    """The write did not happen: complete, agreeing readings over the settle time do not show it."""


@attrs.frozen(eq=False, repr=False)
class Conflict(Frozen, Generic[RecordT_co]):
    """`record` contradicts the write, which did not happen or was undone later."""

    record: RecordT_co


@attrs.frozen(eq=False, repr=False)
class StillUnknown(Frozen, Generic[RecordT_co]):
    """Nothing was proven; `candidates` are the records most like the write."""

    candidates: tuple[RecordT_co, ...] = ()


Reconciliation: TypeAlias = Applied[RecordT_co] | NotApplied | Conflict[RecordT_co] | StillUnknown[RecordT_co]
"""Result of reconciling a write."""
