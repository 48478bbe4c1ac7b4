"""A bot that is a process of its own: its signals, and the status that it exits with."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from io import FileIO
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, TextIO

import anyio
import pytest

from freight_exchange import Bot, ConfigurationError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0
"""Seconds after which a process that does not end has failed the test; none of them takes as long."""

PROGRAM = """
import asyncio, json, os, signal, sys, time
from datetime import timedelta
from functools import partial

import anyio
from freight_exchange import Bot, FreightExchange
from freight_exchange.testing import FAULTS, Profile, Sandbox

told = json.loads(sys.argv[1])


def say(word):
    print(word, flush=True)


async def exchange_of(sandbox):
    return sandbox.client()


def never_heeds():
    time.sleep(3600)


sandbox = Sandbox(Profile(token_lifetime=told.get("token_lifetime", 3600)))
indexes = [sandbox.publish() for _ in range(told.get("requests", 1))]
for fault in told.get("faults", ()):
    sandbox.strike(*FAULTS[fault](times=None))
given = None if told.get("bare") else sandbox.client()


async def lifespan():
    say("lifespan")
    if told.get("bug"):
        raise RuntimeError("a bug")
    if told.get("opening"):
        await anyio.sleep(3600)
    if told.get("yields"):
        return
    try:
        match told.get("refreshes in"):
            case "anyio":
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(refresh)
                    yield
            case "asyncio":
                async with asyncio.TaskGroup() as tasks:
                    refreshing = tasks.create_task(refresh())
                    yield
            case _:
                yield
    finally:
        await close()


async def refresh():
    await anyio.sleep(0.5)
    raise OSError("the tariff is gone")


async def close():
    if told.get("closing"):
        say("closing")
        if told["closing"] == "raises":
            raise OSError("the pool is gone")
        if told["closing"] == "in a thread":
            await anyio.to_thread.run_sync(never_heeds)
        await anyio.sleep(3600)
    say("closed")


bot = Bot(
    given,
    store=told.get("store"),
    start="backfill",
    interval=timedelta(seconds=1),
    drain=timedelta(seconds=told.get("drain", 30)),
    concurrency=100,
    settle=timedelta(0),
    lifespan=lifespan,
    port=0 if "host" in told else told.get("port"),
    host=told.get("host", "127.0.0.1"),
    standby=told.get("standby", False),
)
begun = []


@bot.on_new
async def quote(request, ctx):
    begun.append(request.index)
    if len(begun) == len(indexes):
        say("at the handlers")
    match told.get("handler"):
        case "heeds":
            await ctx.stopping.wait()
            await ctx.offer(amount=7, currency=1)
        case "hangs":
            await anyio.sleep(3600)
        case "in a thread":
            await anyio.to_thread.run_sync(never_heeds)
        case "blocks":
            never_heeds()
        case "heeds nothing":
            while True:
                try:
                    await anyio.sleep(3600)
                except BaseException:
                    pass
        case "in a thread, and another" if request.index == indexes[0]:
            await anyio.to_thread.run_sync(never_heeds)
        case "in a thread, and another":
            await anyio.sleep(0.2)
            match told["ends by"]:
                case "store":
                    os.rename(told["store"], told["store"] + ".gone")
                case "login":
                    sandbox.strike(*FAULTS["login_message_401"](times=None))
                case status:
                    sys.exit(status)
        case "leaves a thread":
            bot.stop()
            await anyio.to_thread.run_sync(never_heeds, abandon_on_cancel=True)
        case "leaves a thread, and fails":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(anyio.to_thread.run_sync, never_heeds, abandon_on_cancel=True))
                await anyio.sleep(0.2)
                sys.exit(5)
        case "leaves":
            sys.exit()
        case "leaves with 256":
            sys.exit(256)
        case "leaves with 5":
            sys.exit(5)
        case "ends":
            await ctx.offer(amount=7, currency=1)
            bot.stop()
        case "stops, and takes its time":
            bot.stop()
            say("stopped")
            if told["blocks"]:
                time.sleep(told["seconds"])
            else:
                await anyio.sleep(told["seconds"])
            await ctx.offer(amount=7, currency=1)
        case "logs":
            ctx.log.info("quoting %s", "tiles\\n2027-01-01 CRITICAL \\x1b[2J")
            bot.stop()
        case "signals itself":
            signal.raise_signal(signal.SIGTERM)
            await ctx.stopping.wait()


@bot.on_updated
async def again(request, ctx):
    say("updated")


if told.get("wants"):

    @bot.on_new
    async def wants(request, ctx, what_there_is_not):
        say("wants")


bot.run(backend=told.get("backend", "asyncio"))
assert bot.status().state == "stopped"
say("offers " + str(sum(len(sandbox.truth.offers_on(index)) for index in indexes)))
if told.get("afterwards") == "goes on":
    time.sleep(2.5)
    print("went on", end="")  # what is not flushed is not lost
if told.get("afterwards") == "fails":
    raise OSError("afterwards")
"""

BOTH = ["asyncio", "trio"]
BACKENDS = pytest.mark.parametrize("backend", BOTH)


STARTER = """
import importlib, os, signal, socket, sys

import freight_exchange.testing
from freight_exchange import Bot, FreightExchange

_, asks, backend, program = sys.argv
importlib.import_module("anyio._backends._" + backend)
asks = socket.socket(fileno=int(asks))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    told, outs, _, _ = socket.recv_fds(asks, 65536, 3)
    if not told:
        os._exit(0)
    if os.fork() == 0:
        asks.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        pid = os.fork()
        if pid == 0:
            break
        os.close(outs[0])
        os.close(outs[1])
        os.write(outs[2], b"%d\\n" % pid)
        os.write(outs[2], b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os._exit(0)
    for out in outs:
        os.close(out)
os.dup2(outs[0], 1)
os.dup2(outs[1], 2)
for out in outs:
    os.close(out)
sys.argv = ["-c", told.decode()]
if sys.platform != "linux":
    os.execv(sys.executable, [sys.executable, "-c", program, *sys.argv[1:]])
exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
"""
"""Forks a process for each program that it is asked for, which so need not import anew what all of them import; and one
that waits for that process. What is a program's own, its end above all, is as in one that was started from nothing.
Where the system's libraries do not stand a fork, the program is started from nothing."""


class Started:
    """A process that was forked for the test: what a `subprocess.Popen` has of its own."""

    def __init__(self, stdout: TextIO, stderr: TextIO, waited: FileIO) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self._waited = waited
        self.pid = int(waited.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        if self.returncode is None:
            if not select.select([self._waited], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("the program", timeout)
            self.returncode = int(self._waited.readline())
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        overdue = threading.Timer(timeout, self.send_signal, [signal.SIGKILL])
        overdue.start()
        with ThreadPoolExecutor(1) as threads:
            complaining = threads.submit(self.stderr.read)
            said, complained = self.stdout.read(), complaining.result()
        if overdue.finished.is_set():
            raise subprocess.TimeoutExpired("the program", timeout, said, complained)
        overdue.cancel()
        self.wait(timeout)
        return said, complained


STARTERS = contextlib.ExitStack()


@cache
def starter(backend: str) -> socket.socket:
    """Where the process is asked that starts those of one backend."""
    asks, asked = socket.socketpair()
    with asked:
        child = subprocess.Popen(
            [sys.executable, "-c", STARTER, str(asked.fileno()), backend, PROGRAM],
            stdout=subprocess.DEVNULL,
            cwd=ROOT / "src",
            env={name: value for name, value in os.environ.items() if not name.startswith("FREIGHT_EXCHANGE_")},
            pass_fds=[asked.fileno()],
        )
    STARTERS.enter_context(child)
    return STARTERS.enter_context(asks)  # closed first: that ends it


@pytest.fixture(scope="module", autouse=True)
def starters_end() -> Iterator[None]:
    with STARTERS:
        yield
    starter.cache_clear()


@contextmanager
def process(backend: str = "asyncio", **told: Any) -> Iterator[Started]:
    reading, writing = zip(*(os.pipe() for _ in range(3)), strict=True)
    with os.fdopen(reading[0]) as said, os.fdopen(reading[1]) as complained, FileIO(reading[2]) as waited:
        socket.send_fds(starter(backend), [json.dumps({"backend": backend, **told}).encode()], list(writing))
        for pipe in writing:
            os.close(pipe)
        child = Started(said, complained, waited)
        try:
            yield child
        finally:
            child.send_signal(signal.SIGKILL)


@contextmanager
def side_by_side(cases: Mapping[Any, Mapping[str, Any]]) -> Iterator[dict[Any, Started]]:
    """The processes of all cases of a test, begun with the first of them: they pass their seconds in waiting."""
    with contextlib.ExitStack() as stack:
        yield {case: stack.enter_context(process(**told)) for case, told in cases.items()}


def until(child: Started, word: str) -> None:
    """Wait until the process says it."""
    for line in child.stdout:
        if line.strip() == word:
            return
    raise AssertionError(f"it ended without saying {word!r}: {child.stderr.read()}")


def end_of(child: Started) -> tuple[int, str, str]:
    said, complained = child.communicate(timeout=PATIENCE)
    return child.wait(PATIENCE), said, complained


class TestSignals:
    @BACKENDS
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_first_drains_and_the_status_is_0(self, backend: str, number: signal.Signals) -> None:
        with process(backend=backend, handler="heeds", requests=20) as child:
            until(child, "at the handlers")
            child.send_signal(number)
            status, said, complained = end_of(child)
        assert status == 0
        assert said.split("\n") == ["closed", "offers 20", ""]
        assert "draining" in complained
        assert "Traceback" not in complained

    @BACKENDS
    def test_after_its_deadline_the_drain_cuts_off_and_the_status_is_0(self, backend: str, tmp_path: Path) -> None:
        store = str(tmp_path / "bot.db")
        with process(backend=backend, handler="hangs", requests=5, drain=0.2, store=store) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            status, said, complained = end_of(child)
        assert (status, said) == (0, "closed\noffers 0\n")
        assert "cut off" in complained
        # What was cut off is there, and the file is nobody's.
        with process(backend=backend, handler="heeds", requests=5, store=store) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            assert end_of(child)[:2] == (0, "closed\noffers 5\n")

    @BACKENDS
    @pytest.mark.parametrize(
        ("first", "second"),
        [(signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGINT)],
    )
    def test_the_second_ends_it_at_once_and_the_status_says_which(
        self, backend: str, first: signal.Signals, second: signal.Signals
    ) -> None:
        with process(backend=backend, handler="hangs", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(first)
            assert any("draining" in line for line in child.stderr)
            child.send_signal(second)
            status, said, _ = end_of(child)
        assert status == 128 + second
        assert "offers" not in said

    @BACKENDS
    def test_the_second_does_not_wait_for_a_thread(self, backend: str) -> None:
        with process(backend=backend, handler="in a thread", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            assert any("draining" in line for line in child.stderr)
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                pytest.fail("it waits for the handler's thread")
        assert child.returncode == 128 + signal.SIGTERM

    @BACKENDS
    def test_one_while_it_primes_under_an_outage_ends_it_well(self, backend: str) -> None:
        with process(backend=backend, faults=["unavailable_storm"]) as child:
            until(child, "lifespan")
            time.sleep(0.3)
            child.send_signal(signal.SIGTERM)
            assert end_of(child)[:2] == (0, "closed\noffers 0\n")

    @BACKENDS
    def test_a_handler_may_send_it(self, backend: str) -> None:
        with process(backend=backend, handler="signals itself") as child:
            assert end_of(child)[0] == 0

    @BACKENDS
    def test_stop_ends_it_as_well(self, backend: str) -> None:
        with process(backend=backend, handler="ends") as child:
            status, said, _ = end_of(child)
        assert (status, said.split("\n")[-2]) == (0, "offers 1")

    @pytest.fixture(scope="class")
    @classmethod
    def signalled_after_stop(cls) -> Iterator[dict[tuple[str, bool], Started]]:
        how: dict[str, Any] = {"handler": "stops, and takes its time", "seconds": 2}
        cases = product(BOTH, [False, True])
        with side_by_side(
            {(backend, blocks): {"backend": backend, "blocks": blocks, **how} for backend, blocks in cases}
        ) as begun:
            for child in begun.values():
                until(child, "stopped")
                child.send_signal(signal.SIGTERM)
            yield begun

    @BACKENDS
    @pytest.mark.parametrize("blocks", [False, True])
    def test_the_first_after_stop_is_the_first(
        self, backend: str, blocks: bool, signalled_after_stop: dict[tuple[str, bool], Started]
    ) -> None:
        status, said, complained = end_of(signalled_after_stop[backend, blocks])
        assert (status, said) == (0, "closed\noffers 1\n")
        assert "SIGTERM: draining" in complained

    @BACKENDS
    @pytest.mark.parametrize("blocks", [False, True])
    def test_the_second_after_stop_is_the_second(self, backend: str, blocks: bool) -> None:
        with process(
            backend=backend, handler="stops, and takes its time", blocks=blocks, seconds=3600, drain=3600
        ) as child:
            until(child, "stopped")
            child.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            assert end_of(child)[0] == 128 + signal.SIGINT

    @BACKENDS
    def test_a_text_of_the_service_forges_no_line_of_the_log(self, backend: str) -> None:
        with process(backend=backend, handler="logs") as child:
            complained = end_of(child)[2]
        assert "quoting tiles 2027-01-01 CRITICAL \\x1b[2J\n" in complained


class TestWhatDoesNotEnd:
    """It is ended with its process, a second after its time, and named."""

    UNENDING: ClassVar = ["heeds nothing", "blocks", "in a thread"]

    @pytest.fixture(scope="class")
    @classmethod
    def drained(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], tuple[Started, str]]]:
        cases = {case: str(tmp_path_factory.mktemp("drained") / "bot.db") for case in product(BOTH, cls.UNENDING)}
        with side_by_side(
            {
                (backend, handler): {"backend": backend, "handler": handler, "drain": 0.2, "store": store}
                for (backend, handler), store in cases.items()
            }
        ) as begun:
            for child in begun.values():
                until(child, "at the handlers")
                child.send_signal(signal.SIGTERM)
            yield {case: (child, cases[case]) for case, child in begun.items()}

    @BACKENDS
    @pytest.mark.parametrize("handler", UNENDING)
    def test_of_a_handler_with_the_drain(
        self, backend: str, handler: str, drained: dict[tuple[str, str], tuple[Started, str]]
    ) -> None:
        child, store = drained[backend, handler]
        status, said, complained = end_of(child)
        assert (status, said) == (70, "")
        assert "the handler 'quote' of the event 'new' of request 1" in complained
        assert "Traceback" not in complained
        # It is what a crash is: nothing is lost, and the file is nobody's.
        with process(backend=backend, handler="heeds", store=store) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            assert end_of(child)[:2] == (0, "closed\noffers 1\n")

    @BACKENDS
    def test_of_a_handler_that_blocks_with_the_second_signal(self, backend: str) -> None:
        """The event loop hears neither."""
        with process(backend=backend, handler="blocks", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            assert end_of(child)[0] == 128 + signal.SIGINT

    ENDS_BY: ClassVar[list[tuple[str | int, int]]] = [("store", 73), ("login", 77), (5, 5), (256, 1), ("a text", 1)]

    @pytest.fixture(scope="class")
    @classmethod
    def ended_by(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str | int], Started]]:
        def told(backend: str, ends_by: str | int) -> dict[str, Any]:
            store = str(tmp_path_factory.mktemp("ended") / "bot.db")
            lifetime = 1 if ends_by == "login" else 3600
            how = {"handler": "in a thread, and another", "requests": 2, "drain": 0.2, "ends by": ends_by}
            return {"backend": backend, "store": store, "token_lifetime": lifetime, **how}

        cases = product(BOTH, [ends_by for ends_by, _ in cls.ENDS_BY])
        with side_by_side({case: told(*case) for case in cases}) as begun:
            yield begun

    @BACKENDS
    @pytest.mark.parametrize(("ends_by", "status"), ENDS_BY)
    def test_of_a_handler_with_an_error_that_ends_the_bot_as_the_error_says(
        self, backend: str, ends_by: str | int, status: int, ended_by: dict[tuple[str, str | int], Started]
    ) -> None:
        ended, _, complained = end_of(ended_by[backend, ends_by])
        assert ended == status
        assert f"with status {status}; at work still: the handler 'quote' of the event 'new' of request 1" in complained

    @pytest.mark.parametrize(("backend", "group"), [("asyncio", "anyio"), ("asyncio", "asyncio"), ("trio", "anyio")])
    def test_of_a_handler_with_a_task_of_what_handlers_share_that_fails(self, backend: str, group: str) -> None:
        told: dict[str, Any] = {"handler": "in a thread", "drain": 0.2, "refreshes in": group}
        with process(backend=backend, **told) as child:
            try:
                ended, _, complained = end_of(child)
            except subprocess.TimeoutExpired:
                pytest.fail("it waits for the thread")
        assert ended == 1
        assert "CRITICAL freight_exchange.bot: the bot ends: what handlers share" in complained
        assert "with status 1; at work still: the handler 'quote' of the event 'new' of request 1" in complained

    @pytest.mark.parametrize(("backend", "group"), [("asyncio", "anyio"), ("asyncio", "asyncio"), ("trio", "anyio")])
    def test_a_task_of_what_handlers_share_that_fails_is_told_once_handlers_have_heeded_it(
        self, backend: str, group: str
    ) -> None:
        told: dict[str, Any] = {"handler": "hangs", "refreshes in": group}
        with process(backend=backend, **told) as child:
            ended, _, complained = end_of(child)
        assert ended == 1
        assert "the bot ends with status 1 by what it did not expect: OSError: the tariff is gone" in complained
        assert "does not end" not in complained

    @BACKENDS
    def test_of_what_handlers_share_while_it_opens(self, backend: str) -> None:
        with process(backend=backend, opening=True) as child:
            until(child, "lifespan")
            child.send_signal(signal.SIGTERM)
            status, said, complained = end_of(child)
        assert (status, said) == (0, "offers 0\n")
        assert "Traceback" not in complained

    @BACKENDS
    def test_of_what_handlers_share_while_it_closes(self, backend: str) -> None:
        with process(backend=backend, handler="ends", closing=True, drain=0.2) as child:
            until(child, "closing")
            status, said, complained = end_of(child)
        assert (status, said) == (1, "")
        assert "TimeoutError: what lifespan gives does not close" in complained

    LEFT: ClassVar = [
        ("leaves a thread", "goes on", 0, "went on"),
        ("leaves a thread", "fails", 1, ""),
        ("leaves a thread, and fails", "", 5, ""),
    ]

    @pytest.fixture(scope="class")
    @classmethod
    def left(cls) -> Iterator[dict[tuple[str, str, str], Started]]:
        cases = [(backend, handler, afterwards) for backend, (handler, afterwards, _, _) in product(BOTH, cls.LEFT)]
        with side_by_side(
            {case: dict(zip(("backend", "handler", "afterwards"), case, strict=True), drain=0.1) for case in cases}
        ) as begun:
            yield begun

    @BACKENDS
    @pytest.mark.parametrize(("handler", "afterwards", "status", "last"), LEFT)
    def test_of_a_thread_that_a_handler_has_left_once_the_program_has_ended(
        self,
        backend: str,
        handler: str,
        afterwards: str,
        status: int,
        last: str,
        left: dict[tuple[str, str, str], Started],
    ) -> None:
        try:
            ended, said, complained = end_of(left[backend, handler, afterwards])
        except subprocess.TimeoutExpired:
            pytest.fail("it waits for the thread")
        assert (ended, said.split("\n")[-1]) == (status, last)
        # Trio's threads are daemons.
        if backend == "asyncio":
            assert f"threads that were left in it have not: its process ends now, with status {status}: " in complained

    @BACKENDS
    @pytest.mark.parametrize(("handler", "status"), [("leaves with 5", 5), ("", 77)])
    def test_of_what_ended_the_bot_an_error_of_closing_does_not_change_the_status(
        self, backend: str, handler: str, status: int
    ) -> None:
        faults = [] if handler else ["login_message_401"]
        with process(backend=backend, handler=handler, faults=faults, closing="raises") as child:
            ended, _, complained = end_of(child)
        assert ended == status
        assert "what lifespan gives does not close well" in complained
        assert "OSError: the pool is gone" in complained

    @pytest.fixture(scope="class")
    @classmethod
    def kept(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Started]]:
        def told(backend: str, why: str, store: str) -> dict[str, Any]:
            cause: dict[str, Any] = {"faults": ["not_found_page"]} if why == "address" else {"wants": why == "wants"}
            return {"backend": backend, "store": store, "closing": "in a thread", "drain": 0.1, **cause}

        stores = {
            case: str(tmp_path_factory.mktemp("kept") / "bot.db")
            for case in product(BOTH, ["held", "wants", "address"])
        }
        with contextlib.ExitStack() as stack:
            for backend in BOTH:
                store = stores[backend, "held"]
                first = stack.enter_context(process(backend=backend, handler="hangs", store=store))
                until(first, "at the handlers")
            yield stack.enter_context(side_by_side({case: told(*case, store) for case, store in stores.items()}))

    @BACKENDS
    @pytest.mark.parametrize(("why", "status"), [("held", 75), ("wants", 78), ("address", 76)])
    def test_of_what_handlers_share_with_the_error_that_kept_the_bot_from_starting(
        self, backend: str, why: str, status: int, kept: dict[tuple[str, str], Started]
    ) -> None:
        try:
            ended, said, complained = end_of(kept[backend, why])
        except subprocess.TimeoutExpired:
            pytest.fail("it waits for the thread")
        assert (ended, said) == (status, "lifespan\nclosing\n")
        assert complained.count("CRITICAL freight_exchange.bot: the bot ends by ") == 1
        assert f"with status {status}; at work still: nothing but the bot itself" in complained


class TestWhereItCannotBeTheProcess:
    """It is said before anything is done, and how else: not to a supervisor, by a status, but to whoever wrote it."""

    @pytest.fixture
    def bot(self) -> Bot:
        bot = Bot(store=None)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None: ...

        return bot

    @BACKENDS
    def test_an_event_loop_runs_already(self, bot: Bot, backend: Any) -> None:
        async def main() -> None:
            bot.run(backend=backend)

        for outer in ("asyncio", "trio"):
            with pytest.raises(
                ConfigurationError, match=r"an event loop runs here already; use `await bot\.serve\(\)`"
            ):
                anyio.run(main, backend=outer)

    @BACKENDS
    def test_another_thread(self, bot: Bot, backend: Any) -> None:
        with ThreadPoolExecutor(1) as threads:
            error = threads.submit(bot.run, backend=backend).exception()
        assert isinstance(error, ConfigurationError)
        assert "signals reach the main thread alone; use `await bot.serve()`, or `async with bot:`" in str(error)

    @pytest.mark.parametrize("backend", ["curio", "", None, 5])
    def test_a_backend_that_there_is_not(self, bot: Bot, backend: Any) -> None:
        with pytest.raises(ConfigurationError, match=f"^backend must be 'asyncio' or 'trio', not {backend!r}$"):
            bot.run(backend=backend)

    def test_a_backend_that_is_not_installed(self, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ConfigurationError, match=r"trio.*not installed"):
            bot.run(backend="trio")


class TestStandingBy:
    @BACKENDS
    def test_at_the_same_port_is_a_change_without_a_pause(self, backend: str, tmp_path: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        told: dict[str, Any] = {"store": str(tmp_path / "bot.db"), "port": port, "standby": True, "backend": backend}
        with process(handler="hangs", drain=0.1, **told) as first:
            until(first, "at the handlers")
            with process(handler="heeds", **told) as second:
                assert any("it is waited for" in line for line in second.stderr)
                assert second.poll() is None
                first.send_signal(signal.SIGTERM)
                assert end_of(first)[0] == 0
                until(second, "at the handlers")
                assert asked(port, "/livez").startswith(b"running, ")
                second.send_signal(signal.SIGTERM)
                assert end_of(second)[:2] == (0, "closed\noffers 1\n")


def asked(port: int, path: str) -> bytes:
    """What is answered at the port, once there is somebody to answer."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
                said: bytes = answer.read()
                return said
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("nobody answers")


class TestStatuses:
    @BACKENDS
    @pytest.mark.parametrize(("handler", "status"), [("leaves", 1), ("leaves with 5", 5), ("leaves with 256", 1)])
    def test_of_a_handler_that_leaves_is_never_that_of_a_drain(self, backend: str, handler: str, status: int) -> None:
        """A supervisor that restarts what failed must not take it for one."""
        with process(backend=backend, handler=handler) as child:
            ended, _, complained = end_of(child)
        assert ended == status
        assert "the handler 'quote' of the event 'new' of request 1 ends the bot by SystemExit" in complained

    @BACKENDS
    @pytest.mark.parametrize(
        ("status", "told"),
        [
            (77, {"faults": ["login_message_401"]}),
            (76, {"faults": ["not_found_page"]}),
            (76, {"faults": ["bad_certificate"]}),
            (78, {"bare": True}),
            (78, {"host": "b\u00fccher_x"}),
            (78, {"yields": "nothing"}),
            (1, {"bug": True}),
        ],
        ids=["login", "address", "certificate", "configuration", "host", "lifespan", "bug"],
    )
    def test_says_what_kept_it_from_starting(self, backend: str, status: int, told: dict[str, Any]) -> None:
        with process(backend=backend, **told) as child:
            ended, said, complained = end_of(child)
        assert ended == status
        assert "offers" not in said
        assert f"CRITICAL freight_exchange.bot: the bot ends with status {status}" in complained
        # A bug has a traceback; for what a person can mend there is a sentence.
        assert ("Traceback" in complained) == (status == 1)
        assert complained.strip()

    @BACKENDS
    def test_73_where_the_store_cannot_be_used(self, backend: str, tmp_path: Path) -> None:
        path = tmp_path / "bot.db"
        path.write_bytes(b"this is no database, and never was one" * 100)
        for store in (path, tmp_path):
            with process(backend=backend, store=str(store)) as child:
                ended, _, complained = end_of(child)
            assert ended == 73
            assert "Traceback" not in complained
        assert path.read_bytes().startswith(b"this is no database")

    @BACKENDS
    def test_75_where_another_process_holds_it(self, backend: str, tmp_path: Path) -> None:
        store = str(tmp_path / "bot.db")
        with process(backend=backend, handler="hangs", store=store, drain=0.1) as first:
            until(first, "at the handlers")
            with process(backend=backend, store=store) as second:
                ended, _, complained = end_of(second)
            assert ended == 75
            assert str(first.pid) in complained
            assert first.poll() is None
            first.send_signal(signal.SIGTERM)
            assert end_of(first)[0] == 0

    @BACKENDS
    def test_75_where_it_has_the_operators_port_as_well_and_78_where_somebody_else_has_that(
        self, backend: str, tmp_path: Path
    ) -> None:
        """Another start helps once that process is gone: a supervisor must not be told that it does not."""
        store = str(tmp_path / "bot.db")
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            told: dict[str, Any] = {
                "backend": backend,
                "port": other.getsockname()[1],
                "handler": "hangs",
                "drain": 0.1,
            }
            with process(store=str(tmp_path / "other.db"), **told) as alone:
                ended, _, complained = end_of(alone)
                assert ended == 78
                assert "CRITICAL freight_exchange.bot: the bot ends with status 78: the operator's port" in complained
        with process(store=store, **told) as first:
            until(first, "at the handlers")
            with process(store=store, **told) as second:
                ended, _, complained = end_of(second)
            assert ended == 75
            assert str(first.pid) in complained
            first.send_signal(signal.SIGTERM)
            assert end_of(first)[0] == 0

    def test_the_documented_ones_are_all_of_them(self) -> None:
        from freight_exchange import Bot
        from freight_exchange.bot.process import HUNG, STATUSES

        assert Bot.run.__doc__ is not None
        for status in (HUNG, *(status for _, status in STATUSES)):
            assert str(status) in Bot.run.__doc__
