"""How much time has passed, told by every clock there is.

The monotonic clock stands still while the machine sleeps, the wall clock jumps when it is set: whatever expires is
measured by the one that says most.
"""

from __future__ import annotations

import time

import anyio
import attrs

__all__ = ["Instant", "boot_time", "now", "wall_time"]


def boot_time() -> float:
    """Seconds since the machine was started, time asleep included, where the system tells."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def wall_time() -> float:
    """Seconds since the epoch."""
    return time.time()


@attrs.frozen
class Instant:
    """One moment, by the loop's clock, the machine's and the calendar's."""

    loop: float
    boot: float
    wall: float

    def elapsed(self) -> float:
        """Seconds since this moment: the most that any of the clocks says."""
        return max(anyio.current_time() - self.loop, boot_time() - self.boot, wall_time() - self.wall)


def now() -> Instant:
    return Instant(anyio.current_time(), boot_time(), wall_time())
