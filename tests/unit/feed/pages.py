"""Pages of requests, and the result of classifying them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from freight_exchange.errors import DecodeError
from freight_exchange.feed.core.changes.classify import Classification, classify
from freight_exchange.feed.core.changes.observation import Observation, RecentUpdates, Schema
from freight_exchange.feed.serialization import unpack
from freight_exchange.models import RateRequest
from freight_exchange.store.protocol import TrackedRequest

__all__ = ["NOON", "NOT_ONE", "OBSERVATION", "look", "reported", "request"]

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
OBSERVATION: Final = Observation(
    scan=5,
    sent=1000.0,
    window=95,
    is_silent=False,
    covered=900.0,
    between=(NOON, NOON),
    schema=Schema(),
)
NOT_ONE: Final = RecentUpdates(frozenset(), 95)


def request(index: int = 1, **fields: Any) -> RateRequest:
    return RateRequest(index=index, **({"origin": "Oslo"} | fields))


def look(
    records: Sequence[RateRequest],
    known: Mapping[int, TrackedRequest] | None = None,
    *,
    broken: Iterable[DecodeError] = (),
    **changes: Any,
) -> tuple[Classification, dict[int, TrackedRequest]]:
    """Classify a page, and return the result and the known requests."""
    meaning = classify(records, broken, known or {}, attrs.evolve(OBSERVATION, **changes))
    return meaning, {**(known or {}), **{row.index: row for row in meaning.tracked}}


def reported(meaning: Classification) -> list[Any]:
    return [unpack(event.kind, event.payload) for event in meaning.events]
