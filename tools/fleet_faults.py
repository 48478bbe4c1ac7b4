"""Inject random faults into three replicas of a bot, and count the offers that the exchange received, as a table.

`python tools/fleet_faults.py --faults 300 --seed 0` kills, freezes and cuts off replicas, restarts the database, and
loses or delays offers and their replies, while requests are published. Some replicas are frozen at a moment of an offer
until another one has made it. More than a third of the faults falls between `sending` and its end. `--without wait`,
`limit` or `fences` removes a guard, to show the errors that it prevents. `--beside REVISION` is a rolling deploy:
replicas with the code of an earlier revision begin, and each start after a fault has that code or this one. Exits with
1 if a request was missed, received two offers or the wrong amount, or is not settled at the end. It prints the log of
requests with two offers.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, Final

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tools.fleet_trial.faulted_replica import FaultedReplica
from tools.fleet_trial.forks import Forks, revisions
from tools.fleet_trial.record import DELAYED, LOST, FleetRecord
from tools.lib.fleet_replica import price_of
from tests.support.postgres import PostgresServer, running_server

from freight_exchange.sandbox import FAULTS, Cargo, Exchange
from freight_exchange.sandbox.faces.tcp import serve_tcp

SUBMIT: Final = "quote/submitoffer"
REPLICAS: Final = 3
PUBLISH_INTERVAL: Final = 1.0
FIRST_FAULT: Final = 6.0
BETWEEN_FAULTS: Final = (0.5, 2.0)
OFFERS_BETWEEN_FAULTS: Final = 2
"""Offers between two faults.

A fleet that is down most of the time makes no offers.
"""
LONGEST_PAUSE: Final = 5.0
ARMED: Final = 6.0
AIMED_POINTS: Final = ("before send", "before intent", "within send", "before sending")
"""Moments at which a replica is frozen until another one has made its offer. Without the limit, the first one lets an
offer through, and without the wait the third one does. The others, before the offer is recorded, are for the fences."""
AIM_INTERVAL: Final = 12
"""Faults between two aimed ones."""
BURST: Final = 8
"""Requests published with an aimed fault, so that several offers of a replica are near that moment."""
LOSSES: Final = ("reset_after_processing", "reset_after_send", "stall", "bad_gateway")
LONGEST_STANDSTILL: Final = 240.0


class Trial:
    """Run of the trial."""

    def __init__(self, server: PostgresServer, sandbox: Exchange, port: int, directory: Path, options: Any) -> None:
        self._server = server
        self._sandbox = sandbox
        notes = directory / "notes"
        self._pause_file = directory / "notes.pause"
        self._wanted: int = options.faults
        self._record = FleetRecord(server, sandbox, notes)
        self._random = Random(options.seed)
        self._next_fault = self._armed_until = 0.0
        self._next_offer, self._next_aim = 0, AIM_INTERVAL
        self._aimed_points = cycle(AIMED_POINTS)
        self._forks = Forks(revisions(options.beside, directory / "before"), REPLICAS, self._random)
        order = {
            "seed": options.seed,
            "notes": str(notes),
            "log": str(directory / "log"),
            "without": options.without,
        }
        self._replicas = [
            FaultedReplica(number, server.port, port, self._forks.fork, order, self._random)
            for number in range(REPLICAS)
        ]

    async def run(self) -> dict[str, Any]:
        """Run the trial, and return the figures."""
        try:
            await self._forks.start()
            for replica in self._replicas:
                await replica.start()
            await self._make_faults()
            await self._settle()
        finally:
            for replica in self._replicas:
                replica.end()
            await self._forks.end()
        return self._record.figures()

    async def _make_faults(self) -> None:
        self._next_fault = time.monotonic() + FIRST_FAULT
        next_request = latest = 0.0
        while self._record.total() < self._wanted:
            now = time.monotonic()
            well = [replica for replica in self._replicas if replica.is_well]
            is_critical = any(now < replica.critical_until for replica in self._replicas)
            # New offers meanwhile would keep the others from complete readings of a listing that changes.
            if now >= next_request and not is_critical:
                self._publish()
                next_request = now + PUBLISH_INTERVAL
            is_aim_due = self._record.total() >= self._next_aim
            self._pause(is_paused=is_critical or now < self._armed_until or is_aim_due)
            if is_critical or now < self._armed_until:
                self._next_fault = now + self._random.uniform(*BETWEEN_FAULTS)
            elif is_aim_due:
                # All else waits until every replica is well.
                if len(well) == REPLICAS:
                    self._aim()
            elif (
                well and now >= self._next_fault and (now >= latest or len(self._record.offered()) >= self._next_offer)
            ):
                self._next_fault = now + self._random.uniform(*BETWEEN_FAULTS)
                self._next_offer, latest = len(self._record.offered()) + OFFERS_BETWEEN_FAULTS, now + LONGEST_PAUSE
                await self._make_fault(self._random.choice(well), now, is_calm=len(well) == REPLICAS)
            for replica in self._replicas:
                await replica.attend(now, self._record.point_of)
            await asyncio.sleep(0.05)

    def _publish(self) -> None:
        quantity = len(self._record.prices) + 1
        index = self._sandbox.publish(self._sandbox.shipper, time.time(), Cargo(quantity=quantity))
        self._record.prices[index] = price_of(quantity)

    async def _make_fault(self, replica: FaultedReplica, now: float, *, is_calm: bool) -> None:
        kinds: dict[str, tuple[int, Callable[[], object]]] = {
            "SIGKILL at random": (2, replica.kill),
            "SIGSTOP at random": (2, replica.freeze),
            "database stalls": (2, lambda: replica.disturb_database(replica.database.stall, now)),
            "database drips": (1, lambda: replica.disturb_database(replica.database.drip, now)),
            "database resets": (1, replica.database.reset),
            "database restarts": (1, lambda: None),
            "exchange stalls": (2, lambda: replica.disturb_service(replica.service.stall, now)),
            "exchange drips": (1, lambda: replica.disturb_service(replica.service.drip, now)),
            "exchange resets": (1, replica.service.reset),
            DELAYED: (4 if is_calm else 0, lambda: self._delay_offer(replica)),
            LOST: (4, self._lose_reply),
        }
        (kind,) = self._random.choices([*kinds], [weight for weight, _ in kinds.values()])
        kinds[kind][1]()
        if kind == "database restarts":
            await asyncio.to_thread(self._server.stop, "immediate")
            await asyncio.to_thread(self._server.start)
        if kind not in (LOST, DELAYED):
            self._record.count(kind)

    def _delay_offer(self, replica: FaultedReplica) -> None:
        self._armed_until = time.monotonic() + ARMED
        replica.delay_offer(self._count_delayed, self._armed_until)

    def _aim(self) -> None:
        """Freeze all replicas but one at a point of their next offers, until that one has made all offers."""
        self._armed_until, self._next_aim = time.monotonic() + ARMED, self._record.total() + AIM_INTERVAL
        point = next(self._aimed_points)
        for replica in self._random.sample(self._replicas, REPLICAS - 1):
            replica.freeze_at(point, self._record.has_offered_all, self._armed_until)
        for _ in range(BURST):
            self._publish()

    def _count_delayed(self) -> None:
        self._armed_until = 0.0
        self._record.count(DELAYED)

    def _pause(self, *, is_paused: bool) -> None:
        """Stop the faults that replicas inject into themselves."""
        if is_paused:
            self._pause_file.touch()
        else:
            self._pause_file.unlink(missing_ok=True)

    def _lose_reply(self) -> None:
        self._sandbox.faults.add(*FAULTS[self._random.choice(LOSSES)](path=SUBMIT))

    async def _settle(self) -> None:
        """End all faults, and wait until no work is left."""
        self._forks.is_latest = True
        self._sandbox.faults.clear()
        self._pause(is_paused=True)
        found, last_change = (0, 0), time.monotonic()
        while time.monotonic() - last_change < LONGEST_STANDSTILL:
            for replica in self._replicas:
                replica.flow()
                replica.wake()
                await replica.attend(time.monotonic() + 10, self._record.point_of)
            before, found = found, (len(self._record.offered()), self._record.count_open())
            if self._record.has_offered_all() and not found[1]:
                return
            if found != before:
                last_change = time.monotonic()
            await asyncio.sleep(0.5)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", action="append", default=[], choices=("wait", "limit", "fences"))
    parser.add_argument("--beside", metavar="REVISION")
    parser.add_argument("--keep", type=Path, help="folder for the logs of the replicas")
    options = parser.parse_args()
    began = time.monotonic()
    with running_server() as server, tempfile.TemporaryDirectory() as name:
        directory = options.keep or Path(name)
        directory.mkdir(parents=True, exist_ok=True)
        sandbox = Exchange()
        async with serve_tcp(sandbox) as face:
            port = int(face.url.rpartition(":")[2].partition("/")[0])
            figures = await Trial(server, sandbox, port, directory, options).run()
        log = directory / "log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    for label, figure in figures.items():
        print(f"{label:>30}  {figure}")
    print(f"{'seconds':>30}  {time.monotonic() - began:.0f}")
    for index in figures["offered twice"]:
        print(f"\nrequest {index} in the log of the replicas:")
        print(*(line for line in lines if re.search(rf"\brequest {index}\b", line)), sep="\n")
    wrong = ("offers too many", "requests missed", "wrong prices", "open at the end")
    return int(any(figures[label] for label in wrong))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
