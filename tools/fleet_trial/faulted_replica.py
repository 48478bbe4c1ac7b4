"""Replica of `fleet_faults.py`: its process, its proxies to the database and to the exchange, and its faults."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from tools.fleet_trial.tcp_proxy import TcpProxy

__all__ = ["FaultedReplica"]

_SUBMIT: Final = b"quote/submitoffer"
# From less than a lease to more than a take-over takes.
_FREEZES: Final = (1, 3, 6, 9.5, 20, 40, 60)
_FREEZE_WEIGHTS: Final = (3, 3, 3, 3, 1, 1, 1)
_CUT_OFF_FREEZES: Final = (6, 9.5, 36)
_DELAYED_FREEZES: Final = (6, 9.5, 20, 40)
"""Range of freezes, longer than the lease.

A sender that keeps the lease would send the offer again after the settle time, while the gateway still holds it.
"""
_CUT_OFF: Final = 3.0
"""Seconds for which a replica that wakes cannot reach the database, so that it does not notice its take-over."""
_DELAY: Final = (14.0, 18.0)
"""Seconds for which an offer is in flight, in a frozen process or a gateway.

It is less than a take-over waits, and more than a replica without that wait needs to send the offer again.
"""
_LONGEST_AIMED: Final = 60.0
_AFTER_AIMED: Final = 5.0
"""Seconds without faults after it wakes, in which it sends all that no guard prevents."""
_DISTURBANCE: Final = (1.0, 8.0)
"""Seconds for which a connection stalls or drips. Its part of an offer also arrives before a take-over ends."""


class FaultedReplica:
    """Replica under faults.

    Args:
        number: Its number.
        database, service: Ports of the database and of the exchange.
        fork: Starts its process from an order, and returns the process id.
        order: Order that all its processes receive.
        random: Decides how long faults take.

    Attributes:
        critical_until: The end of a fault that needs peace: another replica must come to send the same offer again, if
            nothing keeps it from that.
    """

    def __init__(
        self,
        number: int,
        database: int,
        service: int,
        fork: Callable[[dict[str, Any]], Awaitable[int]],
        order: dict[str, Any],
        random: Random,
    ) -> None:
        self.database = TcpProxy(database)
        self.service = TcpProxy(service)
        self._number = number
        self._fork = fork
        self._order = order
        self._random = random
        self._pid = self._starts = 0
        self._starts_at = self._wakes_at = self._database_flows_at = self._service_flows_at = 0.0
        self.critical_until = 0.0
        self._aim = Path()
        self._aim_ends = 0.0
        self._may_wake: Callable[[], bool] | None = None

    async def start(self) -> None:
        """Start its process."""
        self._starts += 1
        self._starts_at = self._wakes_at = 0.0
        self._disarm()
        self._pid = await self._fork({
            **self._order,
            "url": f"http://127.0.0.1:{self.service.port}/api",
            "database": f"postgresql://postgres@127.0.0.1:{self.database.port}/postgres",
            "seed": self._order["seed"] * 10_000 + self._number * 1000 + self._starts,
            "backend": ("asyncio", "trio")[self._number % 2],
        })  # fmt: skip

    @property
    def is_well(self) -> bool:
        """Return whether it runs without a present fault."""
        return self._state not in ("", "Z", "T") and not self._database_flows_at and not self._service_flows_at

    async def attend(self, now: float, point_of: Callable[[int], str]) -> None:
        """Restart or wake it, or resume its connections, when that is due.

        Args:
            now: The time.
            point_of: Returns the point at which a process stopped itself, or an empty text.
        """
        if 0 < self._service_flows_at <= now:
            self._flow_service()
        state = self._state
        if state in ("", "Z"):
            self._starts_at = self._starts_at or now + self._random.uniform(0.2, 2)
            if now >= self._starts_at:
                await self.start()
        elif state == "T":
            is_aimed = self._may_wake is not None and not self._aim.exists()
            if not self._wakes_at:
                point = point_of(self._pid)
                self._wakes_at = now + (self._freeze_aimed(point) if is_aimed else self._freeze_at(point, now))
            if now >= self._wakes_at or (is_aimed and self._may_wake is not None and self._may_wake()):
                self.wake()
                if is_aimed:
                    self._may_wake, self.critical_until = None, now + _AFTER_AIMED
                if self._database_flows_at:
                    self._database_flows_at = now + _CUT_OFF
        elif 0 < self._database_flows_at <= now:
            self._flow_database()
        elif self._may_wake is not None and now >= self._aim_ends:
            self._disarm()

    def kill(self) -> None:
        """Kill it."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Freeze it."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Wake it."""
        self._wakes_at = 0.0
        self._signal(signal.SIGCONT)

    def disturb_database(self, fault: Callable[[], None], now: float) -> None:
        """Stall its connections to the database, or let them drip, for some seconds or until it dies."""
        fault()
        self._database_flows_at = now + self._random.uniform(*_DISTURBANCE)

    def disturb_service(self, fault: Callable[[], None], now: float) -> None:
        """Stall its connections to the exchange, or let them drip, for some seconds, even if it freezes or dies."""
        fault()
        self._service_flows_at = now + self._random.uniform(*_DISTURBANCE)

    def delay_offer(self, on_caught: Callable[[], None], ends: float) -> None:
        """Kill or freeze it when its next offer has left in time, and deliver the offer this many seconds later."""
        end, delay = self._random.choice((self.kill, self._freeze_past_lease)), self._random.uniform(*_DELAY)

        def caught() -> None:
            end()
            self.critical_until = time.monotonic() + delay
            on_caught()

        self.service.delay(_SUBMIT, delay, caught, until=ends)

    def _freeze_past_lease(self) -> None:
        self._wakes_at = time.monotonic() + self._random.choice(_DELAYED_FREEZES)
        self.freeze()

    def freeze_at(self, point: str, may_wake: Callable[[], bool], ends: float) -> None:
        """Freeze it at its next visit of a point of an offer, if that comes in time, until it may wake."""
        self._aim = Path(f"{self._order['notes']}.aim.{self._pid}")
        self._aim.write_text(point)
        self._aim_ends, self._may_wake = ends, may_wake

    def flow(self) -> None:
        """Resume its connections."""
        self._flow_database()
        self._flow_service()

    def end(self) -> None:
        """End it for good."""
        self.kill()
        self.database.close()
        self.service.close()

    def _disarm(self) -> None:
        if self._may_wake is not None:
            self._aim.unlink(missing_ok=True)
            self._may_wake, self.critical_until = None, 0.0

    def _freeze_aimed(self, point: str) -> float:
        self.critical_until = float("inf")
        if point == "before send":
            # It must not know of its take-over before it sends.
            self.database.stall()
            self._database_flows_at = float("inf")
        # What was checked already is sent, as by a slow gateway.
        return self._random.uniform(*_DELAY) if point == "within send" else _LONGEST_AIMED

    def _flow_database(self) -> None:
        self._database_flows_at = 0.0
        self.database.resume()

    def _flow_service(self) -> None:
        self._service_flows_at = 0.0
        self.service.resume()

    def _freeze_at(self, point: str, now: float) -> float:
        """Return how long it stays frozen, by the point at which it froze."""
        freeze = self._random.choices(_FREEZES, _FREEZE_WEIGHTS)[0]
        if point == "within send":
            freeze = self._random.uniform(*_DELAY)
        elif point in ("after sending", "before send") and self._random.random() < 0.5:
            self.database.stall()
            self._database_flows_at = float("inf")
            freeze = self._random.choice(_CUT_OFF_FREEZES)
        elif point not in ("before intent", "before sending") or not _DELAY[0] / 2 < freeze <= _DELAY[1]:
            return freeze
        self.critical_until = now + freeze + 1
        return freeze

    @property
    def _state(self) -> str:
        """Return the letter of the process's state; empty once it has ended."""
        try:
            return Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)
