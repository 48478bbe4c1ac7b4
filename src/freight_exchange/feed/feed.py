"""The feed: events handed out one by one or in batches, acknowledged durably, and never made in the background."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from freight_exchange.errors import ConfigurationError, DeadlineExceededError, HeldError
from freight_exchange.feed.events import Event, Gap, RequestEvent, acknowledgeable
from freight_exchange.feed.journal import Journal, Start
from freight_exchange.feed.pacer import Pacer
from freight_exchange.feed.payload import unpack
from freight_exchange.feed.status import Explanation, FeedStatus, explain
from freight_exchange.feed.watcher import Source, Watcher
from freight_exchange.store.protocol import Binding

if TYPE_CHECKING:
    from types import TracebackType

    from freight_exchange.feed.clock import Clock
    from freight_exchange.feed.filter import RequestFilter
    from freight_exchange.hooks import Hooks
    from freight_exchange.store.protocol import FeedStore, Store, StoredEvent

__all__ = ["Feed"]

_BATCH: Final = 100
_SHORTEST_LEASE: Final = 90.0
_INTERVALS_A_LEASE: Final = 3
_BETWEEN_TRIES: Final = 1.0


class Feed:
    """Events of rate requests: `async for event in feed`. Made by `exchange.watch()`.

    Entering it makes the first scan, unless an earlier run has, and goes on trying through trouble that may pass; what
    does not pass, a wrong URL or a certificate that is not valid, it raises. Pulling the next event acknowledges the
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
    ) -> None:
        self._source = source
        self._store = store
        self._account = account
        self._hooks = hooks
        self._clock = clock
        self._base_url = base_url
        self._name = name
        self._start: Start = start
        self._interval = interval.total_seconds()
        self._allowance = allowance.total_seconds()
        self._where = where
        self._standby = standby
        self._patience = patience
        self._closes_store = closes_store
        self._threads: anyio.CapacityLimiter | None = None
        self._at_work = threading.Lock()
        self._left = False
        self._held: FeedStore | None = None
        self._journal: Journal
        self._watcher: Watcher
        self._queue: deque[StoredEvent] = deque()
        self._loaded = 0
        self._in_hand: dict[int, StoredEvent] = {}
        self._passed_over: list[int] = []
        self._gaps: dict[int, Gap] = {}
        self._pulling = False

    def __repr__(self) -> str:
        return f"<Feed {self._name!r} of {self._base_url}>"

    # Beginning and end

    async def __aenter__(self) -> Self:
        if self._held is not None:
            raise ConfigurationError("this feed is entered already: make another with exchange.watch()")
        if self._left and self._closes_store:
            raise ConfigurationError("this feed was left, and its store is closed: make another with exchange.watch()")
        self._queue.clear()
        self._in_hand.clear()
        self._passed_over.clear()
        self._loaded = 0
        binding = Binding(self._base_url, await self._whose(), self._name)
        self._left = False
        try:
            await self._take(binding)
            self._journal = Journal(
                self._open(), self._run, start=self._start, allowance=self._allowance, now=self._clock.read()
            )
            self._watcher = Watcher(
                self._source,
                self._journal,
                self._hooks,
                self._clock,
                Pacer(self._interval, Random()),
                name=self._name,
                start=self._start,
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

    async def _whose(self) -> str:
        with anyio.move_on_after(self._patience):
            return (await self._account()).strip().casefold()
        raise DeadlineExceededError(f"no credentials were given within {self._patience:g} s")

    async def _take(self, binding: Binding) -> None:
        lease = max(_SHORTEST_LEASE, _INTERVALS_A_LEASE * self._interval)
        while True:
            try:
                await self._run(partial(self._open_store, binding, lease))
            except HeldError:
                if not self._standby:
                    raise
                await anyio.sleep(_BETWEEN_TRIES)
            else:
                return

    def _open_store(self, binding: Binding, lease: float) -> None:
        # Here and not by whoever waits: he may have been cancelled meanwhile.
        if not self._left:
            self._held = self._store.open(binding, lease=lease)

    async def _let_go(self) -> None:
        if hasattr(self, "_watcher"):
            self._watcher.phase = "stopped"
        self._left = True
        with anyio.CancelScope(shield=True):
            await self._run(self._give_back)

    def _give_back(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()
        if self._closes_store:
            self._store.close()

    async def _run(self, work: Callable[[], Any]) -> Any:
        if self._store.inline:
            return work()

        def alone() -> Any:
            # Whoever is cancelled natively leaves while his work goes on: the next one waits for it.
            with self._at_work:
                return work()

        return await anyio.to_thread.run_sync(alone, limiter=self._limiter())

    def _limiter(self) -> anyio.CapacityLimiter:
        # Its own, made on the loop: a program that keeps all the loop's threads busy does not stop its feed.
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(1)
        return self._threads

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

    def _take_back(self) -> None:
        """What was handed out before and not acknowledged comes again."""
        self._queue.extendleft(reversed(self._in_hand.values()))
        self._in_hand.clear()

    async def _pull(self, most: int) -> tuple[Event, ...]:
        if self._held is None:
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
                if self._passed_over:
                    await self._acknowledge([])
                if not await self._load():
                    await self._watcher.look()
                    await self._load(with_gaps=True)
        finally:
            self._pulling = False

    def _wanted(self, most: int) -> tuple[Event, ...]:
        """The next events of the queue that the filter lets pass."""
        wanted: dict[int, Event] = {}
        passed_over: list[int] = []
        for stored in self._queue:
            if len(wanted) == most:
                break
            event = unpack(stored.kind, stored.payload)
            # The filter may call the user's own code: should that raise, nothing has been handed out yet.
            if self._where is None or not isinstance(event, RequestEvent) or self._where.matches(event.request):
                wanted[stored.id] = acknowledgeable(event, partial(self._acknowledge, [stored.id]))
            else:
                passed_over.append(stored.id)
        for _ in range(len(wanted) + len(passed_over)):
            stored = self._queue.popleft()
            if stored.id in wanted:
                self._in_hand[stored.id] = stored
        self._passed_over += passed_over
        return tuple(wanted.values())

    async def _load(self, *, with_gaps: bool = False) -> bool:
        """Fetch more events from the store, and the gaps where there may be others; whether there were any events."""
        held = self._open()

        def read() -> None:
            found = held.pending(after=self._loaded, limit=_BATCH)
            self._queue.extend(found)
            self._loaded = found[-1].id if found else self._loaded
            if with_gaps:
                gaps = ((stored.id, unpack(stored.kind, stored.payload)) for stored in held.of_kind(Gap.kind))
                self._gaps = {number: gap for number, gap in gaps if isinstance(gap, Gap)}

        await self._run(read)
        return bool(self._queue)

    async def _acknowledge(self, ids: Iterable[int]) -> None:
        held = self._open()
        done = {*self._passed_over, *ids}
        if not done:
            return
        time = self._journal.state.cover.time_at(self._clock.read())

        def write() -> None:
            held.acknowledge(sorted(done), at=time)
            taken_back = False
            for number in done:
                taken_back = self._in_hand.pop(number, None) is None or taken_back
                self._gaps.pop(number, None)
            if taken_back:
                self._queue = deque(stored for stored in self._queue if stored.id not in done)
            # More may have been passed over while this was written.
            self._passed_over = [number for number in self._passed_over if number not in done]

        await self._run(write)

    def _open(self) -> FeedStore:
        if self._held is None:
            raise ConfigurationError("this feed is closed: what was not acknowledged comes again from the next one")
        return self._held

    # What it says of itself

    def status(self) -> FeedStatus:
        """How the feed is."""
        if not hasattr(self, "_watcher"):
            raise ConfigurationError("this feed was not entered yet: use `async with exchange.watch() as feed`")
        state, watcher = self._journal.state, self._watcher
        age = state.cover.least(self._clock.read())
        return FeedStatus(
            state=watcher.phase,
            cover_age=timedelta(seconds=min(age, 1e9)) if state.primed else None,
            last_success=watcher.last_success,
            window=timedelta(seconds=watcher.window),
            pages=watcher.pages,
            clamp=state.clamp,
            allowance=timedelta(seconds=state.allowance),
            late=state.late,
            unacknowledged=0 if self._held is None else self._held.unacknowledged,
            gaps=tuple(self._gaps.values()),
        )

    async def explain(self, index: int) -> Explanation:
        """Why a request was, or was not yet, handed out.

        Raises:
            ConfigurationError: The feed is not open.
        """
        held = self._open()
        seen, events = await self._run(partial(held.history, index))
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
