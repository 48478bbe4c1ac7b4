"""Backfills: requests that new handlers with `from_start` have received, and must not receive as new again.

Before the first scan is complete, the store has requests that no event has reported. A backfill delivers them too, and
the feed may report them as new later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from freight_exchange.bot.delivery.absence import has_received
from freight_exchange.feed.core.changes.diff import digest
from freight_exchange.feed.events import RequestEvent, number_of

if TYPE_CHECKING:
    from freight_exchange.bot.handlers.handler import Handler
    from freight_exchange.feed.events import Event
    from freight_exchange.models import RateRequest
    from freight_exchange.store.work import Work

__all__ = ["BACKFILL_KIND", "Backfills"]

BACKFILL_KIND: Final = "earlier:"
"""Prefix of the kind of events for one new handler, whose id follows. They have requests from before it was
registered."""


class Backfills:
    """Backfills of a bot's handlers.

    Args:
        handlers: The handlers.
    """

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self._handlers = tuple(handlers)
        self._checked: tuple[Handler, ...] = ()
        self._digests: dict[tuple[str, int], bytes] = {}

    @property
    def may_repeat(self) -> bool:
        """`True` if an event may repeat a request of a backfill."""
        return bool(self._checked)

    def record(self, handler: Handler, request: RateRequest) -> None:
        """Record the content of a request that a backfill delivers before an event reports it."""
        self._digests[handler.id, request.index] = digest(request)

    def load(self, store: Work, *, may_repeat: bool) -> None:
        """Load which handlers had a backfill.

        Args:
            store: The store.
            may_repeat: Whether the feed may report requests of a backfill, or has reported some that wait for routing.
        """
        self._checked = tuple(
            handler for handler in self._handlers if may_repeat and store.has_delivery(handler.id, _kind(handler))
        )

    def repeats(self, store: Work, events: Sequence[Event]) -> Collection[tuple[int, str]]:
        """Return the numbers of events, each with a handler that has received its request by a backfill."""
        return {
            (number_of(event), handler.id)
            for event in events
            if isinstance(event, RequestEvent) and event.kind == "new"
            for handler in self._checked
            if has_received(store, handler.id, event.request.index, (_kind(handler),))
            and not self._may_tell_change(handler, event.request)
        }

    def _may_tell_change(self, handler: Handler, request: RateRequest) -> bool:
        """Return whether the request may have changed since the backfill, and the handler receives changes.

        No other event reports this change. After a restart the content that was delivered is unknown.
        """
        return handler.handles("updated") and self._digests.get((handler.id, request.index)) != digest(request)


def _kind(handler: Handler) -> str:
    return BACKFILL_KIND + handler.id
