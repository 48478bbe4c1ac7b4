"""Fleets whose poller is ended again and again, and the time until another replica has taken over."""

from __future__ import annotations

import asyncio
import time

import attrs
import psycopg
from tools.lib.measured_processes import MeasuredProcesses, Program, run_bot
from tools.lib.waiting_queue import empty_database

from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.schema import prepare
from freight_sandbox import Cargo, Exchange
from freight_sandbox.server import serve

__all__ = ["INTERVAL", "LEASE", "Failover", "fail_over"]

LEASE = 2.0
INTERVAL = 1.0
_REPLICAS = 3
_POLLER = """
    SELECT replica.holder FROM freight_exchange.binding JOIN freight_exchange.replica ON replica.id = term_replica
    WHERE NOT replica.has_left AND replica.lease_until > clock_timestamp()
"""


@attrs.frozen
class Failover:
    """End of a poller.

    Attributes:
        taken: Seconds until another replica had the term.
        delivered: Seconds until a replica called the handler of a request that was published at the end of the poller.
    """

    taken: float
    delivered: float


async def fail_over(server: str, fleets: int, times: int, *, kill: bool) -> list[Failover]:
    """End the pollers of several fleets at a time, each in a separate database."""
    found = await asyncio.gather(
        *[_fail_over_fleet(server, f"fleet_{number}", times, kill) for number in range(fleets)]
    )
    return [one for fleet in found for one in fleet]


async def _fail_over_fleet(server: str, name: str, times: int, kill: bool) -> list[Failover]:
    with empty_database(server, name) as database:
        connection = DatabaseConnection(database)
        prepare(connection)
        connection.close()
        sandbox = Exchange()
        async with serve(sandbox) as face:
            processes = MeasuredProcesses(
                Program(run=run_bot, database=database, url=face.url, lease=LEASE, interval=INTERVAL), _REPLICAS
            )
            try:
                return [await _fail_over_once(database, sandbox, processes, kill=kill) for _ in range(times)]
            finally:
                await asyncio.to_thread(processes.end)


async def _fail_over_once(database: str, sandbox: Exchange, processes: MeasuredProcesses, *, kill: bool) -> Failover:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        # All replicas have joined and deliver.
        poller = -1
        while poller < 0 or await _count_living(connection) < _REPLICAS:
            poller = await _find_poller(connection, processes.pids)
        sandbox.publish(sandbox.shipper, time.time(), Cargo())
        handled = processes.handled
        while processes.handled == handled:  # noqa: ASYNC110  # another process counts
            await asyncio.sleep(0.01)
        handled, began = processes.handled, time.monotonic()
        processes.signal(poller, kill=kill)
        sandbox.publish(sandbox.shipper, time.time(), Cargo())
        taken = 0.0
        while not taken or processes.handled == handled:
            if not taken and await _find_poller(connection, processes.pids) not in (-1, poller):
                taken = time.monotonic() - began
            await asyncio.sleep(0.005)
        delivered = processes.latest - began
    await asyncio.to_thread(processes.restart, poller)
    return Failover(taken, delivered)


async def _find_poller(connection: psycopg.AsyncConnection, pids: list[int]) -> int:
    """Return the place of the process that has the term, or -1."""
    row = await (await connection.execute(_POLLER)).fetchone()
    return next((place for place, pid in enumerate(pids) if row and f"process {pid} " in row[0]), -1)


async def _count_living(connection: psycopg.AsyncConnection) -> int:
    query = "SELECT count(*) FROM freight_exchange.replica WHERE NOT has_left AND lease_until > clock_timestamp()"
    row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return int(row[0])
