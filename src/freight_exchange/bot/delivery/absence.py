"""Absence of a handler: a time in which the version of the bot that scans lacks it.

Only the replica that scans makes deliveries, and only for its own handlers. So at the start of each term it marks the
recorded handlers of new requests that it lacks. A later replica that has such a handler delivers the requests of that
time to it, and then ends the absence.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Self, get_args

import attrs

from freight_exchange.feed.core.first_scan import BASELINE
from freight_exchange.store.work import DeliveryState, Effect

if TYPE_CHECKING:
    from freight_exchange.store.protocol import TrackedRequest
    from freight_exchange.store.work import Work

__all__ = ["HANDLER_MARK", "Absence", "find_absent", "has_received", "mark_absent"]

HANDLER_MARK: Final = "handler:"
"""Key prefix of a handler's mark; the handler's id follows. Only handlers of new requests have marks."""

_STATE: Final = "absent"


@attrs.frozen(kw_only=True)
class Absence:
    """Absence of one handler, until a version that has it scans.

    Attributes:
        since: Start of the absence, on the feed's clock.
        unrouted: Indexes of requests that a scan had seen by then, but that no handler had received yet.
    """

    since: float
    unrouted: frozenset[int]

    @classmethod
    def from_effect(cls, effect: Effect | None) -> Self | None:
        """Return the absence that a mark records; `None` for any other mark, and for none."""
        if effect is None or effect.state != _STATE:
            return None
        return cls(since=effect.at, unrouted=frozenset(json.loads(effect.payload)))

    def covers(self, seen: TrackedRequest) -> bool:
        """Return whether a known request was reported as new during the absence."""
        return seen.version > BASELINE and (seen.first_seen >= self.since or seen.index in self.unrouted)

    def end(self, mark: Effect, store: Work) -> None:
        """Record the end of the absence."""
        store.put_effect(mark, expected_state=_STATE, expected_at=self.since)


def find_absent(store: Work, present: Collection[str]) -> list[Effect]:
    """Return the marks of recorded handlers that this replica lacks, without those already marked as absent."""
    marks = store.effects_under(HANDLER_MARK)
    return [mark for mark in marks if mark.state != _STATE and mark.key.removeprefix(HANDLER_MARK) not in present]


def mark_absent(store: Work, marks: Collection[Effect], absence: Absence) -> None:
    """Mark handlers as absent."""
    payload = json.dumps(sorted(absence.unrouted)).encode()
    with store.transaction():
        for mark in marks:
            absent = Effect(key=mark.key, state=_STATE, payload=payload, at=absence.since)
            store.put_effect(absent, expected_state=mark.state, expected_at=mark.at)


def has_received(store: Work, handler: str, index: int, kinds: Collection[str]) -> bool:
    """Return whether there is a delivery of a request to a handler, by an event of one of these kinds.

    If the clock of an earlier replica was ahead, a request delivered before the absence may look as if it was first
    seen during it.
    """
    return any(
        delivery.handler == handler and delivery.kind in kinds
        for state in get_args(DeliveryState)
        for delivery in store.deliveries(state=state, index=index)
    )
