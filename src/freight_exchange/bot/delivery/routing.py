"""How a feed's events become deliveries: every handler that wants one gets a delivery of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

from freight_exchange.bot.router import Handler
from freight_exchange.feed.events import BidSelected, Gap, RequestEvent, SchemaChanged, Unreadable, number_of
from freight_exchange.feed.serialization import pack, recall
from freight_exchange.store.protocol import AbsenceQuery, Commit, NewEvent, ReadSet
from freight_exchange.store.work import NO_LIMIT, DeliveryState, Effect

if TYPE_CHECKING:
    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.router import BotEvent
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.feed.events import Event
    from freight_exchange.feed.feed import Feed
    from freight_exchange.store.protocol import TrackedRequest
    from freight_exchange.store.work import WorkStore

__all__ = ["EARLIER", "Routing"]

_logger = logging.getLogger("freight_exchange.bot")

EARLIER: Final = "earlier:"
"""The kind of an event that is for one handler alone, whose id follows: what was there before it was registered."""

_STATES: Final[tuple[DeliveryState, ...]] = get_args(DeliveryState)

_EVER: Final = AbsenceQuery(scan=2**62, updated_after=float("-inf"))
"""Asks for every request that is kept."""


class Routing:
    """What stands between a feed and the deliveries.

    Args:
        feed: The feed, entered.
        unit_of_work: Where deliveries are made.
        handlers: The handlers.
        metrics: Where events are counted.
        wake: Called when there may be something to claim.
    """

    def __init__(
        self,
        feed: Feed,
        unit_of_work: UnitOfWork,
        handlers: Iterable[Handler],
        metrics: Metrics,
        wake: Callable[[], None],
    ) -> None:
        self._feed = feed
        self._unit_of_work = unit_of_work
        self._handlers = tuple(handlers)
        self._metrics = metrics
        self._wake = wake

    async def run(self) -> None:
        """Take in what the feed brings, for as long as it does."""
        async for batch in self._feed.batches():
            leave: list[int] = []
            deliveries: dict[int, Sequence[str]] = {}
            for event in batch:
                self._metrics.events[event.kind] += 1
                wanted = self._route(event)
                if isinstance(event, Gap) and not wanted:
                    _logger.error("nobody watched between %s and %s: a gap, which is kept", event.since, event.until)
                    leave.append(number_of(event))
                else:
                    deliveries[number_of(event)] = wanted
            await self._unit_of_work.deliver(deliveries, leave=leave)
            self._wake()

    async def note(self, marks: Sequence[Effect]) -> None:
        """Write down those of these marks that are not there yet."""
        if fresh := await self._unit_of_work.read(
            lambda store: [mark for mark in marks if store.effect(mark.key) is None]
        ):
            await self._unit_of_work.write(
                "known", lambda store: [store.put_effect(mark, expected_state=None) for mark in fresh]
            )

    async def introduce(self) -> None:
        """Tell the handlers that are to hear of what was there before them. Of the others it is noted that they came:
        whoever is to hear of it only in a later run is not new by then."""
        now = self._unit_of_work.time()
        others = [
            _mark(handler, "there", now)
            for handler in self._handlers
            if handler.takes("new") and not handler.from_start
        ]
        await self.note(others)
        for handler in self._handlers:
            if handler.from_start:
                now = self._unit_of_work.time()
                introduce = partial(self._introduce, handler=handler, now=now, moment=self._unit_of_work.moment(now))
                await self._unit_of_work.write("deliver", introduce)
                await self.hand_on(EARLIER + handler.id, (handler.id,))

    async def hand_on(self, kind: str, handlers: Sequence[str]) -> None:
        """Make deliveries of the events of a kind that no feed hands out."""
        now = self._unit_of_work.time()

        def deliver(store: WorkStore) -> None:
            store.enqueue({event.id: handlers for event in store.pending_of_kind(kind)}, at=now)

        await self._unit_of_work.write("deliver", deliver)
        self._wake()

    def selected(self) -> tuple[str, ...]:
        """The handlers of selected bids."""
        return tuple(handler.id for handler in self._handlers if handler.takes(BidSelected.kind))

    def _route(self, event: Event) -> tuple[str, ...]:
        if isinstance(event, SchemaChanged):
            _logger.warning("the service changed what it sends: %s added, %s removed", event.added, event.removed)
            return ()
        if isinstance(event, Unreadable):
            _logger.error("request %s is listed and cannot be read: %s", event.index, event.error)
        return tuple(handler.id for handler in self._handlers if _wants(handler, event))

    def _introduce(self, store: WorkStore, *, handler: Handler, now: float, moment: datetime) -> None:
        mark = _mark(handler, "introduced", now)
        if store.effect(mark.key) is not None:
            return
        # Earlier versions noted nothing of a handler that was not introduced: what it was given tells of it.
        if _was_there(store, handler):
            store.put_effect(_mark(handler, "there", now), expected_state=None)
            return
        coming = {event.index for event in store.pending_of_kind("new")}

        def events(found: ReadSet) -> Commit:
            there = (_earlier(seen, handler, moment) for seen in found.absent if seen.index not in coming)
            return Commit(events=[event for event in there if event is not None], at=now)

        store.commit(events, absence=_EVER)
        store.put_effect(mark, expected_state=None)


def _mark(handler: Handler, state: str, now: float) -> Effect:
    """What tells later runs that they know a handler of new requests."""
    return Effect(key=f"handler:{handler.id}", state=state, payload=b"", at=now)


def _was_there(store: WorkStore, handler: Handler) -> bool:
    """Whether it was ever given a new request, as far as that is kept."""
    return any(
        (delivery.handler, delivery.kind) == (handler.id, "new")
        for state in _STATES
        for delivery in store.deliveries(state=state, limit=NO_LIMIT)
    )


def _earlier(seen: TrackedRequest, handler: Handler, now: datetime) -> NewEvent | None:
    assert seen.record is not None
    event = RequestEvent(kind="new", request=recall(seen.record), observed_between=(None, now))
    if not _wants(handler, event):
        return None
    kind = EARLIER + handler.id
    return NewEvent(key=f"{kind}:{seen.index}", index=seen.index, kind=kind, payload=pack(event))


def _wants(handler: Handler, event: BotEvent) -> bool:
    try:
        return handler.wants(event)
    except Exception:
        # The user's own test failed: so will the handler, which is retried, kept and told of like any other.
        _logger.exception("the filter of the handler %r failed", handler.id)
        return handler.takes(event.kind)
