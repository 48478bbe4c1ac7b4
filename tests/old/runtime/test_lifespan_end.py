"""Tests of the lifespan: opening and closing during a stop and after errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import pytest
from tests.old.rig import HOUR, new_bot

from freight_exchange import LoginRejectedError, StoreError
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = pytest.mark.both_backends
virtual = pytest.mark.virtual_time


class Pool:
    def __init__(self) -> None:
        self.is_open = True


def shared(kind: str, pool: Pool, story: list[str]) -> Callable[..., Any]:
    async def generator() -> AsyncIterator[Any]:
        story.append("opened")
        try:
            yield {"mapping": {"pool": pool}, "single": pool, "named": {"database": pool}}[kind]
        finally:
            pool.is_open = False
            story.append("closed")

    return generator


@virtual
async def test_is_open_until_last_handler_ends(store: Store) -> None:
    sandbox, pool, story = Sandbox(), Pool(), list[str]()
    bot = new_bot(store, lifespan=shared("mapping", pool, story), drain=timedelta(seconds=20))

    @bot.on_new
    async def slow(request: Any, ctx: Any, pool: Any) -> None:
        await ctx.stopping.wait()
        await anyio.sleep(10)
        assert pool.is_open
        story.append("handled")

    async with sandbox.running(bot):
        sandbox.publish()
        await anyio.sleep(60)
    assert story == ["opened", "handled", "closed"]


@virtual
async def test_is_open_while_cancelled_handler_cleans_up(store: Store) -> None:
    sandbox, pool, story = Sandbox(), Pool(), list[str]()
    bot = new_bot(store, lifespan=shared("mapping", pool, story), drain=timedelta(seconds=1))

    @bot.on_new
    async def slow(request: Any, ctx: Any, pool: Any) -> None:
        try:
            await anyio.sleep(HOUR)
        finally:
            story.append("cut off" if pool.is_open else "too late")

    async with sandbox.running(bot):
        sandbox.publish()
        await anyio.sleep(60)
    assert story == ["opened", "cut off", "closed"]


def that_hangs(story: list[str], *, while_it_opens: bool = False) -> Callable[..., Any]:
    """Make a lifespan that hangs while it opens or closes."""

    async def generator() -> AsyncIterator[Any]:
        try:
            if while_it_opens:
                await anyio.sleep(HOUR)
            story.append("opened")
            yield
            await anyio.sleep(HOUR)
        finally:
            story.append("left")

    return generator


@virtual
async def test_stop_does_not_wait_for_opening(store: Store) -> None:
    sandbox, story = Sandbox(), list[str]()
    bot = new_bot(store, lifespan=that_hangs(story, while_it_opens=True))
    bot.on_new(does_nothing)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
        await anyio.sleep(60)
        assert bot.status().state == "starting"
        began = anyio.current_time()
        bot.stop()
    assert anyio.current_time() == began
    assert story == ["left"]


@virtual
@pytest.mark.parametrize("drained", [0, 3, 10])
async def test_closing_has_rest_of_drain_and_a_second(store: Store, drained: int) -> None:
    sandbox, story = Sandbox(), list[str]()
    bot = new_bot(store, lifespan=that_hangs(story), drain=timedelta(seconds=10))

    @bot.on_new
    async def slow(request: Any, ctx: Any) -> None:
        await ctx.stopping.wait()
        await anyio.sleep(drained)

    sandbox.publish()
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await anyio.sleep(60)
            bot.stop()

        tasks.start_soon(stop)
        with pytest.raises(TimeoutError, match="did not close in time"):
            await bot.serve(exchange=sandbox.client())
    assert anyio.current_time() == pytest.approx(began + 60 + 11)
    assert story == ["opened", "left"]


@virtual
async def test_error_is_raised_if_the_lifespan_does_not_close(store: Store) -> None:
    sandbox, story = Sandbox(), list[str]()
    bot = new_bot(store, lifespan=that_hangs(story))

    @bot.on_new
    async def ends(request: Any, ctx: Any) -> None:
        raise SystemExit(5)

    sandbox.publish()
    with pytest.raises(SystemExit):
        await bot.serve(exchange=sandbox.client())
    assert story == ["opened", "left"]


@virtual
@pytest.mark.parametrize("manager", [False, True])
@pytest.mark.parametrize(
    ("error", "ends"),
    [(StoreError("gone"), StoreError), (SystemExit(5), SystemExit), (None, LoginRejectedError)],
    ids=["store", "exit", "login"],
)
async def test_error_is_raised_if_the_lifespan_catches_it(
    error: BaseException | None, ends: type[BaseException], manager: bool
) -> None:
    """An `except` around the `yield` may log it, but must not turn it into a drain."""
    sandbox, handled, kept = Sandbox(), list[BaseException](), FailingStore({"settle"})

    async def lifespan() -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - what is tested
            handled.append(error)

    bot = new_bot(kept, lifespan=asynccontextmanager(lifespan) if manager else lifespan)

    @bot.on_new
    async def handler(request: Any, ctx: Any) -> None:
        kept.fails = isinstance(error, StoreError)
        if isinstance(error, SystemExit):
            raise error

    sandbox.publish()
    if error is None:
        sandbox.strike(*FAULTS["login_message_401"](times=None))
    with pytest.raises(ends):
        await bot.serve(exchange=sandbox.client())
    assert len(handled) == 1
    assert bot.status().state == "stopped"


@virtual
async def test_caught_cancellation_is_no_failure(store: Store) -> None:
    sandbox, story = Sandbox(), list[str]()

    async def lifespan() -> AsyncIterator[None]:
        try:
            yield
        except BaseException:  # noqa: BLE001 - what is tested
            story.append("left")

    bot = new_bot(store, lifespan=lifespan)
    bot.on_new(does_nothing)
    with anyio.move_on_after(60) as timeout:
        await bot.serve(exchange=sandbox.client())
    assert timeout.cancel_called
    assert story == ["left"]
    assert bot.status().state == "stopped"


async def does_nothing(request: Any, ctx: Any) -> None:
    pass


@virtual
@pytest.mark.parametrize("where", ["begin", "end"])
async def test_error_of_lifespan_ends_bot(store: Store, where: str) -> None:
    sandbox = Sandbox()

    async def lifespan() -> AsyncIterator[None]:
        if where == "begin":
            raise OSError("no database")
        yield None
        raise OSError("no database")

    bot = new_bot(store, lifespan=lifespan)
    bot.on_new(does_nothing)

    async def stop() -> None:
        await anyio.sleep(60)
        bot.stop()

    with pytest.raises(OSError, match="no database"):
        await beside(stop, partial(bot.serve, exchange=sandbox.client()))
    assert bot.status().state == "stopped"


async def beside(other: Callable[[], Any], work: Callable[[], Any]) -> None:
    """Do the work concurrently with another task, and raise its error unwrapped."""
    raised: list[Exception] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - raised below
            raised.append(error)
        tasks.cancel_scope.cancel()
    if raised:
        raise raised[0]


class FailingStore(MemoryStore):
    """Store whose writes fail on request."""

    def __init__(self, methods: set[str]) -> None:
        super().__init__()
        self.fails = False
        self._methods = methods

    def open(self, binding: Any, *, lease: float) -> Any:
        return _Failing(self, super().open(binding, lease=lease), self._methods)


class _Failing:
    def __init__(self, store: FailingStore, feed: Any, methods: set[str]) -> None:
        self._store = store
        self._feed = feed
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        if name in self._methods and self._store.fails:
            raise StoreError("the disk is full")
        return getattr(self._feed, name)
