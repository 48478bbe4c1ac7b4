"""The feed: events handed out one by one or in batches, acknowledged durably, and never made in the background."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
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
from freight_exchange.feed.events import KINDS, Event, Gap, RequestEvent, acknowledgeable
from freight_exchange.feed.journal import Journal
from freight_exchange.feed.lease import Lease
from freight_exchange.feed.poller import Poller
from freight_exchange.feed.serialization import unpack
from freight_exchange.feed.source import Source
from freight_exchange.feed.status import Explanation, FeedStatus, explain
from freight_exchange.hooks import Degraded, Hooks, Recovered
from freight_exchange.instrumentation import Instruments
from freight_exchange.models.request_filter import RequestFilter
from freight_exchange.options import Start
from freight_exchange.platform.clock import Clock
from freight_exchange.store.protocol import Binding, Store, StoredEvent
from freight_exchange.store.work import WorkStore

__all__ = ["Feed"]

_logger = logging.getLogger("freight_exchange.feed")

_BATCH: Final = 100
_SHORTEST_LEASE: Final = 90.0
_INTERVALS_A_LEASE: Final = 3


class Feed:
    """Events of rate requests: `async for event in feed`. Made by `exchange.watch()`.

    Entering it reads the first pages, unless an earlier run has, and retries through transient trouble; a wrong URL, an
    invalid certificate or a rejected login is raised. The rest of the first scan is read, page by page, while events
    are awaited. Pulling the next event acknowledges the
    one in hand, durably; leaving the loop does not, and it comes again, after a restart too. Scans are made while an
    event is awaited and at no other time: a slow reader only makes the next one look further back.

    Trouble that may pass never ends a feed: `status()` and the hooks tell of it. A rejected login ends it.
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
        patience: float,
        closes_store: bool,
        extra_requests: Callable[[], int],
    ) -> None:
        self._source = source
        self._extra_requests = extra_requests
        self.hold = Lease(store, closes_store=closes_store)
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
        self._patience = patience
        self._journal: Journal
        self._watcher: Poller
        self._queue: deque[StoredEvent] = deque()
        self._loaded = 0
        self._in_hand: dict[int, StoredEvent] = {}
        self._filtered: list[int] = []
        self._gaps: dict[int, Gap] = {}
        self._pulling = False
        self._unsure: set[int] = set()

    def __repr__(self) -> str:
        return f"<Feed {self._name!r} of {self._base_url}>"

    # Beginning and end

    async def __aenter__(self) -> Self:
        self.hold.check_free()
        self._forget_queue()
        pacer = Pacer(self._interval, Random(), self._extra_requests)
        binding = Binding(self._base_url, await self._whose(pacer), self._name)
        lease = max(_SHORTEST_LEASE, _INTERVALS_A_LEASE * self._interval)
        try:
            await self.hold.take(binding, lease=lease, standby=self._standby)
            self._journal = Journal(
                self.hold.state(), self.hold.run, start=self._start, allowance=self._allowance, now=self._clock.read()
            )
            self._watcher = Poller(
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
            await self._watcher.prime()
            await self._load(with_gaps=True)
        except BaseException:
            await self._let_go()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._let_go()

    async def _whose(self, pacer: Pacer) -> str:
        """The account, whose credentials may be somewhere that is away, as the service may be."""
        began, failures = anyio.current_time(), 0
        while True:
            try:
                account = await self._account_in_time()
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

    async def _account_in_time(self) -> str:
        with anyio.move_on_after(self._patience):
            return await self._account()
        raise DeadlineExceededError(f"no credentials were given within {self._patience:g} s")

    async def _let_go(self) -> None:
        if hasattr(self, "_watcher"):
            self._watcher.phase = "stopped"
        await self.hold.let_go()

    # Events

    def __aiter__(self) -> AsyncIterator[Event]:
        self._take_back()
        return self

    async def __anext__(self) -> Event:
        (event,) = await self._pull(1)
        return event

    def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """Events as they come from the store, up to a hundred at a time; each batch is acknowledged as one when the
        next is pulled, less what was acknowledged by itself."""
        self._take_back()
        return _Batches(partial(self._pull, _BATCH), self._take_back)

    async def ack(self) -> None:
        """Acknowledge what is in hand, without pulling more."""
        await self._acknowledge([*self._in_hand])

    async def deliver(self, handlers: Mapping[int, Sequence[str]], *, leave: Sequence[int] = ()) -> None:
        """Acknowledge events, by their numbers, and make a delivery for each handler of each: what a bot does with a
        batch, whose store keeps work as well. Those to `leave` are not acknowledged, now or by the next pull."""
        for number in leave:
            self._in_hand.pop(number, None)

        def write(numbers: Sequence[int], at: float) -> None:
            work: WorkStore = self.hold.state()  # type: ignore[assignment]  # a bot has seen to that
            work.enqueue({number: handlers.get(number, ()) for number in numbers}, at=at)

        await self._acknowledge(handlers, write)

    async def acknowledge_gaps(self) -> int:
        """Acknowledge every gap, whether it was handed out or not; how many there were."""
        numbers = [*self._gaps]
        await self._acknowledge(numbers)
        return len(numbers)

    def _take_back(self) -> None:
        """What was handed out before and not acknowledged comes again."""
        if self._unsure:
            # The store has failed, and may have written it all the same: it knows what is still to come.
            self._unsure.clear()
            self._forget_queue()
        self._queue.extendleft(reversed(self._in_hand.values()))
        self._in_hand.clear()

    def _forget_queue(self) -> None:
        """Whatever was read of the store is read again."""
        self._queue.clear()
        self._in_hand.clear()
        self._filtered.clear()
        self._loaded = 0

    async def _pull(self, most: int) -> tuple[Event, ...]:
        if not self.hold.taken:
            raise ConfigurationError("this feed is not open: use it inside `async with exchange.watch() as feed`")
        if self._pulling:
            raise ConfigurationError("this feed is being pulled by another task: give each task a feed of its own")
        self._pulling = True
        try:
            # A store that works in the loop gives nobody else a turn: its reader could not be cancelled.
            await anyio.lowlevel.checkpoint()
            await self._acknowledge([*self._in_hand])
            while True:
                if events := self._wanted(most):
                    return events
                if self._filtered:
                    await self._acknowledge([])
                if not await self._load():
                    await self._watcher.look()
                    await self._load(with_gaps=True)
                await anyio.lowlevel.checkpoint()
        finally:
            self._pulling = False

    def _wanted(self, most: int) -> tuple[Event, ...]:
        """The next events of the queue that the filter lets pass."""
        wanted: dict[int, Event] = {}
        filtered: list[int] = []
        for stored in self._queue:
            if len(wanted) == most:
                break
            event = unpack(stored.kind, stored.payload)
            # The filter may call the user's own code: should that raise, nothing has been handed out yet.
            if self._where is None or not isinstance(event, RequestEvent) or self._where.matches(event.request):
                wanted[stored.id] = acknowledgeable(event, stored.id, partial(self._acknowledge, [stored.id]))
            else:
                filtered.append(stored.id)
        for _ in range(len(wanted) + len(filtered)):
            stored = self._queue.popleft()
            if stored.id in wanted:
                self._in_hand[stored.id] = stored
        self._filtered += filtered
        self._instruments.found(self._name, [*wanted])
        return tuple(wanted.values())

    async def _load(self, *, with_gaps: bool = False) -> bool:
        """Fetch more events from the store, and the gaps where there may be others; whether there were any events."""
        held = self.hold.state()

        def read() -> None:
            found = held.pending(after=self._loaded, limit=_BATCH)
            self._queue.extend(stored for stored in found if stored.kind in KINDS)
            self._loaded = found[-1].id if found else self._loaded
            if with_gaps:
                gaps = ((stored.id, unpack(stored.kind, stored.payload)) for stored in held.pending_of_kind(Gap.kind))
                self._gaps = {number: gap for number, gap in gaps if isinstance(gap, Gap)}

        await self.hold.run(read)
        return bool(self._queue)

    async def _acknowledge(
        self, ids: Iterable[int], note: Callable[[Sequence[int], float], None] | None = None
    ) -> None:
        held = self.hold.state()
        handed_out = {*ids}
        done = {*self._filtered, *handed_out}
        if not done:
            return
        time = self.time()

        def write() -> None:
            self._unsure.update(done)
            if note is None:
                held.acknowledge(sorted(handed_out), at=time, filtered=sorted(done - handed_out))
            else:
                note(sorted(done), time)
            taken_back = False
            for number in done:
                taken_back = self._in_hand.pop(number, None) is None or taken_back
                self._gaps.pop(number, None)
            if taken_back:
                self._queue = deque(stored for stored in self._queue if stored.id not in done)
            self._unsure -= done
            # More may have been passed over while this was written.
            self._filtered = [number for number in self._filtered if number not in done]

        await self.hold.run(write)

    # What it says of itself

    def time(self) -> float:
        """Seconds on the feed's own clock, which goes forward only, through restarts too."""
        return self._journal.state.cover.time_at(self._clock.read())

    def moment(self, time: float) -> datetime:
        """When the feed's own clock said so, UTC, by this machine's clock."""
        now = self._clock.read()
        return datetime.fromtimestamp(now.wall - (self._journal.state.cover.time_at(now) - time), UTC)

    def status(self) -> FeedStatus:
        """How the feed is."""
        if not hasattr(self, "_watcher"):
            raise ConfigurationError("this feed was not entered yet: use `async with exchange.watch() as feed`")
        state, watcher = self._journal.state, self._watcher
        age = state.cover.least(self._clock.read())
        return FeedStatus(
            state=watcher.phase,
            cover_age=timedelta(seconds=min(age, 1e9)) if state.entered else None,
            last_success=watcher.last_success,
            window=timedelta(seconds=watcher.window),
            pages=watcher.pages,
            clamp=state.clamp,
            allowance=timedelta(seconds=state.allowance),
            late=state.late,
            unacknowledged=self.hold.unacknowledged,
            gaps=tuple(self._gaps.values()),
            offset_ignored=watcher.offset_ignored,
            retry_in=timedelta(seconds=watcher.quiet_for),
        )

    async def explain(self, index: int) -> Explanation:
        """Why a request was, or was not yet, handed out.

        Raises:
            ConfigurationError: The feed is not open.
            ValidationError: The index is no integer.
        """
        if not isinstance(index, int) or isinstance(index, bool):
            raise ValidationError(f"index must be an integer, not {index!r}", field="index")
        held = self.hold.state()
        seen, events = await self.hold.run(partial(held.history, index))
        now = self._clock.read()
        state = self._journal.state
        return explain(
            index, seen, events, state=state, time=state.cover.time_at(now), wall=now.wall, where=self._where
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
