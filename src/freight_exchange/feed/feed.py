"""Feed of events about rate requests, one by one or in batches, acknowledged durably."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.lowlevel

from freight_exchange.errors import ConfigurationError, DeadlineExceededError, ValidationError
from freight_exchange.errors.transient import READ_ERRORS, is_transient
from freight_exchange.feed.core.pacer import Pacer
from freight_exchange.feed.events import Event, number_of
from freight_exchange.feed.lease import Lease
from freight_exchange.feed.queue import BATCH, EventQueue
from freight_exchange.feed.scanning.journal import Journal
from freight_exchange.feed.scanning.poller import Poller
from freight_exchange.feed.scanning.source import Source
from freight_exchange.feed.status import Explanation, FeedStatus, explain
from freight_exchange.hooks import Degraded, Hooks, Recovered
from freight_exchange.instrumentation import Instruments
from freight_exchange.models.request_filter import RequestFilter
from freight_exchange.options import Start
from freight_exchange.platform.clock import Clock
from freight_exchange.store.protocol import Binding, Store
from freight_exchange.store.work import WorkStore

__all__ = ["Feed"]

_logger = logging.getLogger("freight_exchange.feed")

_SHORTEST_LEASE: Final = 90.0
_INTERVALS_OF_A_LEASE: Final = 3


class Feed:
    """Events of rate requests: `async for event in feed`. Made by `exchange.watch()`.

    Entering it reads the first pages, unless an earlier run has, and retries through transient trouble; a wrong URL, an
    invalid certificate or a rejected login is raised. The rest of the first scan is read, page by page, while events
    are awaited. Pulling the next event acknowledges the one in hand, durably; leaving the loop does not, and it comes
    again, after a restart too. Scans run only while an event is awaited: a slow reader makes the next one look further
    back.

    Transient trouble never ends a feed: `status()` and the hooks report it. A rejected login ends it.
    """

    def __init__(
        self,
        source: Source,
        store: Store,
        account: Callable[[], Awaitable[str]],
        hooks: Hooks,
        clock: Clock,
        instruments: Instruments,
        *,
        base_url: str,
        name: str,
        start: Start,
        interval: timedelta,
        allowance: timedelta,
        where: RequestFilter | None,
        standby: bool,
        account_timeout: float,
        closes_store: bool,
        extra_requests: Callable[[], int],
    ) -> None:
        self._source = source
        self._extra_requests = extra_requests
        self.lease = Lease(store, closes_store=closes_store)
        self._account = account
        self._hooks = hooks
        self._clock = clock
        self._instruments = instruments
        self._base_url = base_url
        self._name = name
        self._start: Start = start
        self._interval = interval.total_seconds()
        self._allowance = allowance.total_seconds()
        self._where = where
        self._standby = standby
        self._account_timeout = account_timeout
        self._journal: Journal
        self._poller: Poller
        self._queue = EventQueue(self.lease, where, self.time)
        self._is_pulled = False

    def __repr__(self) -> str:
        return f"<Feed {self._name!r} of {self._base_url}>"

    # Beginning and end

    async def __aenter__(self) -> Self:
        self.lease.check_free()
        self._queue.reset()
        pacer = Pacer(self._interval, Random(), self._extra_requests)
        binding = Binding(self._base_url, await self._resolve_account(pacer), self._name)
        lease_time = max(_SHORTEST_LEASE, _INTERVALS_OF_A_LEASE * self._interval)
        try:
            await self.lease.take(binding, lease=lease_time, standby=self._standby)
            self._journal = Journal(
                self.lease.state(), self.lease.run, start=self._start, allowance=self._allowance, now=self._clock.read()
            )
            self._poller = Poller(
                self._source,
                self._journal,
                self._hooks,
                self._clock,
                pacer,
                name=self._name,
                start=self._start,
                url=self._base_url,
                instruments=self._instruments,
            )
            await self._poller.prime()
            await self._queue.load(with_gaps=True)
        except BaseException:
            await self._let_go()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._let_go()

    async def _resolve_account(self, pacer: Pacer) -> str:
        """Return the account; a source of credentials may be down, as the service may be."""
        began, failures = anyio.current_time(), 0
        while True:
            try:
                account = await self._account_within_timeout()
            except READ_ERRORS as error:
                if not is_transient(error):
                    raise
                if not failures:
                    _logger.warning(
                        "the feed %r has no credentials for %s: %s; asking again", self._name, self._base_url, error
                    )
                    await self._hooks.emit(Degraded(feed=self._name, error=error))
                await anyio.sleep(pacer.backoff(failures))
                failures += 1
            else:
                if failures:
                    await self._hooks.emit(Recovered(feed=self._name, after=anyio.current_time() - began))
                return account.strip().casefold()

    async def _account_within_timeout(self) -> str:
        with anyio.move_on_after(self._account_timeout):
            return await self._account()
        raise DeadlineExceededError(f"no credentials were given within {self._account_timeout:g} s")

    async def _let_go(self) -> None:
        if hasattr(self, "_poller"):
            self._poller.progress.stop()
        await self.lease.let_go()

    # Events

    def __aiter__(self) -> AsyncIterator[Event]:
        self._queue.take_back()
        return self

    async def __anext__(self) -> Event:
        (event,) = await self._pull(1)
        return event

    def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """Iterate over events in batches of up to a hundred.

        Pulling the next batch acknowledges the one in hand, except for events that were acknowledged before.
        """
        self._queue.take_back()
        return _Batches(partial(self._pull, BATCH), self._queue.take_back)

    async def ack(self) -> None:
        """Acknowledge the events in hand without pulling more."""
        await self._queue.acknowledge([*self._queue.in_hand])

    async def deliver(self, handlers: Mapping[int, Sequence[str]], *, leave: Sequence[int] = ()) -> None:
        """Acknowledge a bot's events and enqueue their deliveries, in one transaction.

        Args:
            handlers: Handlers of each event, by the event's number.
            leave: Numbers of events that neither this call nor the next pull acknowledges.
        """
        for number in leave:
            self._queue.in_hand.pop(number, None)

        def write(numbers: Sequence[int], at: float) -> None:
            work: WorkStore = self.lease.state()  # type: ignore[assignment]  # a bot has checked that
            work.enqueue({number: handlers.get(number, ()) for number in numbers}, at=at)

        await self._queue.acknowledge(handlers, write)

    async def acknowledge_gaps(self) -> int:
        """Acknowledge every gap, delivered or not; return how many there were."""
        numbers = [*self._queue.gaps]
        await self._queue.acknowledge(numbers)
        return len(numbers)

    async def _pull(self, most: int) -> tuple[Event, ...]:
        if not self.lease.is_held:
            raise ConfigurationError("this feed is not open: use it inside `async with exchange.watch() as feed`")
        if self._is_pulled:
            raise ConfigurationError("this feed is being pulled by another task: give each task a feed of its own")
        self._is_pulled = True
        try:
            # A store that works in the event loop gives no other task a turn: its reader could not be cancelled.
            await anyio.lowlevel.checkpoint()
            await self._queue.acknowledge([*self._queue.in_hand])
            while True:
                if events := self._queue.deliver(most):
                    self._instruments.found(self._name, [number_of(event) for event in events])
                    return events
                if self._queue.filtered:
                    await self._queue.acknowledge([])
                if not await self._queue.load():
                    await self._poller.scan()
                    await self._queue.load(with_gaps=True)
                await anyio.lowlevel.checkpoint()
        finally:
            self._is_pulled = False

    # Status

    def time(self) -> float:
        """Return the time on the feed's own clock in seconds; it never goes back, not even over restarts."""
        return self._journal.state.watermark.time_at(self._clock.read())

    def moment(self, time: float) -> datetime:
        """Return the time of day of a time on the feed's own clock, UTC, by this machine's clock."""
        now = self._clock.read()
        return datetime.fromtimestamp(now.wall - (self._journal.state.watermark.time_at(now) - time), UTC)

    def status(self) -> FeedStatus:
        """Return the status of the feed."""
        if not hasattr(self, "_poller"):
            raise ConfigurationError("this feed was not entered yet: use `async with exchange.watch() as feed`")
        state, progress = self._journal.state, self._poller.progress
        age = state.watermark.least(self._clock.read())
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
            ValidationError: The index is no integer.
        """
        if not isinstance(index, int) or isinstance(index, bool):
            raise ValidationError(f"index must be an integer, not {index!r}", field="index")
        held = self.lease.state()
        seen, events = await self.lease.run(partial(held.history, index))
        now = self._clock.read()
        state = self._journal.state
        return explain(
            index, seen, events, state=state, time=state.watermark.time_at(now), wall=now.wall, where=self._where
        )


class _Batches(AsyncIterator[tuple[Event, ...]]):
    def __init__(self, pull: Callable[[], Awaitable[tuple[Event, ...]]], take_back: Callable[[], None]) -> None:
        self._pull = pull
        self._take_back = take_back

    def __aiter__(self) -> _Batches:
        self._take_back()
        return self

    async def __anext__(self) -> tuple[Event, ...]:
        return await self._pull()
