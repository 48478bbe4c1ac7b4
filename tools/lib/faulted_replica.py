"""One replica of `fleet_faults.py`: its process, its ways to the database and to the exchange, and its faults."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from tools.lib.tcp_proxy import TcpProxy

__all__ = ["FaultedReplica"]

_SUBMIT: Final = b"quote/submitoffer"
# From less than a lease to more than a take-over takes.
_FREEZES: Final = (1, 3, 6, 9.5, 20, 40, 60)
_FREEZE_WEIGHTS: Final = (3, 3, 3, 3, 1, 1, 1)
_CUT_OFF_FREEZES: Final = (6, 9.5, 36)
_CUT_OFF: Final = 3.0
"""Seconds for which a replica that wakes sees nothing of the database, so that it does not know of its take-over."""
_DELAY: Final = (14.0, 18.0)
"""Seconds for which an offer is on its way, in a frozen process or in a gateway: less than a take-over waits, and more
than a replica that does not wait takes to send it again."""
_DISTURBANCE: Final = (1.0, 8.0)
"""Seconds for which a connection stalls or drips. What it holds of an offer arrives before a take-over ends, too."""


class FaultedReplica:
    """One replica.

    Args:
        number: Its number.
        database, service: Ports of the database and of the exchange.
        fork: Starts its process from an order, and returns the process id.
        order: What all its processes receive.
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

    async def start(self) -> None:
        """Start its process."""
        self._starts += 1
        self._starts_at = self._wakes_at = 0.0
        self._pid = await self._fork({
            **self._order,
            "url": f"http://127.0.0.1:{self.service.port}/api",
            "database": f"postgresql://postgres@127.0.0.1:{self.database.port}/postgres",
            "seed": self._order["seed"] * 10_000 + self._number * 1000 + self._starts,
            "backend": ("asyncio", "trio")[self._number % 2],
        })  # fmt: skip

    @property
    def is_well(self) -> bool:
        """Return whether it runs, and no fault of it lasts."""
        return self._state not in ("", "Z", "T") and not self._database_flows_at and not self._service_flows_at

    async def attend(self, now: float, point_of: Callable[[int], str]) -> None:
        """Start it again, wake it, or let its connections flow, once that is due.

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
            if not self._wakes_at:
                self._wakes_at = now + self._freeze_at(point_of(self._pid), now)
            if now >= self._wakes_at:
                self.wake()
                if self._database_flows_at:
                    self._database_flows_at = now + _CUT_OFF
        elif 0 < self._database_flows_at <= now:
            self._flow_database()

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
        """Stall its connections to the database, or let them drip, for some seconds of its life."""
        fault()
        self._database_flows_at = now + self._random.uniform(*_DISTURBANCE)

    def disturb_service(self, fault: Callable[[], None], now: float) -> None:
        """Stall its connections to the exchange, or let them drip, for some seconds, even if it freezes or dies."""
        fault()
        self._service_flows_at = now + self._random.uniform(*_DISTURBANCE)

    def delay_offer(self, on_caught: Callable[[], None]) -> None:
        """Kill or freeze it as soon as its next offer has left, and deliver the offer some seconds later."""
        end, delay = self._random.choice((self.kill, self.freeze)), self._random.uniform(*_DELAY)

        def caught() -> None:
            end()
            self.critical_until = time.monotonic() + delay
            on_caught()

        self.service.delay(_SUBMIT, delay, caught)

    def flow(self) -> None:
        """Let its connections flow."""
        self._flow_database()
        self._flow_service()

    def end(self) -> None:
        """End it for good."""
        self.kill()
        self.database.close()
        self.service.close()

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
        """The letter of the process's state; empty once it has ended."""
        try:
            return Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)
