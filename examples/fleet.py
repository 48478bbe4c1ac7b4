"""Demonstration of a fleet: three replicas of a bot on one PostgreSQL database, two killed and one frozen.

The replica that scans is killed, another one is killed while its offer is in flight, and a third is frozen (SIGSTOP)
for longer than its lease and woken. At the end everything is counted, from the log of the exchange and from the
database. The exit status is 1 if a promise was broken.

Run it with `make demo DEMO=fleet` or `python examples/fleet.py`. The server comes from a wheel, for development only.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path

import psycopg

from freight_exchange import FreightExchange
from freight_sandbox import FAULTS, Exchange
from freight_sandbox.records import Offer
from freight_sandbox.server import serve

# A script's own folder is on the path; the root, which the next imports need, is not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.stage import Program, client, say, sea, until
from tests.support.postgres import running_server

SUBMIT = "quote/submitoffer"
POLLER = """
    SELECT replica.holder FROM freight_exchange.binding JOIN freight_exchange.replica ON replica.id = term_replica
    WHERE NOT replica.has_left AND replica.lease_until > clock_timestamp()
"""
IN_DOUBT = "SELECT FROM freight_exchange.effect WHERE key LIKE 'offer:%' AND state <> 'confirmed'"
OPEN = "SELECT FROM freight_exchange.delivery WHERE state <> 'done'"


class Stage:
    """The exchange, the database and the replicas.

    Attributes:
        prices: Each published request with its expected price.
    """

    def __init__(self, sandbox: Exchange, shipper: FreightExchange, database: str, replicas: list[Program]) -> None:
        self.sandbox = sandbox
        self.replicas = replicas
        self.prices: dict[int, Decimal] = {}
        self._shipper = shipper
        self._database = database

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self._database, autocommit=True) as connection:
            return connection.execute(query).fetchall()

    async def publish(self, count: int) -> None:
        for _ in range(count):
            quantity = 1 + len(self.prices)
            request = await self._shipper.requests.publish(sea("Ceramic tiles", "Hong Kong", "Hamburg", quantity))
            self.prices[request.index] = Decimal(1000 + quantity)
        say("shipper", f"has published {len(self.prices)} requests")

    def offers(self) -> list[Offer]:
        return [record.offer for record in self.sandbox.audit_log.offers]

    def offered(self) -> list[int]:
        return [offer.request for offer in self.offers()]

    async def all_offered(self) -> None:
        await until(lambda: {*self.offered()} >= {*self.prices})

    def poller(self) -> Program | None:
        holders = [str(row[0]) for row in self.ask(POLLER)]
        return next((one for one in self.replicas if holders and f"process {one.pid} " in holders[0]), None)

    async def wait_for_poller(self) -> Program:
        await until(lambda: self.poller() is not None)
        found = self.poller()
        assert found is not None
        return found


async def main() -> int:
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        server = stack.enter_context(running_server())
        say("database", f"listens at {server.url()}")
        sandbox = Exchange()
        url = (await stack.enter_async_context(serve(sandbox))).url
        say("exchange", f"listens at {url}")
        shipper = await stack.enter_async_context(client(url, sandbox.shipper))
        command = ["-m", "examples.fleet_bot", server.url()]
        replicas = [
            await stack.enter_async_context(Program(f"replica {name}", command, url, sandbox.forwarder))
            for name in "ABC"
        ]
        stage = Stage(sandbox, shipper, server.url(), replicas)
        await play(stage)
        for replica in replicas:
            await replica.drains()
        return verdict(stage, time.monotonic() - began)


async def play(stage: Stage) -> None:
    await stage.publish(6)
    for replica in stage.replicas:
        await replica.starts()
    await stage.all_offered()
    await until(lambda: not stage.ask(IN_DOUBT))

    note("the replica that scans is killed (kill -9)")
    poller = await stage.wait_for_poller()
    await poller.dies()
    began = time.monotonic()
    await stage.publish(6)
    await stage.all_offered()
    say("fleet", f"has offered on everything {time.monotonic() - began:.1f} s after that")
    await poller.starts()

    note("a replica is killed while the answer to its offer is on its way")
    stage.sandbox.faults.add(*FAULTS["stall"](path=SUBMIT))
    await stage.publish(1)
    await stage.all_offered()
    (owner,) = {
        str(row[0])
        for row in stage.ask(
            "SELECT holder FROM freight_exchange.effect JOIN freight_exchange.replica ON replica.id = effect.owner"
            " WHERE effect.state = 'sending'"
        )
    }
    worker = next(one for one in stage.replicas if f"process {one.pid} " in owner)
    await worker.dies()
    await stage.publish(6)
    await stage.all_offered()
    await worker.starts()

    note("a replica is frozen for three leases, and woken")
    frozen = await stage.wait_for_poller()
    frozen.signals(signal.SIGSTOP)
    await stage.publish(6)
    await asyncio.sleep(6)
    await stage.all_offered()
    frozen.signals(signal.SIGCONT)
    await stage.publish(6)
    await stage.all_offered()
    # A handler is called once more after its offer is no longer in doubt.
    await until(lambda: not stage.ask(IN_DOUBT) and not stage.ask(OPEN))


def verdict(stage: Stage, seconds: float) -> int:
    offered = stage.offered()
    expected = stage.prices
    counts = {
        "requests": len(expected),
        "offers": len(offered),
        "offers too many": len(offered) - len({*offered}),
        "requests missed": len({*expected} - {*offered}),
        "wrong prices": sum(offer.amount != expected[offer.request] for offer in stage.offers()),
        "in doubt": len(stage.ask(IN_DOUBT)),
        "deliveries open": len(stage.ask(OPEN)),
        "replicas that ended badly": sum(replica.exit_status != 0 for replica in stage.replicas),
    }
    print()
    for name, count in counts.items():
        print(f"{name:>26}  {count}")
    print(f"{'seconds':>26}  {seconds:.0f}")
    return int(any(count for name, count in counts.items() if name not in ("requests", "offers")))


def note(text: str) -> None:
    print(f"\n--- {text}", flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
