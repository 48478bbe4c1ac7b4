"""One run of a bot from its beginning to its end: what handlers share, who stops it, and what it is ended by."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from tests.unit.bot import rig
from tests.unit.bot.rig import HOUR, Watch, bot_on

from freight_exchange import Bot, ConfigurationError, FreightExchange, LoginRejectedError, Router, StoreError
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAULTS, Sandbox, virtual_time_options

pytestmark = pytest.mark.both_backends

virtual = pytest.mark.virtual_time

store = rig.store


class Pool:
    """Something that handlers share."""

    def __init__(self) -> None:
        self.is_open = True


class Tariff(dict[str, int]):
    """Something else."""


# What handlers share


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
@pytest.mark.parametrize("manager", [False, True])
@pytest.mark.parametrize("kind", ["mapping", "single", "named"])
async def test_what_a_lifespan_yields_is_handed_to_handlers(store: Store, kind: str, manager: bool) -> None:
    sandbox, pool, story = Sandbox(), Pool(), list[str]()
    lifespan = shared(kind, pool, story)
    bot = bot_on(store, lifespan=asynccontextmanager(lifespan) if manager else lifespan)
    bot.on_new(partial_free(story))

    async with sandbox.running(bot) as trial:
        for _ in range(3):
            sandbox.publish()
        await trial.idle()
    assert story == ["opened", *["handled"] * 3, "closed"]


def partial_free(story: list[str]) -> Callable[..., Any]:
    async def handler(request: Any, ctx: Any, pool: Pool) -> None:
        assert pool.is_open
        story.append("handled")

    # What stands in this function cannot be found by its annotations' names.
    handler.__annotations__["pool"] = Pool
    return handler


@virtual
async def test_it_is_open_until_the_last_handler_has_ended(store: Store) -> None:
    sandbox, pool, story = Sandbox(), Pool(), list[str]()
    bot = bot_on(store, lifespan=shared("mapping", pool, story), drain=timedelta(seconds=20))

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
async def test_it_is_open_while_a_handler_that_is_cut_off_cleans_up(store: Store) -> None:
    sandbox, pool, story = Sandbox(), Pool(), list[str]()
    bot = bot_on(store, lifespan=shared("mapping", pool, story), drain=timedelta(seconds=1))

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


def that_hangs(story: list[str], *, opening: bool = False) -> Callable[..., Any]:
    """While it opens, or while it closes."""

    async def generator() -> AsyncIterator[Any]:
        try:
            if opening:
                await anyio.sleep(HOUR)
            story.append("opened")
            yield
            await anyio.sleep(HOUR)
        finally:
            story.append("left")

    return generator


@virtual
async def test_a_stop_does_not_wait_until_it_has_opened(store: Store) -> None:
    sandbox, story = Sandbox(), list[str]()
    bot = bot_on(store, lifespan=that_hangs(story, opening=True))
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
async def test_closing_it_has_what_is_left_of_the_drain_and_a_second(store: Store, drained: int) -> None:
    sandbox, story = Sandbox(), list[str]()
    bot = bot_on(store, lifespan=that_hangs(story), drain=timedelta(seconds=10))

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
        with pytest.raises(TimeoutError, match="does not close"):
            await bot.serve(exchange=sandbox.client())
    assert anyio.current_time() == pytest.approx(began + 60 + 11)
    assert story == ["opened", "left"]


@virtual
async def test_what_ended_the_bot_is_told_though_it_does_not_close(store: Store) -> None:
    sandbox, story = Sandbox(), list[str]()
    bot = bot_on(store, lifespan=that_hangs(story))

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
async def test_what_ended_the_bot_is_told_though_it_handles_that(
    error: BaseException | None, ends: type[BaseException], manager: bool
) -> None:
    """An `except` around its `yield` is there to log, and a supervisor must not take what follows for a drain."""
    sandbox, handled, kept = Sandbox(), list[BaseException](), FailingStore({"settle"})

    async def lifespan() -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - what is tested
            handled.append(error)

    bot = bot_on(kept, lifespan=asynccontextmanager(lifespan) if manager else lifespan)

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
async def test_a_cancellation_that_it_handles_is_no_failure(store: Store) -> None:
    sandbox, story = Sandbox(), list[str]()

    async def lifespan() -> AsyncIterator[None]:
        try:
            yield
        except BaseException:  # noqa: BLE001 - what is tested
            story.append("left")

    bot = bot_on(store, lifespan=lifespan)
    bot.on_new(does_nothing)
    with anyio.move_on_after(60) as patience:
        await bot.serve(exchange=sandbox.client())
    assert patience.cancel_called
    assert story == ["left"]
    assert bot.status().state == "stopped"


async def does_nothing(request: Any, ctx: Any) -> None:
    """Does nothing."""


@virtual
async def test_it_may_ask_for_the_client(store: Store) -> None:
    sandbox, given = Sandbox(), list[Any]()

    async def lifespan(exchange: FreightExchange) -> AsyncIterator[Mapping[str, object]]:
        given.append(exchange)
        yield {"carriers": await exchange.currencies.list()}

    bot = bot_on(store, lifespan=lifespan)

    @bot.on_new
    async def handler(request: Any, ctx: Any, carriers: Any) -> None:
        given.append(ctx.exchange)
        assert carriers

    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
    assert len(given) == 2
    assert given[0] is given[1]


@virtual
async def test_what_a_handler_wants_and_nobody_gives_is_said_before_anything_is_done(store: Store) -> None:
    sandbox, story = Sandbox(), list[str]()
    bot = bot_on(store, lifespan=shared("mapping", Pool(), story))

    @bot.on_new
    async def handler(request: Any, ctx: Any, database: Any) -> None: ...

    with pytest.raises(ConfigurationError, match=r"database.*pool"):
        await bot.serve(exchange=sandbox.client())
    assert story == ["opened", "closed"]
    assert not sandbox.audit_log.calls


@virtual
@pytest.mark.parametrize("where", ["begin", "end"])
async def test_an_error_of_the_lifespan_is_the_runs(store: Store, where: str) -> None:
    sandbox = Sandbox()

    async def lifespan() -> AsyncIterator[None]:
        if where == "begin":
            raise OSError("no database")
        yield None
        raise OSError("no database")

    bot = bot_on(store, lifespan=lifespan)
    bot.on_new(does_nothing)

    async def stop() -> None:
        await anyio.sleep(60)
        bot.stop()

    with pytest.raises(OSError, match="no database"):
        await beside(stop, partial(bot.serve, exchange=sandbox.client()))
    assert bot.status().state == "stopped"


async def beside(other: Callable[[], Any], work: Callable[[], Any]) -> None:
    """Do the work, with something else beside it for as long as that takes; what it raises is not wrapped."""
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


# Who stops it


@virtual
async def test_a_bot_inside_an_application(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = Bot(sandbox.client(), store=store, start="backfill", interval=timedelta(seconds=10))

    @bot.on_new
    async def note(request: Any, ctx: Any) -> None:
        watch.note("note", ctx, request.index)

    indexes: list[int] = []
    for _ in range(2):
        async with sandbox.client() as client:
            bot._exchange = client
            async with bot as entered:
                assert entered is bot
                assert bot.status().state == "running"
                indexes.append(sandbox.publish())
                await anyio.sleep(30)
            assert bot.status().state == "stopped"
            # It was entered before, and is still.
            assert await client.currencies.list()
    assert watch.of("note") == [(index, 1) for index in indexes]


@virtual
async def test_one_bot_runs_once_at_a_time(store: Store) -> None:
    sandbox = Sandbox()
    bot = bot_on(store)
    bot.on_new(does_nothing)
    async with sandbox.running(bot) as trial:
        await trial.idle()
        with pytest.raises(ConfigurationError, match="runs already"):
            await bot.serve(exchange=sandbox.client())
        await trial.idle()


@virtual
async def test_a_handler_that_would_not_be_called_is_refused(store: Store) -> None:
    """A bot's handlers are those that it started with: who registers another meanwhile is told."""
    sandbox, router = Sandbox(), Router()
    bot = bot_on(store)
    bot.on_new(does_nothing)
    router.on_updated(id="later")(does_nothing)
    async with sandbox.running(bot) as trial:
        await trial.idle()
        for late in (lambda: bot.on_updated(id="later")(does_nothing), lambda: bot.include(router)):
            with pytest.raises(ConfigurationError, match="runs already"):
                late()
    bot.include(router)
    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
        assert trial.status.handled == 1


@virtual
async def test_a_bot_without_handlers_does_not_start(store: Store) -> None:
    """It would acknowledge every request, and none of them would come again."""
    sandbox, router = Sandbox(), Router()
    router.on_new(does_nothing)
    bot = bot_on(store)
    sandbox.publish()
    with pytest.raises(ConfigurationError, match="has no handler"):
        await bot.serve(exchange=sandbox.client())
    with pytest.raises(ConfigurationError, match="has no handler"):
        async with bot:
            pytest.fail("it has nothing to do")
    assert list(sandbox.audit_log.calls) == []
    bot.include(router)
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert trial.status.handled == 1


@virtual
async def test_left_at_once_it_ends(store: Store) -> None:
    sandbox = Sandbox()
    bot = Bot(sandbox.client(), store=store)
    bot.on_new(does_nothing)
    with anyio.fail_after(HOUR):
        async with bot:
            pass
    assert bot.status().state == "stopped"


@virtual
async def test_cancelled_while_it_starts_it_ends(store: Store) -> None:
    sandbox = Sandbox()
    bot = Bot(sandbox.client(), store=store)
    bot.on_new(does_nothing)
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with bot:
            pytest.fail("it was cancelled")
    assert bot.status().state == "stopped"


@virtual
async def test_a_trial_that_is_left_at_once_ends(store: Store) -> None:
    sandbox = Sandbox()
    bot = bot_on(store)
    bot.on_new(does_nothing)
    async with sandbox.running(bot):
        pass
    assert bot.status().state == "stopped"


@virtual
async def test_stopped_while_the_service_is_away_it_ends(store: Store) -> None:
    sandbox = Sandbox()
    sandbox.strike(*FAULTS["unavailable_forever"]())
    bot = bot_on(store)
    bot.on_new(does_nothing)
    async with sandbox.running(bot):
        await anyio.sleep(HOUR / 10)
        assert bot.status().state == "starting"
        began = anyio.current_time()
    assert anyio.current_time() - began < 1


@virtual
async def test_stopped_again_it_goes_on_draining(store: Store) -> None:
    sandbox, story = Sandbox(), list[str]()
    bot = bot_on(store, drain=timedelta(seconds=20))

    @bot.on_new
    async def slow(request: Any, ctx: Any) -> None:
        await ctx.stopping.wait()
        bot.stop()
        await anyio.sleep(5)
        story.append(bot.status().state)

    async with sandbox.running(bot):
        sandbox.publish()
        await anyio.sleep(60)
    assert story == ["draining"]
    bot.stop()
    assert bot.status().state == "stopped"


# What it is ended by


class FailingStore(MemoryStore):
    """A store that cannot be written to any more once it is told so."""

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


@virtual
@pytest.mark.parametrize("methods", ["settle", "claim", "enqueue", "commit", "all"])
async def test_a_store_that_fails_ends_it_as_such_and_nothing_is_lost(methods: str) -> None:
    """However many handlers find that out at once: whoever started it is told of the store, in no wrappings."""
    sandbox, handled = Sandbox(), set[int]()
    kept = FailingStore({"settle", "claim", "enqueue", "commit"} if methods == "all" else {methods})

    def new_bot() -> Bot:
        bot = bot_on(kept, concurrency=3)

        @bot.on_new
        async def slow(request: Any, ctx: Any) -> None:
            await anyio.sleep(20)
            handled.add(request.index)

        return bot

    indexes = {sandbox.publish() for _ in range(6)}

    async def fail() -> None:
        await anyio.sleep(15)
        kept.fails = True
        indexes.update(sandbox.publish() for _ in range(3))

    bot = new_bot()
    with pytest.raises(StoreError, match="the disk is full"):
        await beside(fail, partial(bot.serve, exchange=sandbox.client()))
    assert bot.status().state == "stopped"

    kept.fails = False
    async with sandbox.running(new_bot()) as trial:
        await trial.idle()
    assert handled == indexes


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("inside", ["serve", "block"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_what_ends_a_process_ends_it_from_a_handler_too(
    backend: Literal["asyncio", "trio"], inside: str, error: BaseException
) -> None:
    """Its delivery is not settled: it comes again, and counts; what others were at comes again, and does not."""
    sandbox, kept, attempts = Sandbox(), MemoryStore(), list[tuple[str, int]]()

    def new_bot() -> Bot:
        bot = Bot(sandbox.client(), store=kept, start="backfill", interval=timedelta(seconds=10))

        @bot.on_new(id="ends", retries=1)
        async def ends(request: Any, ctx: Any) -> None:
            attempts.append(("ends", ctx.attempt))
            await anyio.sleep(1)
            if len(attempts) < 3:
                raise error

        @bot.on_new(id="slow", retries=0)
        async def slow(request: Any, ctx: Any) -> None:
            attempts.append(("slow", ctx.attempt))
            await anyio.sleep(30)

        return bot

    async def main() -> None:
        bot = new_bot()
        if inside == "serve":
            await bot.serve()
        else:
            async with bot:
                await anyio.sleep(HOUR)

    async def again() -> int:
        bot = new_bot()
        async with bot:
            await anyio.sleep(300)
            assert await bot.dead_letters() == []
        return bot.status().handled

    # Two requests: of one, one handler would wait for the other.
    sandbox.publish()
    sandbox.publish()
    options = virtual_time_options(backend)
    with pytest.raises(type(error)) as raised:
        anyio.run(main, backend=backend, backend_options=options)
    assert raised.value is error
    assert anyio.run(again, backend=backend, backend_options=virtual_time_options(backend)) == 4
    kept.close()


def test_an_application_that_ends_at_once_has_failed_no_handler() -> None:
    """asyncio cancels every task by itself then, with no scope around it that would say so."""
    sandbox, kept, attempts = Sandbox(), MemoryStore(), list[int]()
    ending: list[asyncio.Future[None]] = []

    def new_bot() -> Bot:
        bot = Bot(sandbox.client(), store=kept, start="backfill", interval=timedelta(seconds=10))

        @bot.on_new(retries=0)
        async def slow(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            await anyio.sleep(20)

        return bot

    async def ends() -> None:
        await anyio.sleep(10)
        raise SystemExit(3)

    async def main() -> None:
        async with new_bot():
            ending.append(asyncio.ensure_future(ends()))
            await anyio.sleep(HOUR)

    async def again() -> None:
        bot = new_bot()
        async with bot:
            await anyio.sleep(60)
            assert await bot.dead_letters() == []

    sandbox.publish()
    with pytest.raises(SystemExit):
        anyio.run(main, backend_options=virtual_time_options("asyncio"))
    assert isinstance(ending[0].exception(), SystemExit)
    anyio.run(again, backend_options=virtual_time_options("asyncio"))
    assert attempts == [1, 1]
    kept.close()


# A process

PROGRAM = """
import logging, sys
from datetime import timedelta
import anyio
from freight_exchange import Bot
from freight_exchange.testing import Sandbox

logging.basicConfig(level=logging.INFO)
how, backend, path = sys.argv[1:]
sandbox = Sandbox()
client = sandbox.client()
bot = Bot(
    client, store=path, start="backfill", interval=timedelta(seconds=1),
    drain=timedelta(seconds=0 if how == "cut" else 20),
)

@bot.on_new
async def handler(request, ctx):
    print("at work", flush=True)
    if how == "bug":
        raise SystemExit(5)
    if how == "cut" or how == "twice":
        await anyio.sleep(100)
    await ctx.stopping.wait()
    await anyio.sleep(0.1)
    print("done", flush=True)

sandbox.publish()
bot.run(backend=backend)
print("ended", flush=True)
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("ends", 0, ["at work", "done", "ended"]),
        ("cut", 0, ["at work", "ended"]),
        ("twice", 128 + signal.SIGTERM, ["at work"]),
        ("bug", 5, ["at work"]),
    ],
)
def test_a_process_and_its_signals(backend: str, how: str, status: int, said: list[str], tmp_path: Path) -> None:
    anyio.run(process, how, backend, status, said, tmp_path / "bot.db")


async def process(how: str, backend: str, status: int, said: list[str], path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, how, backend, str(path)]
    with anyio.fail_after(30):
        async with await anyio.open_process(command, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            told = ""
            while "at work" not in told:
                told += (await child.stdout.receive()).decode()
            if how != "bug":
                child.send_signal(signal.SIGTERM)
            log = ""
            if how == "twice":
                while "draining" not in log:
                    log += (await child.stderr.receive()).decode()
                child.send_signal(signal.SIGTERM)
            async for more in child.stdout:
                told += more.decode()
            assert await child.wait() == status
            assert told.split("\n")[:-1] == said
