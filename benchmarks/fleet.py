"""Deliveries of a fleet beside procrastinate with a lock for each job: handlers that do nothing, on one PostgreSQL.

`make bench ARGS=fleet` prints the figures alone.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import anyio
import psycopg
from tests.support.postgres import running_server

from benchmarks.rounds import ROOT, SDK, Figures, Scale, Table, interleaved
from freight_exchange import Bot
from freight_exchange.testing import Sandbox

PEER: Final = "procrastinate"
_CONCURRENCY: Final = 8
_CANDIDATES: Final = {
    SDK: ("publish", "deliver", "SELECT count(*) FROM freight_exchange.delivery WHERE state = 'done'"),
    PEER: ("defer", "work", "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"),
}


def tables(scale: Scale) -> Iterator[Table]:
    with running_server() as server:
        for replicas in (1, 3):
            run = {name: partial(_measure, server.url(), name, replicas, scale.of(2000)) for name in _CANDIDATES}
            title = f"A delivery to a handler that does nothing; processes: {replicas}"
            yield Table(f"fleet {replicas}", title, {"time": "ms"}, interleaved(run, scale.rounds), PEER)


def _measure(server: str, candidate: str, replicas: int, count: int) -> Figures:
    prepare, work, done = _CANDIDATES[candidate]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS fleet WITH (FORCE)")
        connection.execute("CREATE DATABASE fleet")
    address = server.removesuffix("postgres") + "fleet"
    command = [sys.executable, "-m", "benchmarks.fleet", address, str(count)]
    subprocess.run([*command, prepare], check=True, cwd=ROOT)
    workers = [subprocess.Popen([*command, work], cwd=ROOT) for _ in range(replicas)]
    times = []
    with psycopg.connect(address, autocommit=True) as connection:
        # All processes have started by the first tenth, and have work until the last one.
        for reached in (0.1 * count, 0.9 * count):
            while connection.execute(done).fetchall()[0][0] < reached:
                time.sleep(0.02)
            times.append(time.perf_counter())
    for worker in workers:
        worker.kill()
        worker.wait()
    return {"time": (times[1] - times[0]) * 1e3 / (0.8 * count)}


async def _run(address: str, count: str, step: str) -> None:
    if step in _CANDIDATES[PEER]:
        from procrastinate import App, PsycopgConnector

        app = App(connector=PsycopgConnector(conninfo=address))
        task = app.task(name="nothing")(_nothing)
        async with app.open_async():
            if step == "work":
                await app.run_worker_async(concurrency=_CONCURRENCY)
            await app.schema_manager.apply_schema_async()
            for number in range(int(count)):
                await task.configure(lock=str(number)).defer_async()
        return
    sandbox = Sandbox()
    bot, away = (Bot(store=address, start="backfill", concurrency=_CONCURRENCY) for _ in range(2))
    bot.on_new(id="nothing")(_nothing)
    away.on_withdrawn(id="other")(_nothing)
    async with sandbox.running(bot) as trial:
        await (trial.idle() if step == "publish" else anyio.sleep_forever())
    for _ in range(int(count)):
        sandbox.publish()
    # It leaves the events behind the first bot's cursor.
    async with sandbox.running(away) as trial:
        await trial.idle()


async def _nothing(*_: Any) -> None: ...


if __name__ == "__main__":
    anyio.run(partial(_run, *sys.argv[1:]))
