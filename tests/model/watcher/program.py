"""Program that reads the feed: it is slow, stops reading, is killed and restarted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import anyio
from tests.model.watcher.history import Delivery, Gap, Note, State, of_wire, plain
from tests.model.watcher.tap import Died, DiskFull, Tap

from freight_exchange.errors import APIStatusError
from freight_exchange.feed.events import Event, RequestEvent, SchemaChanged, Unreadable
from freight_exchange.feed.events import Gap as GapEvent
from freight_exchange.feed.serialization import unpack

if TYPE_CHECKING:
    from tests.model.watcher.schedule import Op
    from tests.model.watcher.world import World

    from freight_exchange import FreightExchange, RateRequest
    from freight_exchange.feed.feed import Feed
    from freight_exchange.options import Start
    from freight_exchange.store.protocol import StoredEvent

__all__ = ["Program"]


class Program:
    """Program that reads the feed repeatedly until it is stopped."""

    def __init__(self, world: World, exchange: FreightExchange) -> None:
        self._world = world
        self._exchange = exchange
        self._clocks = world.clocks
        self._history = world.history
        self.store = Tap(
            world.clocks,
            sqlite=world.plan.sqlite,
            written=self._written,
            covered=self._covered,
            acknowledged=self._acknowledged,
        )
        self._run_scope = anyio.CancelScope()
        self._pull = anyio.CancelScope()
        self._dawdling = anyio.CancelScope()
        self._over = False
        self._turn = 0
        self._hand: list[Delivery] = []
        self._acking: Delivery | None = None
        self._up_again = 0.0
        self._until_cancelled: int | None = None
        self._until_killed: int | None = None
        self._pause = 0.0
        self._after_failure = 1.0
        self._breaks = False
        self._in_batches = False

    # Events

    def happen(self, op: Op) -> None:
        if op.name != "overdue":
            self._world.count(f"{op.what} {op.name}".strip())
        match op.what:
            case "stop":
                self._up_again = op.at + op.amount
                self._stop(op)
            case "cancel":
                self._until_cancelled = op.which
            case "disk":
                self.store.fail_at, self._after_failure = op.which, op.amount
            case "slow":
                self._pause = op.amount
            case "break":
                self._breaks = True
            case "batches":
                self._in_batches = not self._in_batches
            case _:
                raise ValueError(f"unknown operation: {op.what}")

    def _stop(self, op: Op) -> None:
        match op.name:
            case "leave":
                self._run_scope.cancel()
            case "die":
                self._kill()
            case "die_await":
                self._until_killed = op.which
            case "overdue":
                armed = (self.store.die_at, self.store.die_at_statement, self._until_killed)
                if armed != (None, None, None):
                    self._until_killed = None
                    self._kill()
            case "die_statement" if self._world.plan.sqlite:
                self.store.die_at_statement = 3 * op.which
            case _:
                self.store.die_at = op.which

    def calm(self) -> None:
        """End all failures, including those that have not happened yet."""
        self.store.die_at = self.store.fail_at = self.store.die_at_statement = None
        self._until_cancelled = self._until_killed = None
        self._pause = 0.0
        self._dawdling.cancel()

    def end(self) -> None:
        self._over = True
        self._run_scope.cancel()

    def _kill(self) -> None:
        self.store.die()
        self._run_scope.cancel()

    # Steps

    async def run(self) -> None:
        while not self._over:
            with anyio.CancelScope() as self._run_scope:
                try:
                    await _Stepped(self._live(), self._step)
                except Died:
                    self._world.count("killed by the store")
                except DiskFull:
                    self._world.count("raised DiskFull")
                    await anyio.sleep(self._after_failure)
                except APIStatusError as error:
                    if self._history.entered is not None:
                        # Only the first scan may end with it, so that a wrong address does not look like an outage.
                        raise
                    self._world.count(f"raised {type(error).__name__}")
                    await anyio.sleep(1.0)
            if not self._over:
                await anyio.sleep(max(0.0, self._up_again - self._clocks.loop()))

    async def _live(self) -> None:
        plan = self._world.plan
        self._clocks.restart()
        self._exchange._shared.clock = self._clocks
        start: Start = plan.start if isinstance(plan.start, str) else timedelta(seconds=plan.start)
        feed = self._exchange.watch(
            store=self.store,
            start=start,
            interval=timedelta(seconds=plan.interval),
            allowance=timedelta(seconds=plan.allowance),
        )
        async with feed:
            if self._history.entered is None:
                self._history.entered = self._clocks.now()
            await self._read(feed)

    async def _read(self, feed: Feed) -> None:
        pull = self._one_by_one(feed)
        in_batches = False
        while True:
            if in_batches is not self._in_batches:
                in_batches = self._in_batches
                pull = self._by_batches(feed) if in_batches else self._one_by_one(feed)
            try:
                with anyio.CancelScope() as self._pull:
                    await self._handle(await pull(), one_by_one=in_batches)
            except DiskFull:
                self._world.count("raised DiskFull")
                with anyio.CancelScope() as self._dawdling:
                    await anyio.sleep(self._after_failure)
            if self._breaks:
                self._breaks = False
                pull, in_batches = self._one_by_one(feed), False

    def _one_by_one(self, feed: Feed) -> Callable[[], Awaitable[Sequence[Event]]]:
        self._anew()
        events = aiter(feed)

        async def pull() -> Sequence[Event]:
            return (await anext(events),)

        return pull

    def _by_batches(self, feed: Feed) -> Callable[[], Awaitable[Sequence[Event]]]:
        self._anew()
        batches = feed.batches()

        async def pull() -> Sequence[Event]:
            return await anext(batches)

        return pull

    def _anew(self) -> None:
        self._turn += 1
        self._hand = []

    async def _handle(self, events: Sequence[Event], *, one_by_one: bool) -> None:
        self._hand = [self._delivery(event) for event in events]
        self._history.deliveries += self._hand
        if self._pause:
            pause, self._pause = self._pause, 0.0
            with anyio.CancelScope() as self._dawdling:
                await anyio.sleep(pause)
        if one_by_one:
            left: set[int | None] = set()
            for place, (event, delivery) in enumerate(zip(events, self._hand, strict=True)):
                # A reader that acknowledges a later event of a request before an earlier one gets that one last.
                if place % 2 or delivery.index in left:
                    left.add(delivery.index)
                    continue
                self._acking = delivery
                try:
                    await event.ack()
                finally:
                    self._acking = None

    def _step(self) -> None:
        """Count a step before the program waits."""
        if self._until_cancelled is not None:
            self._until_cancelled -= 1
            if self._until_cancelled < 0:
                self._until_cancelled = None
                self._pull.cancel()
        if self._until_killed is not None:
            self._until_killed -= 1
            if self._until_killed < 0:
                self._until_killed = None
                self._world.count("killed while it waited")
                self._kill()

    # Records

    def _delivery(self, event: Event) -> Delivery:
        index, content = _content(event)
        return Delivery(time=self._clocks.now(), turn=self._turn, kind=event.kind, index=index, content=content)

    def _acknowledged(self, ids: Sequence[int]) -> None:
        for delivery in self._hand if self._acking is None else [self._acking]:
            delivery.acked = True

    def _written(self, stored: StoredEvent) -> None:
        event = unpack(stored.kind, stored.payload)
        now = self._clocks.now()
        if isinstance(event, GapEvent):
            off = self._clocks.stepped
            since, until = event.since.timestamp() - off, event.until.timestamp() - off
            self._history.gaps.append(Gap(time=now, since=since, until=until))
            return
        index, content = _content(event)
        self._history.notes.append(Note(time=now, kind=event.kind, index=index, content=content))

    def _covered(self, until: float) -> None:
        self._history.notes.append(Note(time=self._clocks.now(), kind="watermark", until=until))


def _content(event: Event) -> tuple[int | None, State]:
    """Return the request and the state that an event reports."""
    match event:
        case RequestEvent(request=request):
            return request.index, _state(request)
        case Unreadable(raw=dict() as raw):
            return event.index, of_wire(cast("dict[str, object]", raw))
        case Unreadable(raw=raw):
            # The world writes the index into each record that it makes unreadable.
            index = str(raw).removeprefix("Undefined index of ").partition(":")[0]
            return int(index), (str(raw),)
        case SchemaChanged():
            return None, (str(event.added), str(event.removed))
        case _:
            return None, (str(event.since), str(event.until))


def _state(request: RateRequest) -> State:
    words = (request.commodity, request.origin, request.destination, request.quantity, request.weight)
    return tuple(plain(word) for word in (*words, request.incoterm, request.hazardous, request.notes))


class _Stepped:
    """Awaitable that reports each time before it waits."""

    def __init__(self, work: Awaitable[None], step: Callable[[], None]) -> None:
        self._work = work
        self._step = step

    def __await__(self) -> Generator[Any, Any, None]:
        waits = self._work.__await__()
        try:
            wait = next(waits)
            while True:
                self._step()
                try:
                    sent = yield wait
                except GeneratorExit:
                    waits.close()
                    raise
                except BaseException as error:  # noqa: BLE001  # passed on to the waiting task
                    wait = waits.throw(error)
                else:
                    wait = waits.send(sent)
        except StopIteration:
            return
