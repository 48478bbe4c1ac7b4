"""A bot that is a process of its own: the program, what starts it, and what the tests of its end ask of it."""

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
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any, TextIO

__all__ = ["PATIENCE", "Started", "end_of", "process", "side_by_side", "starters", "until"]

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
if told.get("loop") == "as on Windows":
    for name in ("add_signal_handler", "remove_signal_handler"):
        delattr(asyncio.SelectorEventLoop, name)


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
            await ctx.offer(amount=7, currency=840)
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
            await ctx.offer(amount=7, currency=840)
            bot.stop()
        case "stops, and takes its time":
            bot.stop()
            say("stopped")
            if told["blocks"]:
                time.sleep(told["seconds"])
            else:
                await anyio.sleep(told["seconds"])
            await ctx.offer(amount=7, currency=840)
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
say("offers " + str(sum(len(sandbox.audit_log.offers_on(index)) for index in indexes)))
if told.get("afterwards") == "goes on":
    time.sleep(2.5)
    print("went on", end="")  # what is not flushed is not lost
if told.get("afterwards") == "fails":
    raise OSError("afterwards")
"""


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


@contextmanager
def starters() -> Iterator[None]:
    """The processes that start those of the tests inside the block end with it."""
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
