"""What tests of a bot's runtime share: both stores, a bot that looks often, and processes that can be killed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import anyio
import attrs
import pytest

from freight_exchange import Bot, HeldError
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import Cargo, Sandbox

__all__ = [
    "DAY",
    "HOUR",
    "INTERVAL",
    "Killed",
    "Process",
    "Shared",
    "Watch",
    "bot_on",
    "other",
    "store",
    "supervised",
]

INTERVAL = 10
HOUR = 3600
DAY = 24 * HOUR


@pytest.fixture
def store() -> Iterator[Store]:
    """Store that outlives the bots that use it in turn, as a file outlives a restart."""
    kept = MemoryStore()
    yield kept
    kept.close()


def bot_on(store: Store | None, **options: Any) -> Bot:
    """A bot that hears of what was published before it began."""
    told: dict[str, Any] = {
        "start": "backfill",
        "interval": timedelta(seconds=INTERVAL),
        "settle": timedelta(seconds=5),
        **options,
    }
    return Bot(store=store, **told)


def other(origin: str = "Hong Kong", **fields: Any) -> Cargo:
    """A cargo that differs from the usual one."""
    return Cargo(origin=origin, **fields)


class Shared(MemoryStore):
    """A store that another process holds at first."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = True

    def open(self, binding: Any, *, lease: float) -> Any:
        if self.is_held:
            raise HeldError("another process holds it", holder="another process")
        return super().open(binding, lease=lease)


@attrs.define
class Watch:
    """Watches handlers at work: what they were called for, when, and how many were at it at once."""

    calls: list[tuple[str, int | None, int]] = attrs.field(factory=list)
    times: list[float] = attrs.field(factory=list)
    most: int = 0
    most_of_one: int = 0
    _at_work: list[int | None] = attrs.field(factory=list)

    @asynccontextmanager
    async def working(self, name: str, ctx: Any, index: int | None) -> AsyncIterator[None]:
        """One call: its name, its request, its attempt."""
        self.calls.append((name, index, ctx.attempt))
        self.times.append(anyio.current_time())
        self._at_work.append(index)
        self.most = max(self.most, len(self._at_work))
        self.most_of_one = max(self.most_of_one, *(self._at_work.count(one) for one in self._at_work))
        try:
            yield
        finally:
            self._at_work.remove(index)

    def note(self, name: str, ctx: Any, index: int | None) -> None:
        """A call that takes no time."""
        self.calls.append((name, index, ctx.attempt))
        self.times.append(anyio.current_time())

    def of(self, name: str) -> list[tuple[int | None, int]]:
        """The requests and attempts of one name's calls, in order."""
        return [(index, attempt) for called, index, attempt in self.calls if called == name]

    def pauses(self) -> Sequence[float]:
        """The seconds between one call and the next."""
        return [later - earlier for earlier, later in pairwise(self.times)]


class Killed(BaseException):
    """The process is gone: nothing may handle that."""


class Process:
    """What a bot runs in, and what one of its handlers can end for all of them.

    Nothing lasts that comes after: whoever is cancelled by it finds that no step can be taken any more.
    """

    def __init__(self) -> None:
        self.is_dead = False

    def kill(self) -> None:
        self.is_dead = True
        raise Killed

    def visit(self, _: str) -> None:
        if self.is_dead:
            raise Killed

    async def run(self, sandbox: Sandbox, bot: Bot) -> None:
        """Run the bot until it is stopped or killed."""
        try:
            await bot.serve(exchange=sandbox.client(), failpoints=self.visit)
        except* Killed:
            pass


async def supervised(sandbox: Sandbox, new_bot: Callable[[Process], Bot], *, seconds: float) -> int:
    """Run one bot after the other, each in a process of its own, a second after the last one died.

    Returns:
        How many died; the one that is alive in the end is stopped.
    """
    deaths = 0
    until = anyio.current_time() + seconds
    while True:
        process = Process()
        bot = new_bot(process)
        async with anyio.create_task_group() as tasks:

            async def stop_in_the_end(bot: Bot) -> None:
                await anyio.sleep_until(until)
                bot.stop()

            tasks.start_soon(stop_in_the_end, bot)
            await process.run(sandbox, bot)
            tasks.cancel_scope.cancel()
        if not process.is_dead:
            return deaths
        deaths += 1
        await anyio.sleep(1)
