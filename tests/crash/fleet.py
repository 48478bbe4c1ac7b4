"""Three replicas of a bot on one PostgreSQL under random faults, while requests are published.

Replicas are killed and frozen, at any moment and at the moments of an offer; their connections stall, drip and break;
the database restarts; offers and replies are lost or arrive late. Some replicas are frozen at a moment of an offer
until another one has made it. The replicas' program is `fleet_program.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import psycopg
from tests.crash.bot import WINDOW
from tests.crash.fleet_program import ORIGIN, price_of
from tests.crash.processes import Forks, fork_server
from tests.crash.proxy import TcpProxy
from tests.support.postgres import PostgresServer

from freight_exchange.testing import FAULTS, Cargo, Sandbox
from freight_sandbox.server import serve

__all__ = ["FLAWS", "FleetTrial"]

FLAWS: Final = ("offers too many", "requests missed", "wrong prices", "open at the end")
"""Counts that must be zero."""

_SUBMIT: Final = "quote/submitoffer"
_REPLICAS: Final = 3
_AIMED: Final = ("before send", "before claim", "after sending", "before sending")
"""Moments at which two replicas are frozen until the third has made their offers."""
_AIM_INTERVAL: Final = 12
"""Faults between two aimed ones."""
_BURST: Final = 8
"""Requests published with an aimed fault, so that several offers of a replica are near that moment."""
_POINTS: Final = (
    *WINDOW,
    *(f"{side} {step}" for side in ("before", "after") for step in ("claim", "confirmed", "settle")),
    "before sending",
)
_FREEZES: Final = (1, 3, 6, 9.5, 20, 40)
"""Seconds, from less than a lease to more than a take-over takes."""
_CUT_OFF: Final = 3.0
"""Seconds for which a replica that wakes cannot reach the database, so that it does not notice its take-over."""
_DELAY: Final = (14.0, 18.0)
"""Seconds for which an offer is in a gateway: less than a take-over waits, more than one that does not would need."""
_DISTURBANCE: Final = (1.0, 8.0)
_LONGEST_AIMED: Final = 60.0
_LONGEST_STANDSTILL: Final = 240.0


class _Replica:
    """Replica: its process, its proxies to the database and to the exchange, and what is wrong with it now."""

    def __init__(self, number: int, database: int, service: int, order: dict[str, Any], random: Random) -> None:
        self.database = TcpProxy(database)
        self.service = TcpProxy(service, ORIGIN.encode())
        self._order = order | {
            "proxy": f"http://127.0.0.1:{self.service.port}",
            "database": f"postgresql://postgres@127.0.0.1:{self.database.port}/postgres",
            "backend": ("asyncio", "trio")[number % 2],
        }
        self._random = random
        self._pid = 0
        self._starts_at = self._wakes_at = self._flows_at = self._aim_ends = 0.0
        self._may_wake: Callable[[], bool] | None = None
        self.critical_until = 0.0

    @property
    def state(self) -> str:
        """Return the letter of the process's state; empty once it has ended."""
        try:
            letter = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""
        return "" if letter == "Z" else letter

    @property
    def is_well(self) -> bool:
        """Return whether it runs without a present fault."""
        return self.state not in ("", "T") and not self._flows_at and not self._aim.exists()

    @property
    def _aim(self) -> Path:
        return Path(f"{self._order['aims']}.{self._pid}")

    async def attend(self, forks: Forks, now: float) -> None:
        """Restart it, wake it, or let its connections flow, when that is due."""
        state = self.state
        if not state:
            self._starts_at = self._starts_at or now + self._random.uniform(0.2, 2)
            if now >= self._starts_at:
                self._may_wake = None
                self._starts_at = self._wakes_at = 0.0
                self.flow()
                self._pid = await forks.start(self._order)
        elif state == "T":
            self._wakes_at = self._wakes_at or now + self._frozen_for(now)
            if now >= self._wakes_at or (self._may_wake is not None and self._may_wake()):
                if self._may_wake is not None:
                    # Time in which it sends all that no guard prevents.
                    self._may_wake, self.critical_until = None, now + 5
                self.wake()
                self._flows_at = self._flows_at and now + _CUT_OFF
        elif 0 < self._flows_at <= now:
            self.flow()
        elif self._aim_ends <= now:
            # It did not come to that point.
            self._aim.unlink(missing_ok=True)
            if self._may_wake is not None:
                self._may_wake = None
                self.flow()
        if self._may_wake is None and self.critical_until == float("inf"):
            self.critical_until = 0.0

    def _frozen_for(self, now: float) -> float:
        if self._may_wake is not None:
            self.critical_until = float("inf")
            return _LONGEST_AIMED
        seconds = self._random.choice(_FREEZES)
        if self._random.random() < 0.4:
            # It must not know of its take-over when it wakes.
            self.database.stall()
            self._flows_at = float("inf")
            self.critical_until = now + seconds + 1
        return seconds

    def aim(self, number: signal.Signals, point: str, ends: float, may_wake: Callable[[], bool] | None = None) -> None:
        """Have it send itself a signal at its next visit of a failpoint, if that comes in time."""
        self._aim.write_text(f"{int(number)} {point}")
        self._aim_ends, self._may_wake = ends, may_wake
        if point == "before send" and may_wake is not None:
            self.database.stall()
            self._flows_at = float("inf")

    def disturb(self, fault: Callable[[], None], now: float) -> None:
        """Stall connections, or let them drip, for some seconds."""
        fault()
        self._flows_at = now + self._random.uniform(*_DISTURBANCE)

    def delay_offer(self, on_caught: Callable[[], None]) -> None:
        """Kill or freeze it when its next offer has left, and deliver the offer many seconds later."""
        seconds = self._random.uniform(*_DELAY)

        def caught() -> None:
            # If it woke earlier, its settle time, of one second, would be shorter than its offer is on the way.
            self._wakes_at = self.critical_until = time.monotonic() + seconds + 1
            self.send(self._random.choice((signal.SIGKILL, signal.SIGSTOP)))
            on_caught()

        self.service.delay(_SUBMIT.encode(), seconds, caught)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def wake(self) -> None:
        """Wake it."""
        self._wakes_at = 0.0
        self.send(signal.SIGCONT)

    def flow(self) -> None:
        """Resume its connections."""
        self._flows_at = 0.0
        self.database.resume()
        self.service.resume()

    def close(self) -> None:
        """Kill it and close its proxies."""
        self.send(signal.SIGKILL)
        self.database.close()
        self.service.close()


class FleetTrial:
    """Run of the trial.

    Args:
        directory: Directory of the log.
        server: The server of the replicas' database.
        seed: Seed of all choices.
        ledger: Whether the handler offers through the ledger; else by the client, as people write it.

    Attributes:
        faults: Faults by kind.
        counts: Counts of events, and of errors.
    """

    def __init__(self, directory: Path, server: PostgresServer, seed: int, *, ledger: bool = True) -> None:
        self._directory = directory
        self._server = server
        self._random = Random(seed)
        self._ledger = ledger
        self._exchange = Sandbox(seed=seed).exchange
        self._prices: dict[int, Any] = {}
        self._aimed = cycle(_AIMED)
        self._armed_until = 0.0
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    async def run(self, faults: int) -> Counter[str]:
        """Inject so many faults, let the fleet come to rest, and return the counts."""
        async with (
            serve(self._exchange) as face,
            fork_server("fleet_program", self._directory / "errors") as forks,
        ):
            port = int(face.url.rpartition(":")[2].partition("/")[0])
            order = {"aims": str(self._directory / "aim"), "log": str(self._directory / "log"), "ledger": self._ledger}
            replicas = [_Replica(n, self._server.port, port, order, self._random) for n in range(_REPLICAS)]
            try:
                await self._make_faults(forks, replicas, faults)
                await self._settle(forks, replicas)
            finally:
                for replica in replicas:
                    replica.close()
        return self.counts + self._check()

    async def _make_faults(self, forks: Forks, replicas: list[_Replica], wanted: int) -> None:
        next_fault = time.monotonic() + 6
        next_request, next_aim, next_offer = 0.0, _AIM_INTERVAL, 0
        while (total := self.faults.total() + len(self._exchange.faults.fired)) < wanted:
            now = time.monotonic()
            is_calm = all(replica.is_well for replica in replicas)
            is_critical = now < max(self._armed_until, *(replica.critical_until for replica in replicas))
            # New offers meanwhile would keep the others from complete readings of a listing that changes.
            if now >= next_request and not is_critical:
                self._publish()
                next_request = now + 1
            if is_critical:
                next_fault = now + self._random.uniform(0.5, 2)
            elif total >= next_aim:
                # All else waits until every replica is well.
                if is_calm:
                    next_aim = total + _AIM_INTERVAL
                    self._freeze_all_but_one(replicas, now)
            # A fleet that is down most of the time makes no offers: two come between two faults, or five seconds.
            elif now >= next_fault + 5 * (len(self._exchange.audit_log.offers) < next_offer):
                if well := [replica for replica in replicas if replica.is_well]:
                    await self._make_fault(self._random.choice(well), now, is_calm=is_calm)
                next_offer = len(self._exchange.audit_log.offers) + 2
                next_fault = now + self._random.uniform(0.5, 2)
            for replica in replicas:
                await replica.attend(forks, now)
            await anyio.sleep(0.05)

    def _publish(self) -> None:
        quantity = len(self._prices) + 1
        index = self._exchange.publish(self._exchange.shipper, time.time(), Cargo(quantity=quantity))
        self._prices[index] = price_of(quantity)

    async def _make_fault(self, replica: _Replica, now: float, *, is_calm: bool) -> None:
        number = self._random.choice((signal.SIGKILL, signal.SIGSTOP))
        point = self._random.choice(_POINTS)
        kinds: dict[str, tuple[int, Callable[[], object]]] = {
            f"{number.name} at random": (3, lambda: replica.send(number)),
            f"{number.name} {point}": (8, lambda: replica.aim(number, point, now + 6)),
            "database stalls": (2, lambda: replica.disturb(replica.database.stall, now)),
            "database drips": (1, lambda: replica.disturb(replica.database.drip, now)),
            "database resets": (1, replica.database.reset),
            "database restarts": (1, lambda: None),
            "exchange stalls": (2, lambda: replica.disturb(replica.service.stall, now)),
            "exchange drips": (1, lambda: replica.disturb(replica.service.drip, now)),
            "exchange resets": (1, replica.service.reset),
            "offer delayed, sender ended": (4 if is_calm else 0, lambda: self._delay_offer(replica, now)),
            "reply lost": (4, self._lose_reply),
        }
        (kind,) = self._random.choices([*kinds], [weight for weight, _ in kinds.values()])
        kinds[kind][1]()
        if kind == "database restarts":
            await anyio.to_thread.run_sync(self._server.stop, "immediate")
            await anyio.to_thread.run_sync(self._server.start)
        if kind not in ("reply lost", "offer delayed, sender ended"):
            self.faults[kind] += 1

    def _delay_offer(self, replica: _Replica, now: float) -> None:
        self._armed_until = now + 6

        def count() -> None:
            self._armed_until = 0.0
            self.faults["offer delayed, sender ended"] += 1

        replica.delay_offer(count)

    def _lose_reply(self) -> None:
        name = self._random.choice(("reset_after_processing", "reset_after_send", "stall", "bad_gateway"))
        self._exchange.faults.add(*FAULTS[name](path=_SUBMIT))

    def _freeze_all_but_one(self, replicas: list[_Replica], now: float) -> None:
        """Freeze two replicas at a point of their next offers, until the third has made all offers."""
        self._armed_until = now + 6
        point = next(self._aimed)
        self.faults[f"two frozen {point}"] += 1
        for replica in self._random.sample(replicas, _REPLICAS - 1):
            replica.aim(signal.SIGSTOP, point, self._armed_until, self._has_offered_all)
        for _ in range(_BURST):
            self._publish()

    async def _settle(self, forks: Forks, replicas: list[_Replica]) -> None:
        """End all faults, and wait until no work is left."""
        self._exchange.faults.clear()
        found, last_change = (-1, -1), time.monotonic()
        while time.monotonic() - last_change < _LONGEST_STANDSTILL:
            for replica in replicas:
                replica.service.forget()
                replica.flow()
                replica.wake()
                await replica.attend(forks, time.monotonic() + 10)
            before, found = found, (len(self._exchange.audit_log.offers), self._count_open())
            if self._has_offered_all() and not found[1]:
                return
            if found != before:
                last_change = time.monotonic()
            await anyio.sleep(0.5)

    def _has_offered_all(self) -> bool:
        return {record.offer.request for record in self._exchange.audit_log.offers} >= {*self._prices}

    def _count_open(self) -> int:
        """Count the deliveries that are not done, and the offers without a result."""
        query = (
            "SELECT (SELECT count(*) FROM freight_exchange.delivery WHERE state <> 'done')"
            " + (SELECT count(*) FROM freight_exchange.effect WHERE kind = 'offer' AND state <> 'confirmed')"
        )
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def _check(self) -> Counter[str]:
        offers = [record.offer for record in self._exchange.audit_log.offers]
        offered = Counter(offer.request for offer in offers)
        self.faults["reply lost"] = len(self._exchange.faults.fired)
        return Counter({
            "faults": self.faults.total(),
            "requests": len(self._prices),
            "offers": len(offers),
            "offers too many": len(offers) - len(offered),
            "requests missed": len({*self._prices} - {*offered}),
            "wrong prices": sum(offer.amount != self._prices[offer.request] for offer in offers),
            "open at the end": self._count_open(),
        })  # fmt: skip
