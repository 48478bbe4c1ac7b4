"""Bot as a separate process: its program, its starter, and helpers for tests of its end."""

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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[2]
BOTH = ("asyncio", "trio")
TIMEOUT = 60.0
"""Seconds after which a test fails because its process does not end."""

PROGRAM = """
import asyncio, json, multiprocessing, os, signal, sys, time
from datetime import timedelta
from functools import partial

import anyio
from freight_exchange import Bot, FreightExchange, StoreError
from freight_exchange.errors import HeldError
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Profile, Sandbox

options = json.loads(sys.argv[1])
if options.get("loop") == "as on Windows":
    for name in ("add_signal_handler", "remove_signal_handler"):
        delattr(asyncio.SelectorEventLoop, name)


def say(word):
    print(word, flush=True)


async def exchange_of(sandbox):
    return sandbox.client()


threads = []


def never_heeds():
    threads.append("started")
    time.sleep(3600)


def absolute():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [-2, 3])


async def leave_a_thread(tasks):
    tasks.start_soon(partial(anyio.to_thread.run_sync, never_heeds, abandon_on_cancel=True))
    while not threads:
        await anyio.sleep(0.01)


class FailingTwice(Store):
    # Once a handler was called, two tasks fail at once, with different errors.
    first = None

    async def run(self, function, /, *args, **kwargs):
        if begun:
            if self.first is not None:
                self.first.set()
                raise HeldError("locked", holder="another program")
            self.first = anyio.Event()
            await self.first.wait()
            raise StoreError("damaged")
        return await super().run(function, *args, **kwargs)


sandbox = Sandbox(Profile(token_lifetime=options.get("token_lifetime", 3600)))
indexes = [sandbox.publish() for _ in range(options.get("requests", 1))]
for fault in options.get("faults", ()):
    sandbox.strike(*FAULTS[fault](times=None))
client = None if options.get("bare") else sandbox.client()


async def lifespan():
    say("lifespan")
    if options.get("bug"):
        raise RuntimeError("a bug")
    if options.get("opening"):
        await anyio.sleep(3600)
    if options.get("yields"):
        return
    try:
        match options.get("refreshes in"):
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
    while not begun:
        await anyio.sleep(0.01)
    await anyio.sleep(0.1)
    raise OSError("the tariff is gone")


async def close():
    if options.get("closing"):
        say("closing")
        if options["closing"] == "raises":
            raise OSError("the pool is gone")
        if options["closing"] == "in a thread":
            await anyio.to_thread.run_sync(never_heeds)
        await anyio.sleep(3600)
    say("closed")


bot = Bot(
    client,
    store=FailingTwice(options["store"]) if options.get("fails twice") else options.get("store"),
    start="backfill",
    interval=timedelta(seconds=1),
    drain=timedelta(seconds=options.get("drain", 30)),
    concurrency=100,
    settle=timedelta(0),
    lifespan=lifespan,
    port=0 if "host" in options else options.get("port"),
    host=options.get("host", "127.0.0.1"),
    standby=options.get("standby", False),
)
begun = []


@bot.on_new
async def quote(request, ctx):
    begun.append(request.index)
    if len(begun) == len(indexes):
        say("at the handlers")
    match options.get("handler"):
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
            match options["ends by"]:
                case "store":
                    os.rename(options["store"], options["store"] + ".gone")
                case "login":
                    sandbox.strike(*FAULTS["login_message_401"](times=None))
                case status:
                    sys.exit(status)
        case "leaves a thread":
            async with anyio.create_task_group() as tasks:
                await leave_a_thread(tasks)
                bot.stop()
        case "leaves a thread, and fails":
            async with anyio.create_task_group() as tasks:
                await leave_a_thread(tasks)
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
            while not os.path.exists(options["until"]):
                if options["blocks"]:
                    time.sleep(0.01)
                else:
                    await anyio.sleep(0.01)
            await ctx.offer(amount=7, currency=840)
        case "logs":
            ctx.log.info("quoting %s", "tiles\\n2027-01-01 CRITICAL \\x1b[2J")
            bot.stop()
        case "forks":
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            os.kill(child, signal.SIGTERM)
            ended_by = os.waitpid(child, 0)[1] & 127
            await anyio.sleep(0.5)
            say(f"the fork was ended by {ended_by}, stopping: {bool(ctx.stopping)}")
        case "has a pool of forks":
            say(f"{await anyio.to_thread.run_sync(absolute)}, stopping: {bool(ctx.stopping)}")
        case "says its port, and blocks":
            say(bot.status().address[1])
            time.sleep(30)
        case "signals itself":
            signal.raise_signal(signal.SIGTERM)
            await ctx.stopping.wait()


@bot.on_updated
async def again(request, ctx):
    say("updated")


if options.get("wants"):

    @bot.on_new
    async def wants(request, ctx, what_there_is_not):
        say("wants")


bot.run(backend=options.get("backend", "asyncio"))
assert bot.status().state == "stopped"
say("offers " + str(sum(len(sandbox.audit_log.offers_on(index)) for index in indexes)))
if options.get("afterwards") == "goes on":
    time.sleep(2.5)
    print("went on", end="")  # what is not flushed is not lost
if options.get("afterwards") == "fails":
    raise OSError("afterwards")
"""


STARTER = """
import gc, importlib, os, signal, socket, sys

import freight_exchange.testing
from freight_exchange import Bot, FreightExchange

_, asks, backend, program = sys.argv
importlib.import_module("anyio._backends._" + backend)
gc.freeze()  # a fork would otherwise visit these objects when it ends, and copy their memory
asks = socket.socket(fileno=int(asks))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    options, outs, _, _ = socket.recv_fds(asks, 65536, 3)
    if not options:
        os._exit(0)
    if os.fork() == 0:
        asks.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        pid = os.fork()
        if pid == 0:
            break
        os.close(outs[0])
        os.close(outs[1])
        try:
            os.write(outs[2], b"%d\\n" % pid)
            os.write(outs[2], b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        finally:  # a test that has ended reads no status
            os._exit(0)
    for out in outs:
        os.close(out)
os.dup2(outs[0], 1)
os.dup2(outs[1], 2)
for out in outs:
    os.close(out)
sys.argv = ["-c", options.decode()]
if sys.platform != "linux":
    os.execv(sys.executable, [sys.executable, "-c", program, *sys.argv[1:]])
exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
"""
"""Program that forks a process for each requested program, and another one that waits for it.

It imports modules once. Everything else is as in a new process, above all its end. Except on Linux, the forked process
starts a new interpreter.
"""


class Started:
    """Forked process, with the interface of `subprocess.Popen`."""

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
            text, log = self.stdout.read(), complaining.result()
        if overdue.finished.is_set():
            raise subprocess.TimeoutExpired("the program", timeout, text, log)
        overdue.cancel()
        self.wait(timeout)
        return text, log


STARTERS = contextlib.ExitStack()


@cache
def starter(backend: str) -> socket.socket:
    """Start the process that forks those of one backend, and return its socket."""
    parent_end, child_end = socket.socketpair()
    with child_end:
        child = subprocess.Popen(
            [sys.executable, "-c", STARTER, str(child_end.fileno()), backend, PROGRAM],
            stdout=subprocess.DEVNULL,
            cwd=ROOT / "src",
            env={name: value for name, value in os.environ.items() if not name.startswith("FREIGHT_EXCHANGE_")},
            pass_fds=[child_end.fileno()],
        )
    STARTERS.enter_context(child)
    return STARTERS.enter_context(parent_end)  # closed first: that ends it


@contextmanager
def starters() -> Iterator[None]:
    """End the forking processes at the end of the block."""
    with STARTERS:
        yield
    starter.cache_clear()


@contextmanager
def process(backend: str = "asyncio", **options: Any) -> Iterator[Started]:
    reading, writing = zip(*(os.pipe() for _ in range(3)), strict=True)
    with os.fdopen(reading[0]) as text, os.fdopen(reading[1]) as log, FileIO(reading[2]) as waited:
        socket.send_fds(starter(backend), [json.dumps({"backend": backend, **options}).encode()], list(writing))
        for pipe in writing:
            os.close(pipe)
        child = Started(text, log, waited)
        try:
            yield child
        finally:
            child.send_signal(signal.SIGKILL)


def until(child: Started, word: str) -> None:
    """Wait until the process prints a line."""
    for line in child.stdout:
        if line.strip() == word:
            return
    raise AssertionError(f"it ended without saying {word!r}: {child.stderr.read()}")


def end_of(child: Started) -> tuple[int, str, str]:
    text, log = child.communicate(timeout=TIMEOUT)
    return child.wait(TIMEOUT), text, log
