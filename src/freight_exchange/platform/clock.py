"""Readings of all clocks together, and the time between two readings, though clocks may stop, jump or restart."""

from __future__ import annotations

import math
import secrets
import time
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import attrs

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_time() -> float:
    """Return the seconds since the machine's start, including sleep if the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def wall_time() -> float:
    """Return the seconds since the epoch."""
    return time.time()


@cache
def boot_id() -> str:
    """Return the identity of the machine's start; empty if the system has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except (OSError, ValueError):
        return ""


@attrs.frozen(kw_only=True)
class Reading:
    """Reading of all clocks at one time.

    Attributes:
        run: Identity of the event loop's run. `loop` is comparable only within the same run.
        loop: Time on the loop's clock, which may stop while the machine sleeps.
        boot_id: Identity of the machine's start; empty if the system has none. `boot` is comparable only within the
            same start.
        boot: Seconds since the machine's start, including sleep.
        wall: Seconds since the epoch, by a clock that the user can set.
    """

    run: str = ""
    loop: float = 0.0
    boot_id: str
    boot: float
    wall: float

    def elapsed(self) -> float:
        """Return the seconds since this reading of the same loop: the maximum of all clocks."""
        return max(anyio.current_time() - self.loop, boot_time() - self.boot, wall_time() - self.wall)


class SendLimit(NamedTuple):
    """Time limit until which parts of a write may be sent, by the clock that advances most: sleep counts."""

    since: Reading
    seconds: float

    @property
    def is_over(self) -> bool:
        """`True` once the time has passed."""
        return self.since.elapsed() > self.seconds


def now(run: str = "") -> Reading:
    """Read all clocks of the machine and of the running event loop."""
    return Reading(run=run, loop=anyio.current_time(), boot_id=boot_id(), boot=boot_time(), wall=wall_time())


class Clock:
    """Source of readings for a feed: clocks of the machine and of the event loop. Each object is a run of its own."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(8)

    def read(self) -> Reading:
        return now(self._run)


_SKEW: Final = 60.0


def max_elapsed(earlier: Reading, later: Reading) -> float:
    """Return the largest number of seconds that can have passed, by any clock; infinity if no clock is valid.

    A window that reaches back this far misses nothing, even if the wall clock was set forward in between.
    """
    steady = _steady(earlier, later)
    wall = later.wall - earlier.wall
    if steady is None:
        # The clocks of two machines differ a little. A feed reads all that is listed at each start anyway.
        return max(0.0, wall) if wall > -_SKEW else math.inf
    return max(steady, wall)


def rebased(earlier: Reading, later: Reading) -> Reading:
    """Express the earlier reading by the steady clocks of the later one, if only the wall clock connects them.

    With the result, steady clocks count even if the wall clock is set afterwards. If a steady clock connects both
    readings, or no clock does, the earlier reading is returned unchanged.
    """
    passed = later.wall - earlier.wall
    if _steady(earlier, later) is not None or passed < 0:
        return earlier
    return Reading(
        run=later.run, loop=later.loop - passed, boot_id=later.boot_id, boot=later.boot - passed, wall=earlier.wall
    )


def _steady(earlier: Reading, later: Reading) -> float | None:
    same_run = earlier.run == later.run
    passed = [later.loop - earlier.loop] if same_run else []
    if same_run or (earlier.boot_id and earlier.boot_id == later.boot_id):
        passed.append(later.boot - earlier.boot)
    return max(0.0, *passed) if passed else None
