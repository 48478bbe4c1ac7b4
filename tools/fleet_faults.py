"""Random faults on three replicas of a bot, and what the exchange saw of it, as a table.

`python tools/fleet_faults.py --faults 60 --seed 0` kills, freezes and cuts off replicas, restarts the database and
loses replies of the exchange, while requests are published. A third of the faults falls into the steps of an offer.
`--without wait`, `limit` or `fences` removes a guard, to see what that lets through; schedules that need it are rare.
Exits with 1 if anything was missed, offered twice or for the wrong amount, or is not at its end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

# A script's own folder is on the path; the root of the tree and its sources, which what follows needs, are not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import psycopg
from tools.lib.fleet_replica import price_of
from tools.lib.postgres import PostgresServer, running_server
from tools.lib.tcp_proxy import TcpProxy

from freight_exchange.sandbox import FAULTS, Cargo, Exchange
from freight_exchange.sandbox.faces.tcp import serve_tcp

ROOT: Final = Path(__file__).resolve().parent.parent
SUBMIT: Final = "quote/submitoffer"
REPLICAS: Final = 3
LOST: Final = ("reset_after_processing", "reset_after_send", "stall", "bad_gateway")
END_TIMEOUT: Final = 600.0
IN_OFFERS: Final = ("after intent", "before sending", "after sending", "before send", "after send", "before confirmed")


class Replica:
    """One replica: its process, its ways to the database and to the exchange, and when its fault ends."""

    def __init__(self, trial: Trial, number: int) -> None:
        self.trial = trial
        self.number = number
        self.database = TcpProxy(trial.server.port)
        self.service = TcpProxy(trial.port)
        self.pid = 0
        self.starts = 0
        self.wakes_at = self.starts_at = self.flows_at = 0.0

    async def start(self) -> None:
        self.starts += 1
        order = {
            "url": f"http://127.0.0.1:{self.service.port}/api",
            "database": self.trial.server.url(port=self.database.port),
            "seed": self.trial.seed * 10_000 + self.number * 1000 + self.starts,
            "notes": str(self.trial.directory / "notes"),
            "log": str(self.trial.directory / "log"),
            "without": self.trial.without,
            "backend": ("asyncio", "trio")[self.number % 2],
        }
        self.pid = await self.trial.fork(order)
        self.starts_at = self.wakes_at = 0.0

    @property
    def state(self) -> str:
        """The letter of the process's state; empty once it has ended."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""

    async def attend(self, now: float, random: Random) -> None:
        """Start it again, wake it, or let its connections flow, once that is due."""
        state = self.state
        if state in ("", "Z"):
            self.starts_at = self.starts_at or now + random.uniform(0.2, 2)
            if now >= self.starts_at:
                await self.start()
        elif state == "T":
            # From less than a lease to more than a take-over takes.
            self.wakes_at = self.wakes_at or now + random.choice((0.5, 3, 9.5, 32))
            if now >= self.wakes_at:
                self.wake()
        if self.flows_at and now >= self.flows_at:
            self.flow()

    def signals(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wake(self) -> None:
        self.wakes_at = 0.0
        self.signals(signal.SIGCONT)

    def flow(self) -> None:
        self.flows_at = 0.0
        self.database.resume()
        self.service.resume()


class Trial:
    """One run."""

    def __init__(self, server: PostgresServer, sandbox: Exchange, port: int, directory: Path, options: Any) -> None:
        self.server = server
        self.sandbox = sandbox
        self.port = port
        self.directory = directory
        self.seed: int = options.seed
        self.without: list[str] = options.without
        self.wanted: int = options.faults
        self.faults: Counter[str] = Counter()
        self.prices: dict[int, Any] = {}
        self._random = Random(self.seed)
        self._nursery: asyncio.subprocess.Process

    async def fork(self, order: dict[str, Any]) -> int:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(json.dumps(order).encode() + b"\n")
        return int(await self._nursery.stdout.readline())

    async def run(self) -> dict[str, Any]:
        self._nursery = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tools.lib.fleet_replica", cwd=ROOT, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )  # fmt: skip
        replicas = [Replica(self, number) for number in range(REPLICAS)]
        try:
            for replica in replicas:
                await replica.start()
            await self._make_faults(replicas)
            await self._settle(replicas)
        finally:
            for replica in replicas:
                replica.signals(signal.SIGKILL)
                replica.database.close()
                replica.service.close()
            self._nursery.kill()
            await self._nursery.wait()
        return self._counts()

    def total(self) -> int:
        return self.faults.total() + sum(self._notes().values())

    def _notes(self) -> Counter[str]:
        notes = self.directory / "notes"
        return Counter(notes.read_text().splitlines()) if notes.exists() else Counter()

    async def _make_faults(self, replicas: list[Replica]) -> None:
        next_fault = time.monotonic() + 6
        next_request = 0.0
        while self.total() < self.wanted:
            now = time.monotonic()
            if now >= next_request:
                self._publish()
                next_request = now + 0.5
            if now >= next_fault:
                self._make_fault(self._random.choice(replicas), now)
                next_fault = now + self._random.uniform(2, 6)
            for replica in replicas:
                await replica.attend(now, self._random)
            await asyncio.sleep(0.05)

    def _publish(self) -> None:
        quantity = len(self.prices) + 1
        index = self.sandbox.publish(self.sandbox.shipper, time.time(), Cargo(quantity=quantity))
        self.prices[index] = price_of(quantity)

    def _make_fault(self, replica: Replica, now: float) -> None:
        kinds: dict[str, Callable[[], object]] = {
            "SIGKILL at random": lambda: replica.signals(signal.SIGKILL),
            "SIGSTOP at random": lambda: replica.signals(signal.SIGSTOP),
            "database stalled": replica.database.stall,
            "database reset": replica.database.reset,
            "exchange stalled": replica.service.stall,
            "exchange reset": replica.service.reset,
            "reply lost": lambda: self.sandbox.faults.add(*FAULTS[self._random.choice(LOST)](path=SUBMIT)),
            "database restarted": self._restart_database,
        }
        weights = [3, 3, 3, 1, 2, 1, 3, 1]
        (kind,) = self._random.choices([*kinds], weights)
        kinds[kind]()
        self.faults[kind] += 1
        if kind.endswith("stalled"):
            replica.flows_at = replica.flows_at or now + self._random.uniform(1, 6)

    def _restart_database(self) -> None:
        self.server.stop("immediate")
        self.server.start()

    async def _settle(self, replicas: list[Replica]) -> None:
        """Heal everything, and wait until nothing is left to do."""
        self.sandbox.faults.clear()
        (self.directory / "notes.over").touch()
        until = time.monotonic() + END_TIMEOUT
        while time.monotonic() < until:
            for replica in replicas:
                replica.flow()
                replica.wake()
                await replica.attend(time.monotonic() + 10, self._random)
            if {*self._offered()} >= {*self.prices} and not self._open():
                return
            await asyncio.sleep(0.5)

    def _offered(self) -> list[int]:
        return [record.offer.request for record in self.sandbox.audit_log.offers]

    def _open(self) -> int:
        """Count the deliveries that are not done, and the offers without a result."""
        query = (
            "SELECT (SELECT count(*) FROM freight_exchange.delivery WHERE state <> 'done')"
            " + (SELECT count(*) FROM freight_exchange.effect WHERE key LIKE 'offer:%' AND state <> 'confirmed')"
        )
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def _counts(self) -> dict[str, Any]:
        offers = [record.offer for record in self.sandbox.audit_log.offers]
        offered = Counter(offer.request for offer in offers)
        notes = self._notes()
        return {
            "faults": self.total(),
            "  of them within an offer": sum(n for note, n in notes.items() if note.partition(" ")[2] in IN_OFFERS),
            "requests": len(self.prices),
            "offers": len(offers),
            "offers too many": sum(count - 1 for count in offered.values()),
            "requests missed": len({*self.prices} - {*offered}),
            "wrong prices": sum(offer.amount != self.prices[offer.request] for offer in offers),
            "open at the end": self._open(),
            "offered twice": sorted(index for index, count in offered.items() if count > 1),
            "kinds": dict(sorted((self.faults + notes).items())),
        }


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", action="append", default=[], choices=("wait", "limit", "fences"))
    parser.add_argument("--keep", type=Path, help="folder for the logs of the replicas")
    options = parser.parse_args()
    began = time.monotonic()
    with running_server() as server, tempfile.TemporaryDirectory() as name:
        directory = options.keep or Path(name)
        directory.mkdir(parents=True, exist_ok=True)
        sandbox = Exchange()
        async with serve_tcp(sandbox) as face:
            port = int(face.url.rpartition(":")[2].partition("/")[0])
            counts = await Trial(server, sandbox, port, directory, options).run()
    for label, count in counts.items():
        print(f"{label:>28}  {count}")
    print(f"{'seconds':>28}  {time.monotonic() - began:.0f}")
    wrong = ("offers too many", "requests missed", "wrong prices", "open at the end")
    return int(any(counts[label] for label in wrong))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
