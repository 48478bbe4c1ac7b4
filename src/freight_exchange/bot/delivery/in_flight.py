"""Which handlers are at work, on what, and how long they should be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio
import attrs

if TYPE_CHECKING:
    from freight_exchange.store.work import Delivery

__all__ = ["ActiveDelivery", "InFlight", "about"]

_TO_HEED: Final = 5.0
_NAMED: Final = 5


def about(delivery: Delivery) -> Mapping[str, object]:
    """What the records of a log say of a delivery beside their words."""
    return {
        "event": delivery.kind,
        "number": delivery.event,
        "handler": delivery.handler,
        "request": delivery.index,
        "attempt": delivery.attempts,
    }


@attrs.define(eq=False)
class ActiveDelivery:
    """One delivery at its handler.

    Attributes:
        handler, kind, request: What is at work, and on what.
        until: When it is late, on the loop's clock: its time limit is over, and it has had time to heed that.
        about: What the records of a log say of it.
    """

    handler: str
    kind: str
    request: int | None
    until: float
    about: Mapping[str, object] = attrs.field(factory=dict)

    @classmethod
    def of(cls, delivery: Delivery, limit: float) -> ActiveDelivery:
        """That of this delivery, beginning now, whose handler has so many seconds."""
        late = anyio.current_time() + limit + _TO_HEED
        return cls(delivery.handler, delivery.kind, delivery.index, late, about(delivery))

    def __str__(self) -> str:
        of = "" if self.request is None else f" of request {self.request}"
        return f"the handler {self.handler!r} of the event {self.kind!r}{of}"


class InFlight:
    """The deliveries at their handlers now."""

    def __init__(self) -> None:
        self._stints: dict[int, ActiveDelivery] = {}

    def __len__(self) -> int:
        return len(self._stints)

    def __str__(self) -> str:
        """Who they are; another thread may ask too."""
        found = list(self._stints.values())
        named = "; ".join(map(str, found[:_NAMED]))
        return named if len(found) <= _NAMED else f"{named}; and {len(found) - _NAMED} more"

    @contextmanager
    def on(self, stint: ActiveDelivery) -> Iterator[None]:
        """One more, for as long as the block lasts."""
        self._stints[id(stint)] = stint
        try:
            yield
        finally:
            del self._stints[id(stint)]

    def late(self) -> Sequence[ActiveDelivery]:
        """Those that have become late since this was last asked."""
        now = anyio.current_time()
        found = [stint for stint in self._stints.values() if stint.until <= now]
        for stint in found:
            stint.until = math.inf
        return found

    def next_late(self) -> float:
        """Seconds until another one is late; infinity for never."""
        return min((stint.until for stint in self._stints.values()), default=math.inf) - anyio.current_time()
