"""Metrics of a bot: counters, and the deliveries in flight."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from freight_exchange.bot.metrics.histogram import CALL_BOUNDS, HANDLER_BOUNDS, LATENCY_BOUNDS, Histograms

if TYPE_CHECKING:
    from freight_exchange.store.work import Delivery

__all__ = ["ENDINGS", "OUTCOMES", "ActiveDelivery", "InFlight", "Metrics", "log_fields"]

ENDINGS: Final = ("done", "dropped", "failed", "later", "doubt", "transient", "released", "dead")
"""Endings of an attempt."""

OUTCOMES: Final = ("confirmed", "rejected", "doubtful", "not taken")
"""Outcomes of an offer, and of an answer to one. A `doubtful` one counts again once it is resolved."""

_CANCELLATION_GRACE: Final = 5.0
_MAX_NAMED: Final = 5


def log_fields(delivery: Delivery) -> Mapping[str, object]:
    """Return the fields of log records about a delivery."""
    return {
        "event": delivery.kind,
        "number": delivery.event,
        "handler": delivery.handler,
        "request": delivery.index,
        "attempt": delivery.attempts,
    }


@attrs.define(eq=False)
class ActiveDelivery:
    """Delivery that its handler works on.

    Attributes:
        handler, kind, request: The handler's id, the event's kind and the request.
        overdue_at: Time on the loop's clock at which the handler has exceeded its timeout and ignored the cancellation.
        log_fields: Fields of its log records.
    """

    handler: str
    kind: str
    request: int | None
    overdue_at: float
    log_fields: Mapping[str, object] = attrs.field(factory=dict)

    @classmethod
    def start(cls, delivery: Delivery, timeout: float) -> ActiveDelivery:
        """Start a delivery now, with a timeout in seconds."""
        overdue_at = anyio.current_time() + timeout + _CANCELLATION_GRACE
        return cls(delivery.handler, delivery.kind, delivery.index, overdue_at, log_fields(delivery))

    def __str__(self) -> str:
        request = "" if self.request is None else f" of request {self.request}"
        return f"the handler {self.handler!r} of the event {self.kind!r}{request}"


class InFlight:
    """Deliveries in flight."""

    def __init__(self) -> None:
        self._active: dict[int, ActiveDelivery] = {}

    def __len__(self) -> int:
        return len(self._active)

    def __str__(self) -> str:
        """Return their names. Other threads may call this."""
        active = list(self._active.values())
        names = "; ".join(map(str, active[:_MAX_NAMED]))
        return names if len(active) <= _MAX_NAMED else f"{names}; and {len(active) - _MAX_NAMED} more"

    @contextmanager
    def track(self, active: ActiveDelivery) -> Iterator[None]:
        """Count a delivery as in flight during the block."""
        self._active[id(active)] = active
        try:
            yield
        finally:
            del self._active[id(active)]

    def take_overdue(self) -> Sequence[ActiveDelivery]:
        """Return the deliveries that have become overdue since the last call."""
        now = anyio.current_time()
        overdue = [active for active in self._active.values() if active.overdue_at <= now]
        for active in overdue:
            active.overdue_at = math.inf
        return overdue

    def until_overdue(self) -> float:
        """Return the seconds until the next one is overdue; infinity if there is none."""
        return min((active.overdue_at for active in self._active.values()), default=math.inf) - anyio.current_time()


@attrs.define
class Metrics:
    """Counts and durations since the process began.

    Attributes:
        events: Events by kind.
        deliveries: Ended attempts by handler and ending, one of `ENDINGS`. An attempt for several merged deliveries
            counts once for each.
        offers: Offers by outcome, one of `OUTCOMES`.
        answers: Answers to offers by outcome, one of `OUTCOMES`.
        in_flight: Deliveries in flight.
        handler_times: Durations of handlers, by handler.
        event_latencies: Times from the scan that found an event to the first call of a handler, by handler.
        call_times: Durations of calls, by operation and outcome.
    """

    events: Counter[str] = attrs.field(factory=Counter)
    deliveries: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    offers: Counter[str] = attrs.field(factory=Counter)
    answers: Counter[str] = attrs.field(factory=Counter)
    in_flight: InFlight = attrs.field(factory=InFlight)
    handler_times: Histograms = attrs.field(factory=lambda: Histograms(HANDLER_BOUNDS))
    event_latencies: Histograms = attrs.field(factory=lambda: Histograms(LATENCY_BOUNDS))
    call_times: Histograms = attrs.field(factory=lambda: Histograms(CALL_BOUNDS))

    def count_ended(self, ending: str) -> int:
        """Count the attempts with this ending, of all handlers."""
        return sum(count for (_, ended), count in self.deliveries.items() if ended == ending)
