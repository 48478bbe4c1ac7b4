"""Routing: turn events into deliveries, one for each handler that an event matches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from freight_exchange.bot.delivery.absence import HANDLER_MARK, Absence, find_absent, has_received, mark_absent
from freight_exchange.bot.delivery.backfills import BACKFILL_KIND, Backfills
from freight_exchange.bot.handlers.handler import Handler, kind_of
from freight_exchange.feed.core.first_scan import BASELINE
from freight_exchange.feed.events import BidSelected, Gap, RequestEvent, SchemaChanged, Unreadable, number_of
from freight_exchange.feed.serialization import load_request, pack
from freight_exchange.store.protocol import Commit, NewEvent
from freight_exchange.store.work import Effect

if TYPE_CHECKING:
    from freight_exchange.bot.handlers.handler import BotEvent
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.feed.events import Event
    from freight_exchange.feed.feed import Feed
    from freight_exchange.store.protocol import TrackedRequest
    from freight_exchange.store.work import WorkStore

__all__ = ["Routing", "matches"]

_logger = logging.getLogger("freight_exchange.bot")

_BATCH: Final = 500
"""Known requests that are delivered to a new handler in one transaction."""


class Routing:
    """Routing of a feed's events into deliveries.

    Args:
        feed: The feed, entered.
        unit_of_work: Store of deliveries.
        handlers: The handlers.
        metrics: Counts events.
        wake: Called when a delivery may be due.
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
        self._backfills = Backfills(self._handlers)

    async def run(self) -> None:
        """Turn the feed's events into deliveries until cancelled."""
        async for batch in self._feed.batches():
            leave: list[int] = []
            deliveries: dict[int, Sequence[str]] = {}
            repeats: Collection[tuple[int, str]] = ()
            if self._backfills.may_repeat:
                repeats = await self._unit_of_work.read(partial(self._backfills.repeats, events=batch))
            for event in batch:
                self._metrics.events[event.kind] += 1
                matching = [name for name in self._route(event) if (number_of(event), name) not in repeats]
                if isinstance(event, Gap) and not matching:
                    _logger.error(
                        "gap between %s and %s: no process watched for longer than the service looks back; requests"
                        " may be lost; the gap is kept until it is acknowledged",
                        event.since,
                        event.until,
                    )
                    leave.append(number_of(event))
                else:
                    deliveries[number_of(event)] = matching
            await self._unit_of_work.deliver(deliveries, leave=leave)
            self._wake()

    async def record_marks(self, marks: Sequence[Effect]) -> None:
        """Record the marks that the store lacks."""
        if missing := await self._unit_of_work.read(
            lambda store: [mark for mark in marks if store.effect(mark.key) is None]
        ):
            await self._unit_of_work.write(
                "known", lambda store: [store.put_effect(mark, expected_state=None) for mark in missing]
            )

    async def introduce_handlers(self) -> None:
        """Backfill handlers that are new with `from_start`, or return from an absence, and record the others.

        A later `from_start` of a recorded handler is ignored. Recorded handlers that this replica lacks become absent.
        """
        await self._begin_absences()
        now = self._unit_of_work.time()
        others = [
            _handler_mark(handler, "there", now)
            for handler in self._handlers
            if handler.handles("new") and not handler.from_start
        ]
        await self.record_marks(others)
        for handler in self._handlers:
            if handler.from_start:
                await self._backfill(handler)
                # An earlier version may have ended between the events and their deliveries.
                await self.deliver_kind(BACKFILL_KIND + handler.id, (handler.id,))
            if handler.handles("new"):
                await self._end_absence(handler)
        may_repeat = not self._feed.is_primed or bool(await self._unit_of_work.read(_pending_requests))
        await self._unit_of_work.read(partial(self._backfills.load, may_repeat=may_repeat))

    async def deliver_kind(self, kind: str, handlers: Sequence[str]) -> None:
        """Make deliveries of the pending events of a kind that the feed does not yield."""
        now = self._unit_of_work.time()

        def deliver(store: WorkStore) -> None:
            store.enqueue({event.id: handlers for event in store.pending_of_kind(kind)}, at=now)

        await self._unit_of_work.write("deliver", deliver)
        self._wake()

    def selection_handlers(self) -> tuple[str, ...]:
        """Return the ids of the handlers of selected bids."""
        return tuple(handler.id for handler in self._handlers if handler.handles(BidSelected.kind))

    def _route(self, event: Event) -> tuple[str, ...]:
        if isinstance(event, SchemaChanged):
            _logger.warning(
                "the schema of the service changed: fields added: %s; fields removed: %s", event.added, event.removed
            )
            return ()
        if isinstance(event, Unreadable):
            _logger.error(
                "request %s is listed but cannot be read: %s; it is delivered as unreadable", event.index, event.error
            )
        return tuple(handler.id for handler in self._handlers if matches(handler, event))

    async def _backfill(self, handler: Handler) -> None:
        """Deliver the known requests to a new handler, and then mark it."""
        now = self._unit_of_work.time()
        mark = _handler_mark(handler, "introduced", now)
        if await self._unit_of_work.read(lambda store: store.effect(mark.key)) is not None:
            return
        # Earlier versions left no mark of handlers without `from_start`; their deliveries show that they existed. The
        # marks of other handlers say nothing about this one: a process may end between two of them.
        if await self._unit_of_work.read(lambda store: store.has_delivery(handler.id, "new")):
            await self.record_marks([_handler_mark(handler, "there", now)])
            return
        await self._deliver_known(handler, lambda _, seen: True)
        await self.record_marks([mark])

    async def _begin_absences(self) -> None:
        """Mark the recorded handlers of new requests that this replica lacks. No scan runs meanwhile."""
        present = {handler.id for handler in self._handlers if handler.handles("new")}
        if not (marks := await self._unit_of_work.read(lambda store: find_absent(store, present))):
            return
        unrouted = await self._unit_of_work.read(_pending_requests)
        if not self._feed.is_primed:
            # A request that the first scan has found may be reported later.
            last: TrackedRequest | None = None
            while batch := await self._unit_of_work.read(partial(_live_requests, after=last)):
                last = batch[-1]
                unrouted |= {seen.index for seen in batch if seen.version <= BASELINE}
        absence = Absence(since=self._unit_of_work.time(), unrouted=frozenset(unrouted))
        await self._unit_of_work.write("known", lambda store: mark_absent(store, marks, absence))
        _logger.warning(
            "handlers %s receive no new requests while this version of the bot scans, because it lacks them; a version"
            " that has them delivers these requests once it scans",
            ", ".join(mark.key.removeprefix(HANDLER_MARK) for mark in marks),
        )

    async def _end_absence(self, handler: Handler) -> None:
        """Deliver to a handler the requests of its absence, and then end the absence."""
        mark = _handler_mark(handler, "there", self._unit_of_work.time())
        absence = Absence.from_effect(await self._unit_of_work.read(lambda store: store.effect(mark.key)))
        if absence is None:
            return
        kinds = ("new", BACKFILL_KIND + handler.id)

        def was_missed(store: WorkStore, seen: TrackedRequest) -> bool:
            return absence.covers(seen) and not has_received(store, handler.id, seen.index, kinds)

        count = await self._deliver_known(handler, was_missed)
        await self._unit_of_work.write("known", partial(absence.end, mark))
        _logger.info(
            "the handler %s was absent while another version of the bot scanned; delivering %d requests of that time to"
            " it",
            handler.id,
            count,
        )

    async def _deliver_known(self, handler: Handler, is_wanted: Callable[[WorkStore, TrackedRequest], bool]) -> int:
        """Deliver known requests to a handler, in batches, and return their number.

        No scan and no routing runs meanwhile. If the process ends before its caller marks the handler, the next one
        begins again, and the keys of the events prevent a second delivery.
        """
        now, count = self._unit_of_work.time(), 0
        moment = self._unit_of_work.to_utc(now)
        pending = await self._unit_of_work.read(_pending_requests)

        def make_events(store: WorkStore, batch: Sequence[TrackedRequest]) -> Sequence[NewEvent]:
            known = [seen for seen in batch if seen.index not in pending and is_wanted(store, seen)]
            events = (self._backfill_event(seen, handler, moment) for seen in known)
            return [event for event in events if event is not None]

        last: TrackedRequest | None = None
        while batch := await self._unit_of_work.read(partial(_live_requests, after=last)):
            last = batch[-1]
            # Outside of a transaction: the filter of a handler may take long, and a database ends slow transactions.
            events = await self._unit_of_work.read(partial(make_events, batch=batch))
            if events:
                await self._unit_of_work.write("deliver", partial(_deliver, handler=handler, events=events, now=now))
                self._wake()
            count += len(events)
        return count

    def _backfill_event(self, seen: TrackedRequest, handler: Handler, now: datetime) -> NewEvent | None:
        assert seen.record is not None
        event = RequestEvent(kind="new", request=load_request(seen.record), observed_between=(None, now))
        if not matches(handler, event):
            return None
        if seen.version <= BASELINE:
            self._backfills.record(handler, event.request)
        kind = BACKFILL_KIND + handler.id
        return NewEvent(key=f"{kind}:{seen.index}", index=seen.index, kind=kind, payload=pack(event))


def _handler_mark(handler: Handler, state: str, now: float) -> Effect:
    """Make the mark by which later runs recognise a handler of new requests."""
    return Effect(key=HANDLER_MARK + handler.id, state=state, payload=b"", at=now)


def _live_requests(store: WorkStore, *, after: TrackedRequest | None) -> Sequence[TrackedRequest]:
    return store.live_requests(after=after, limit=_BATCH)


def _pending_requests(store: WorkStore) -> set[int]:
    """Return the new requests that no handler has received yet."""
    return {new.index for new in store.pending_of_kind("new") if new.index is not None}


def _deliver(store: WorkStore, *, handler: Handler, events: Sequence[NewEvent], now: float) -> None:
    """Add events for one handler alone, and their deliveries."""
    with store.transaction():
        store.commit(lambda _: Commit(events=events, at=now))
        added = store.pending_of_kind(BACKFILL_KIND + handler.id)
        store.enqueue({event.id: (handler.id,) for event in added}, at=now)


def matches(handler: Handler, event: BotEvent) -> bool:
    """Return whether a handler is called for an event. A handler whose filter fails is called, too."""
    try:
        return handler.matches(event)
    except Exception:
        # The call repeats the filter and fails in the same way, but is retried, and its error is stored and logged.
        _logger.exception(
            "the filter of the handler %r failed; the handler is called, and fails in the same way", handler.id
        )
        return handler.handles(kind_of(event))
