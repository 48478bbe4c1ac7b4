"""Routing: turn the events of the feeds into deliveries, one for each handler that an event matches.

Each handler has a cursor in each of its feeds. A handler that is new begins with the next event, or gets what is listed
first; one that was away continues where it was. Any replica that has a handler may move its cursor.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import anyio

from freight_exchange.bot.failpoints import reach
from freight_exchange.bot.handler import FEED_OF, Handler, kind_of
from freight_exchange.feed.events import Gap, StoredEvent, Unreadable, dump_event, load_event
from freight_exchange.store import work

if TYPE_CHECKING:
    from freight_exchange.bot.handler import BotEvent
    from freight_exchange.bot.run import Run
    from freight_exchange.feed.sources import Source
    from freight_exchange.store.database import Database
    from freight_exchange.store.feeds import EventRow

_logger = logging.getLogger("freight_exchange.bot")

_BATCH: Final = 500
_SHARED_SLEEP: Final = 1.0
_MAX_SLEEP: Final = 60.0


class Routing:
    """Routing of a bot's feeds."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._store = run.store
        self._handlers = run.handlers

    async def introduce(self) -> Mapping[int, Handler]:
        """Record the handlers that are new, and return all by their rows in the store."""
        wanted = [
            (handler.id, self._store.feeds[feed], any(feed in FEED_OF[kind] for kind in handler.from_start))
            for handler in self._handlers.values()
            for feed in sorted({feed for kind in handler.filters for feed in FEED_OF[kind]})
        ]
        await self._store.run(work.introduce, self._store.binding, wanted, selected=self._store.feeds["selected"])
        found = await self._cursors()
        for cursor in found:
            await self._report_loss(cursor)
        ready = await self._store.run(work.orphans, self._store.binding, [*self._handlers])
        if ready:
            _logger.error(
                "%d deliveries wait for handlers that this bot does not have: %s; they are kept",
                sum(count for _, count in ready),
                ", ".join(repr(name) for name, _ in ready),
            )
        return {cursor.id: self._handlers[cursor.handler] for cursor in found}

    async def backfill(self, source: Source) -> None:
        """Deliver what a feed lists to the new handlers that want it. The feed's first scan is complete."""
        for cursor in await self._cursors():
            if cursor.feed != self._store.feeds[source.name] or cursor.position >= 0:
                continue
            handler, after, count = self._handlers[cursor.handler], "", 0
            while found := await self._store.run(_first_events, source, cursor.feed, after, _BATCH):
                after = found[-1][0]
                # Outside of a transaction: the filter of a handler may take long.
                items = [
                    (key, subject, dump_event(event))
                    for key, subject, event in found
                    if event is not None and matches(handler, event)
                ]
                kind = "new" if source.name == "requests" else "selected"
                await self._store.run(work.add_earlier, cursor, kind, items)
                count += len(items)
            await self._store.run(work.end_backfill, cursor)
            _logger.info("the new handler %s gets %d %s from before it", handler.id, count, source.name)

    async def run(self) -> None:
        while True:
            wakeup = self._store.waiter("feed")
            if not await self._route():
                with anyio.move_on_after(_SHARED_SLEEP if self._store.is_shared else _MAX_SLEEP):
                    await wakeup.wait()

    async def _route(self) -> bool:
        """Route a batch of events of each feed, and return whether there were any."""
        found_any = False
        for feed, cursors, stored in await self._store.run(self._read):
            found_any = True
            # An event for one new handler alone has a delivery already.
            events = [(row, load_event(row.kind, row.payload)) for row in stored if not row.kind.startswith("earlier:")]
            routed = [
                work.NewDelivery(
                    cursor,
                    stored[-1].id,
                    [
                        (row.id, row.subject)
                        for row, event in events
                        if row.id > cursor.position and matches(self._handlers[cursor.handler], event)
                    ],
                )
                for cursor in cursors
                if cursor.position < stored[-1].id
            ]
            taken = {number for one in routed for number, _ in one.events}
            kept = [row.id for row, event in events if isinstance(event, Gap) and row.id not in taken]
            if feed == self._store.feeds["requests"]:
                hooks = self._run.exchange._options.hooks
                hooks.found(self._run.options.feed.name, [row.id for row, _ in events])
            reach("before route")
            has_moved = await self._store.run(work.route, feed, routed, kept=kept)
            reach("after route")
            if has_moved:
                self._log(event for row, event in events if row.id > max(cursor.position for cursor in cursors))
        return found_any

    def _read(self, db: Database) -> list[tuple[int, list[work.Cursor], list[EventRow]]]:
        """Return each feed that has events to route, with its cursors and a batch of the events."""
        by_feed: dict[int, list[work.Cursor]] = {}
        for cursor in work.cursors(db, self._store.binding, [*self._handlers]):
            if cursor.position >= 0:
                by_feed.setdefault(cursor.feed, []).append(cursor)
        found = [
            (feed, cursors, work.events_to_route(db, feed, min(cursor.position for cursor in cursors)))
            for feed, cursors in by_feed.items()
        ]
        return [one for one in found if one[-1]]

    def _log(self, events: Any) -> None:
        for event in events:
            self._run.metrics.events[kind_of(event)] += 1
            if isinstance(event, Gap):
                _logger.error(
                    "gap between %s and %s: no process watched for longer than the service looks back; requests may be"
                    " lost; without a handler, the gap is kept until it is acknowledged",
                    event.since,
                    event.until,
                )
            elif isinstance(event, Unreadable):
                _logger.error(
                    "request %s, or an offer on it, is listed but cannot be read: %s; it is delivered as unreadable",
                    event.index,
                    event.error,
                )

    async def _report_loss(self, cursor: work.Cursor) -> None:
        """Report a gap to a handler that was away for longer than events are kept."""
        lost = await self._store.run(work.lost, cursor)
        if lost is None:
            return
        gap = Gap(since=datetime.fromtimestamp(cursor.at, UTC), until=datetime.fromtimestamp(max(lost, cursor.at), UTC))
        _logger.error(
            "the handler %s was away since %s, longer than events are kept: it misses events from before %s",
            cursor.handler,
            gap.since,
            gap.until,
        )
        await self._store.run(work.add_gap, cursor, dump_event(gap))

    async def _cursors(self) -> list[work.Cursor]:
        return await self._store.run(work.cursors, self._store.binding, [*self._handlers])


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


def _first_events(
    db: Database, source: Source, feed: int, after: str, limit: int
) -> list[tuple[str, int | None, StoredEvent | None]]:
    between = None, datetime.fromtimestamp(db.now, UTC)
    return [
        (key, subject, source.event(db, "first", record, None, between, returned=False))
        for key, subject, record in work.listed_items(db, feed, after, limit)
    ]
