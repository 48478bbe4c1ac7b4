"""How long ago something was, told by clocks that stop, jump and start anew, within a process and across restarts."""

from __future__ import annotations

import math
import secrets
from pathlib import Path
from typing import Final, Protocol

import anyio
import attrs

from freight_exchange.platform import elapsed

__all__ = ["Clock", "Reading", "SystemClock", "least", "most"]

_SMALL_STEP: Final = 3600.0
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@attrs.frozen(kw_only=True)
class Reading:
    """What every clock said at one moment.

    Attributes:
        run: The event loop's run; `loop` means nothing in another.
        loop: The loop's clock, which may stand still while the machine sleeps.
        boot_id: The machine's start, or empty where the system does not tell it; `boot` means nothing after another.
        boot: Seconds since the machine's start, time asleep included.
        wall: Seconds since the epoch; whoever sets the clock moves it.
    """

    run: str
    loop: float
    boot_id: str
    boot: float
    wall: float


class Clock(Protocol):
    """What tells a feed the time."""

    def read(self) -> Reading:
        """What every clock says now."""
        ...


class SystemClock:
    """The clocks of the machine and of the running event loop."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(8)
        self._boot_id = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""

    def read(self) -> Reading:
        return Reading(
            run=self._run,
            loop=anyio.current_time(),
            boot_id=self._boot_id,
            boot=elapsed.boot_time(),
            wall=elapsed.wall_time(),
        )


def most(earlier: Reading, later: Reading) -> float:
    """The most seconds that can have passed, by any clock; infinity where none can tell.

    A window that reaches back this far misses nothing, even when the wall clock was set forward in between.
    """
    steady = _steady(earlier, later)
    wall = later.wall - earlier.wall
    if steady is None:
        return wall if wall >= 0 else math.inf
    return max(steady, wall)


def least(earlier: Reading, later: Reading) -> float:
    """The seconds that have passed by the clocks that nobody can set, and by the wall clock where there are none;
    infinity where none can tell."""
    steady = _steady(earlier, later)
    if steady is None and -_SMALL_STEP <= later.wall - earlier.wall < 0:
        # The clock was put right while nobody looked: little time has passed, however little can be proven.
        return 0.0
    return most(earlier, later) if steady is None or not later.boot_id else steady


def _steady(earlier: Reading, later: Reading) -> float | None:
    same_run = earlier.run == later.run
    passed = [later.loop - earlier.loop] if same_run else []
    if same_run or (earlier.boot_id and earlier.boot_id == later.boot_id):
        passed.append(later.boot - earlier.boot)
    return max(0.0, *passed) if passed else None
