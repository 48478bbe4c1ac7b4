"""Clocks of a machine in virtual time, which can sleep, be set, and be restarted."""

from __future__ import annotations

from typing import Literal

import anyio

from freight_exchange.platform.clock import Reading

__all__ = ["BEGAN", "Clocks"]

BEGAN = 1_900_000_000.0
"""Seconds since the epoch at which each run begins."""

_UP = 5_000.0


class Clocks:
    """Clocks of the machine, and the true time.

    Attributes:
        slept: Seconds that the machine was suspended for: the loop's clock stood still.
        stepped: Seconds by which the wall clock was set forward.
    """

    def __init__(self, boot: Literal["steady", "reboots", "unreported"]) -> None:
        self._boot = boot
        self._began = anyio.current_time()
        self._run = 0
        self._booted: dict[str, float] = {}
        self._boot_id = ""
        self.slept = 0.0
        self.stepped = 0.0
        self.restart()

    def loop(self) -> float:
        """Return the seconds of the loop's clock since the run began."""
        return anyio.current_time() - self._began

    def now(self) -> float:
        """Return the true time, which is the service's."""
        return BEGAN + self.loop() + self.slept

    def restart(self) -> None:
        """Begin a new run of the program, and of the machine if the plan includes that."""
        self._run += 1
        if self._boot == "reboots":
            self._boot_id = f"boot {self._run}"
        elif self._boot == "steady":
            self._boot_id = "the one boot"
        self._booted.setdefault(self._boot_id, self.now() - _UP)

    def read(self) -> Reading:
        now = self.now()
        return Reading(
            run=f"run {self._run}",
            loop=self.loop() + 1000.0 * self._run,
            boot_id=self._boot_id,
            boot=now - self._booted[self._boot_id],
            wall=now + self.stepped,
        )

    def meant(self, boot_id: str, boot: float) -> float:
        """Return the true time of a reading."""
        return self._booted[boot_id] + boot
