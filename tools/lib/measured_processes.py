"""Processes that handle the deliveries of a fleet, or the jobs of a peer, and count them in shared memory."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from multiprocessing.context import ForkServerProcess
from typing import Any, Final

import anyio
import attrs
import httpx
from tools.lib.endless_exchange import EndlessExchange

from freight_exchange import Bot, Context, FreightExchange, RateRequest
from freight_exchange.store import PostgresStore

__all__ = ["ACCOUNT", "MeasuredProcesses", "Program", "Work", "run_bot", "run_peer"]

ACCOUNT: Final = ("forwarder@demo.example", "forwarder")
# A process forked from one that has the imports starts at once.
_context: Final = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])

Work = Callable[[], Awaitable[None]]
"""Work of a handler: it records the time, simulates a latency, and counts."""


@attrs.frozen(kw_only=True)
class Program:
    """Program of each process.

    Attributes:
        run: `run_bot` or `run_peer`.
        database: Address of the database.
        name: Name of the bot.
        url: The exchange, or `None` for one where nothing happens.
        concurrency: Deliveries at a time.
        latency: Seconds that a handler waits.
        lease, interval: Seconds.
    """

    run: Callable[[Program, Work], None]
    database: str
    name: str = "bot"
    url: str | None = None
    concurrency: int = 8
    latency: float = 0.0
    lease: float = 15.0
    interval: float = 1.0


class MeasuredProcesses:
    """Several processes of one program.

    Args:
        program: Program of each process.
        count: Number of processes.
    """

    def __init__(self, program: Program, count: int) -> None:
        self._program = program
        self._counts = _context.RawArray("q", count)
        self._times = _context.RawArray("d", count)
        self._processes: list[ForkServerProcess] = []
        for place in range(count):
            self._processes.append(self._start(place))

    @property
    def handled(self) -> int:
        """Return the number of handled deliveries."""
        return sum(self._counts)

    @property
    def all_work(self) -> bool:
        """Return whether each process has handled a delivery."""
        return all(self._counts)

    @property
    def latest(self) -> float:
        """Return the time of the last call of a handler, on the machine's monotonic clock."""
        return float(max(self._times))

    @property
    def pids(self) -> list[int]:
        """Return the process ids in order."""
        return [process.pid or 0 for process in self._processes]

    def signal(self, place: int, *, kill: bool) -> None:
        """Send SIGKILL or SIGTERM to a process."""
        process = self._processes[place]
        process.kill() if kill else process.terminate()

    def restart(self, place: int) -> None:
        """Wait for the end of a process, and start another one in its place."""
        self._processes[place].join()
        self._processes[place] = self._start(place)

    def end(self) -> None:
        """Kill all processes."""
        for process in self._processes:
            process.kill()
            process.join()

    def _start(self, place: int) -> ForkServerProcess:
        arguments = (self._program, self._counts, self._times, place)
        process = _context.Process(target=_run, args=arguments, daemon=True)
        process.start()
        return process


def _run(program: Program, counts: Any, times: Any, place: int) -> None:
    logging.basicConfig(level=logging.ERROR)

    async def work() -> None:
        times[place] = time.monotonic()
        if program.latency:
            await anyio.sleep(program.latency)
        counts[place] += 1

    program.run(program, work)


def run_bot(program: Program, work: Work) -> None:
    """Run a replica until it is stopped."""
    email, password = ACCOUNT
    http_client = None
    if program.url is None:
        http_client = httpx.AsyncClient(transport=EndlessExchange(float("inf"), lambda: 0.0), trust_env=False)
    bot = Bot(
        FreightExchange(program.url or EndlessExchange.url, email=email, password=password, http_client=http_client),
        store=PostgresStore(program.database, lease=timedelta(seconds=program.lease)),
        name=program.name,
        start="backfill",
        interval=timedelta(seconds=program.interval),
        settle=timedelta(0),
        concurrency=program.concurrency,
    )

    @bot.on_new(id="handle")
    async def handle(request: RateRequest, ctx: Context) -> None:
        await work()

    bot.run()


def run_peer(program: Program, work: Work) -> None:
    """Run a worker of procrastinate until it is stopped."""
    import procrastinate  # in the environment of the benchmarks alone

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=program.database))

    async def handle(payload: str) -> None:
        await work()

    app.task(name="handle")(handle)

    async def run() -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=program.concurrency)

    asyncio.run(run())
