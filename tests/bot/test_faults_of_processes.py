"""Processes that fork, are signalled early, or whose loop is blocked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

HEAD = """
import multiprocessing, os, signal, sys, threading, time
from datetime import timedelta
import anyio
from freight_exchange import Bot
from freight_exchange.testing import Sandbox

sandbox = Sandbox()
sandbox.publish()
second = timedelta(seconds=1)
bot = Bot(sandbox.client(), store=None, start="backfill", interval=second, drain=5 * second, {options})
"""


@contextmanager
def running(program: str, *, options: str = "", backend: str = "asyncio") -> Iterator[subprocess.Popen[str]]:
    """Run a bot's program, which ends by `bot.run()`, during the block."""
    text = HEAD.format(options=options) + textwrap.dedent(program) + f"\nbot.run(backend={backend!r})\n"
    with subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(process: subprocess.Popen[str], last: str) -> list[str]:
    """Read lines until one is `last`."""
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        found.append(line.strip())
        if found[-1] == last:
            return found
    raise AssertionError(f"{found}; {process.stderr and process.stderr.read()}")


STOP = signal.SIGTERM


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_signal_of_fork_ends_the_fork_alone(backend: str) -> None:
    """A fork shares the wake-up descriptor and the handlers of its parent, until they are reset."""
    program = """
        @bot.on_new
        async def quote(request, ctx):
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            os.kill(child, signal.SIGTERM)
            print("child ended by", os.waitpid(child, 0)[1] & 127)
            await anyio.sleep(0.5)
            print("stopping" if ctx.stopping else "goes on", flush=True)
        """
    with running(program, backend=backend) as process:
        assert lines_of(process, "goes on") == [f"child ended by {int(STOP)}", "goes on"]
        process.send_signal(STOP)
        assert process.wait(20) == 0


def test_workers_of_a_pool_are_ended_without_a_drain() -> None:
    program = """
        def square(number):
            return number * number


        def work():
            with multiprocessing.get_context("fork").Pool(2) as pool:
                return pool.map(square, [2, 3])


        @bot.on_new
        async def quote(request, ctx):
            print(await anyio.to_thread.run_sync(work), bool(ctx.stopping))
            print("done", flush=True)
        """
    with running(program) as process:
        assert lines_of(process, "done") == ["[4, 9] False", "done"]
        process.send_signal(STOP)
        assert process.wait(20) == 0


def test_first_process_of_a_container_is_ended_by_a_signal_during_its_imports() -> None:
    """The kernel drops signals to process 1 that it has no handler for."""
    text = (
        "import os, signal, time\nown = os.getpid()\nos.getpid = lambda: 1\nimport freight_exchange.bot\n"
        "os.kill(own, signal.SIGTERM)\ntime.sleep(5)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, env=environment, check=False)
    assert ended.returncode == 128 + STOP


def test_port_answers_while_the_loop_is_blocked() -> None:
    program = """
        @bot.on_new
        async def quote(request, ctx):
            print(bot.status().address[1])
            print("blocks", flush=True)
            time.sleep(30)
        """
    with running(program, options="port=0") as process:
        port = lines_of(process, "blocks")[0]
        codes = []
        for _ in range(2):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=3) as reply:
                    codes.append(reply.status)
            except urllib.error.HTTPError as error:
                codes.append(error.code)
            time.sleep(4)
        # Its scans have stopped: the watermark is older than three intervals.
        assert codes == [200, 503]
