"""Feed of events about rate requests, one by one or in batches, acknowledged durably."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import attrs

from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.feed.client_parts import ClientParts
from freight_exchange.feed.core.planning.pacer import Pacer
from freight_exchange.feed.core.state import State
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.feed.events import KINDS, Event, RequestEvent
from freight_exchange.feed.options import WatchOptions
from freight_exchange.feed.scanning.journal import ScanJournal
from freight_exchange.feed.scanning.poller import Poller
from freight_exchange.feed.scanning.source import Source
from freight_exchange.feed.serialization import unpack
from freight_exchange.feed.status import Explanation, FeedStatus, explain
from freight_exchange.feed.stream import EventStream
from freight_exchange.filters import RequestFilter

__all__ = ["Feed"]


class Feed(EventStream[Event]):
    """Events of rate requests: `async for event in feed`. Made by `exchange.watch()`.

    Entering it reads the first pages, unless an earlier run has read them. Transient errors are retried. A wrong URL,
    an invalid certificate or a rejected login is raised. The rest of the first scan is read page by page, while events
    are awaited.

    Pulling the next event acknowledges the one before it, durably. Leaving the loop does not: the last event is
    delivered again, also after a restart. Scans run only while an event is awaited. After a slow reader, the next scan
    looks further back.

    Transient errors never end a feed: `status()` and the hooks report them. A rejected login ends it.
    """

    def __init__(self, source: Source, client: ClientParts, options: WatchOptions) -> None:
        super().__init__(client, options, partial(_is_wanted, options.where), kinds=KINDS, unpack=unpack)
        self._source = source
        self._watch_options = options
        self._journal: ScanJournal
        self._followed: Watermark | None = None
        self._poller: Poller

    async def _begin(self, pacer: Pacer) -> None:
        client, options = self._client, self._watch_options
        self._journal = ScanJournal(
            self.lease.state(),
            self.lease.run,
            start=options.start,
            allowance=options.allowance.total_seconds(),
            now=client.clock.read(),
            retention=options.retention.total_seconds(),
        )
        self._followed = None
        self._poller = Poller(self._source, self._journal, client, pacer, name=options.name, start=options.start)
        await (self._journal.record_clock() if options.is_idle else self._poller.prime())
        await self._queue.load(with_gaps=True)

    def _stop(self) -> None:
        if hasattr(self, "_poller"):
            self._poller.progress.stop()

    async def acknowledge_gaps(self) -> int:
        """Acknowledge all gaps, including those not delivered yet; return their number."""
        numbers = [*self._queue.gaps]
        await self._queue.acknowledge(numbers)
        return len(numbers)

    async def _scan(self) -> None:
        await (self._poller.keep_pruning(self.time) if self._watch_options.is_idle else self._poller.scan())

    # Status

    @property
    def is_idle(self) -> bool:
        """`True` if the feed sends no requests, and only holds its store and keeps its clock."""
        return self._watch_options.is_idle

    @property
    def is_primed(self) -> bool:
        """`True` once the first scan is complete: whether its finds are reported is decided."""
        return self._journal.state.is_primed

    def follow(self, state: str) -> None:
        """Take this feed's time from a state that another process committed, until this feed is entered again.

        The first call compares the wall clocks of both machines. Later calls use no wall clock, and only move the time
        forward to that of the last scan: the machine that scans now may have a clock that is ahead.
        """
        now, watermark = self._client.clock.read(), State.load(state).watermark
        if self._followed is None and not hasattr(self, "_journal"):
            self._followed = watermark.followed(now)
        elif watermark.time > self.time():
            self._followed = attrs.evolve(watermark, reading=now)

    def time(self) -> float:
        """Return the time on the feed's own clock, in seconds. It never goes back, even over restarts."""
        return self._watermark().time_at(self._client.clock.read())

    def to_utc(self, time: float) -> datetime:
        """Convert a time on the feed's own clock to UTC, by this machine's clock."""
        now = self._client.clock.read()
        return datetime.fromtimestamp(now.wall - (self._watermark().time_at(now) - time), UTC)

    def _watermark(self) -> Watermark:
        return self._journal.state.watermark if self._followed is None else self._followed

    def status(self) -> FeedStatus:
        """Return the status of the feed."""
        if not hasattr(self, "_poller"):
            raise ConfigurationError("this feed has not been entered: use `async with exchange.watch() as feed`")
        state, progress = self._journal.state, self._poller.progress
        age = state.watermark.least(self._client.clock.read())
        return FeedStatus(
            state=progress.phase,
            cover_age=timedelta(seconds=min(age, 1e9)) if state.is_entered else None,
            last_success=progress.last_success,
            window=timedelta(seconds=progress.window),
            pages=progress.pages,
            clamp=state.clamp,
            allowance=timedelta(seconds=state.allowance),
            late=state.late,
            unacknowledged=self.lease.unacknowledged,
            gaps=tuple(self._queue.gaps.values()),
            offset_ignored=progress.offset_ignored,
            retry_in=timedelta(seconds=progress.quiet_for),
        )

    async def explain(self, index: int) -> Explanation:
        """Explain why a request was delivered, or was not yet.

        Raises:
            ConfigurationError: The feed is not open.
            ValidationError: The index is not an integer.
        """
        if not isinstance(index, int) or isinstance(index, bool):
            raise ValidationError(f"index must be an integer, not {index!r}", field="index")
        held = self.lease.state()
        seen, events = await self.lease.run(partial(held.history, index))
        now = self._client.clock.read()
        state = self._journal.state
        return explain(
            index,
            seen,
            events,
            state=state,
            time=state.watermark.time_at(now),
            wall=now.wall,
            where=self._watch_options.where,
        )


def _is_wanted(where: RequestFilter | None, event: Event) -> bool:
    return where is None or not isinstance(event, RequestEvent) or where.matches(event.request)
