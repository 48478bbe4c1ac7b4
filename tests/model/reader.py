"""Program that reads a feed: it is slow, cancelled, killed and restarted, and its disk is full at times."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Literal

import anyio
import attrs
from tests.model.support import Disk, Service

from freight_exchange import FreightExchange, FreightExchangeError, StoreError

__all__ = ["Delivery", "Reader"]

_AGAIN = 1.0
"""Seconds after which the program tries again what an error ended."""


@attrs.define(eq=False)
class Delivery:
    """Event that the program received.

    Attributes:
        turn: Number of the iterator that delivered it. A later one delivers unacknowledged events again.
        acked: `maybe` if the program ended during the acknowledgement.
    """

    time: float
    turn: int
    event: Any
    acked: Literal["no", "maybe", "yes"] = "no"


class Reader:
    """Program that reads a feed repeatedly until it is ended.

    Args:
        service: The service.
        disk: Folder of the store.
        client: Makes a client, for each life of the program.
        watch: Makes the feed from a client and a store.

    Attributes:
        deliveries: What the program received, in order.
        entered: When the feed was entered for the first time.
        feed: The feed, while it is open.
        down_until: When the program starts again, by the loop's clock.
        reboots: Whether the machine restarts with the program.
        lives: Times at which the program started.
    """

    def __init__(
        self,
        service: Service,
        disk: Disk,
        client: Callable[[], FreightExchange],
        watch: Callable[[FreightExchange, Any], Any],
        *,
        reboots: bool = False,
    ) -> None:
        self._service = service
        self._disk = disk
        self._client = client
        self.watch = watch
        self.reboots = reboots
        self.deliveries: list[Delivery] = []
        self.lives: list[float] = []
        self.entered: float | None = None
        self.feed: Any = None
        self.down_until = 0.0
        self._life = self._pull = self._pause = anyio.CancelScope()
        self._is_over = self._is_killed = False
        self._kills_on_error = False
        self._turn = 0
        self._hand: list[Delivery] = []
        self._until_cancelled: int | None = None
        self._until_killed: int | None = None
        self._waits = 0.0
        self._breaks = self._in_batches = False

    # What happens to it

    def leave(self, down: float = 0.0) -> None:
        """End the program in order, for so many seconds."""
        self._service.counts["program ended"] += 1
        self.down_until = anyio.current_time() + down
        self._life.cancel()

    def kill(self, down: float = 0.0, *, waits: int | None = None, pages: int | None = None) -> None:
        """Kill the program: now, when it has waited so many times, or when it has written so many pages."""
        self.down_until = anyio.current_time() + down
        if pages is not None:
            self._disk.fill(pages)
            self._kills_on_error = True
        elif waits is not None:
            self._until_killed = waits
        else:
            self._die("killed")

    def kill_overdue(self) -> None:
        """Kill the program if it has lived through a delayed kill so far."""
        if self._until_killed is not None or self._kills_on_error:
            self._die("killed late")

    def cancel(self, waits: int) -> None:
        """Cancel the program's wait for an event after so many steps."""
        self._until_cancelled = waits

    def fill_disk(self, pages: int) -> None:
        self._disk.fill(pages)

    def free_disk(self) -> None:
        if not self._kills_on_error:
            self._disk.recover()

    def pause(self, seconds: float) -> None:
        """Hold the next event for so long."""
        self._waits = seconds

    def begin_anew(self) -> None:
        """Leave the loop with an event in hand, and enter it again."""
        self._breaks = True

    def switch(self) -> None:
        """Read in batches from now on, or one by one."""
        self._in_batches = not self._in_batches

    def calm(self) -> None:
        """End all failures, including those that are yet to come."""
        self._disk.recover()
        self._until_cancelled = self._until_killed = None
        self._kills_on_error = False
        self._waits = 0.0
        self._pause.cancel()

    def end(self) -> None:
        self._is_over = True
        self._life.cancel()

    def _die(self, how: str) -> None:
        if self._is_killed:
            return
        self._service.counts[how] += 1
        self._until_killed, self._kills_on_error = None, False
        # What the old life does while it is cancelled, it does to files that nothing opens again.
        self._disk.kill()
        self._is_killed = True
        self._life.cancel()

    # Its life

    async def run(self) -> None:
        while not self._is_over:
            with anyio.CancelScope() as self._life:
                await _Stepped(self._live(), self._step)
            self.feed = None
            if self.reboots:
                self._service.sandbox.machine.reboot()
            if not self._is_over:
                await anyio.sleep(max(_AGAIN, self.down_until - anyio.current_time()))

    async def _live(self) -> None:
        self._is_killed = False
        self.lives.append(self._service.now)
        store = self._disk.open()
        try:
            async with self._client() as exchange, self.watch(exchange, store) as self.feed:
                if self.entered is None:
                    self.entered = self._service.now
                await self._read()
        except FreightExchangeError as error:
            self._raised(error)

    async def _read(self) -> None:
        pull, in_batches = self._iterator(), self._in_batches
        while True:
            if self._breaks or in_batches is not self._in_batches:
                self._breaks, in_batches = False, self._in_batches
                pull = self._iterator()
            try:
                with anyio.CancelScope() as self._pull:
                    await self._handle(await self._pulled(pull))
            except StoreError as error:
                self._raised(error)
                await anyio.sleep(_AGAIN)

    def _iterator(self) -> Callable[[], Awaitable[Sequence[Any]]]:
        self._turn += 1
        self._hand = []
        if self._in_batches:
            batches = self.feed.batches()
            return lambda: anext(batches)
        events = aiter(self.feed)

        async def one() -> Sequence[Any]:
            return (await anext(events),)

        return one

    async def _pulled(self, pull: Callable[[], Awaitable[Sequence[Any]]]) -> Sequence[Any]:
        for delivery in self._hand:
            delivery.acked = "maybe" if delivery.acked == "no" else delivery.acked
        events = await pull()
        # What a killed program still does, it does to files that are lost.
        for delivery in () if self._is_killed else self._hand:
            delivery.acked = "yes"
        return events

    async def _handle(self, events: Sequence[Any]) -> None:
        if self._is_killed:
            return
        self._hand = [Delivery(self._service.now, self._turn, event) for event in events]
        self.deliveries += self._hand
        if self._waits:
            seconds, self._waits = self._waits, 0.0
            with anyio.CancelScope() as self._pause:
                await anyio.sleep(seconds)
        if self._in_batches:
            # Each second event is acknowledged alone, before those that came earlier.
            for delivery in self._hand[::2]:
                delivery.acked = "maybe"
                await delivery.event.ack()
                if not self._is_killed:
                    delivery.acked = "yes"

    def _raised(self, error: FreightExchangeError) -> None:
        self._service.counts[f"raised {type(error).__name__}"] += 1
        if isinstance(error, StoreError) and self._kills_on_error:
            self._die("killed between two writes")

    def _step(self) -> None:
        """Count a step before the program waits."""
        if self._until_cancelled is not None:
            self._until_cancelled -= 1
            if self._until_cancelled < 0:
                self._until_cancelled = None
                self._service.counts["wait cancelled"] += 1
                self._pull.cancel()
        if self._until_killed is not None:
            self._until_killed -= 1
            if self._until_killed < 0:
                self._die("killed while it waited")


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
