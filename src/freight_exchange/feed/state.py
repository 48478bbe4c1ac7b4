"""Watermark of a feed, the windows of its scans, and the walks through their pages. Pure.

The service lists requests updated within a number of seconds, without the times of the updates. A complete scan has
seen all updates before its start, except for those of the last `allowance` seconds before it. So the window of a scan
covers the age of the watermark, the allowance and the time that the scan takes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

import attrs

from freight_exchange import validation
from freight_exchange.errors import StoreError
from freight_exchange.feed.events import UNREADABLE, Gap
from freight_exchange.platform.clock import Reading, max_elapsed, rebased
from freight_exchange.walk import REFUSALS, Down, Pass

WIDEST: Final = int(validation.MAX_WINDOW.total_seconds())
"""Widest window that the service allows, in seconds (service document, 8)."""

SCAN_TIME: Final = 5.0
"""Least seconds that a scan is expected to take."""

LARGEST: Final = 1000
"""Rows of the largest page that is requested."""

MOST_PASSES: Final = 4
_SHIFT: Final = 2
"""Known rows behind the last one of a snapshot that new rows at its beginning may have shifted there meanwhile."""


@attrs.frozen
class Tier:
    """Depth of a scan, whose name is in hooks and in the status.

    Attributes:
        every: Seconds from one scan of the tier to the next.
        window: Least seconds that it looks back.
        past_end: Rows to look for behind the last one: the service may hide rows from the account.
    """

    name: str
    every: float
    window: int
    past_end: int


NARROW: Final = Tier("narrow", 0.0, 0, 1)
"""The scans between the deep ones. They end at the first page without a row."""


@attrs.frozen(kw_only=True)
class State:
    """Durable state of a feed.

    Attributes:
        time: The watermark, on the feed's own clock in seconds since the epoch: when the last complete scan requested
            its first page; before the first one, when the feed was first entered.
        reading: The same time by all other clocks.
        stage: `new`; `listed` once the first scan has read all that was there; `primed` once all that `start` asks for
            is told.
    """

    time: float
    reading: Reading
    stage: Literal["new", "listed", "primed"] = "new"

    def dump(self) -> str:
        return json.dumps(attrs.asdict(self, recurse=True), separators=(",", ":"))

    @classmethod
    def load(cls, text: str | None, now: Reading) -> State:
        """Return the stored state, with its age measured by the steady clocks of `now` from here on."""
        if text is None:
            return cls(time=now.wall, reading=now)
        try:
            kept: dict[str, Any] = json.loads(text)
            return cls(**{**kept, "reading": rebased(Reading(**kept["reading"]), now)})
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the state of a feed in the store {UNREADABLE}") from error

    @property
    def is_primed(self) -> bool:
        return self.stage == "primed"

    def age(self, now: Reading) -> float:
        """Return the seconds since the watermark, by the clock that advanced most."""
        return max_elapsed(self.reading, now)

    def at(self, now: Reading) -> float:
        """Return the time on the feed's clock; if no clock is valid, `WIDEST` seconds have passed."""
        age = self.age(now)
        return self.time + (age if math.isfinite(age) else WIDEST)

    def window(self, now: Reading, allowance: float, duration: float) -> int:
        """Return the window that covers all updates since the watermark."""
        return math.ceil(min(WIDEST, max(1.0, self.age(now) + allowance + duration)))

    def reaches(self, window: int, now: Reading, allowance: float) -> bool:
        """Return whether a window that ends now still covers the watermark. It slides while pages are read."""
        return window >= WIDEST or self.age(now) + allowance <= window

    def between(self, now: Reading, allowance: float) -> tuple[datetime | None, datetime]:
        """Return the earliest and latest time of what a scan finds now, in UTC."""
        latest = datetime.fromtimestamp(now.wall, UTC)
        reach = timedelta(seconds=min(self.age(now), 1e9) + allowance)
        return latest - reach if self.is_primed else None, latest

    def gap(self, now: Reading, allowance: float) -> Gap | None:
        """Return the time that no window reaches any more, if there is any."""
        since, latest = self.between(now, allowance)
        until = latest - timedelta(seconds=WIDEST)
        return None if since is None or since >= until else Gap(since=since, until=until)


class Snapshot:
    """Walk through a listing that is short most of the time: one page that has all rows, and a look behind its end.

    If the first page is full, the largest one may have all rows. Then the places behind its last row are read in the
    documented size, until two pages are empty. Rows that only these have, or too many, prove that the service cuts
    pages: then the listing `is_cut`, and `Passes` has to read it.
    """

    def __init__(self, safe: int, largest: int, *, is_long: bool) -> None:
        self.number, self.size = 0, largest if is_long else safe
        self._safe, self._largest = safe, largest
        self.up = self.now = self
        self.ended = self.is_cut = self.broken = self.ignores_offset = False
        self.is_long = is_long
        self._count = self._empty = 0
        self._rows: set[Hashable] = set()
        self._before: Sequence[Hashable] | None = None

    def take(self, keys: Sequence[Hashable]) -> None:
        is_new = not self._rows.issuperset(keys)
        self._rows.update(keys)
        if self.number == 0 and len(keys) >= self.size:
            self.ended = self.is_cut = self.size == self._largest
            self.size, self.is_long = self._largest, True
        elif self.number == 0:
            # A large page that lacks rows of the small one was not served.
            self.is_cut = len(keys) < len(self._rows)
            self.is_long = len(keys) >= self._safe
            self.ended = self.is_cut or not keys
            self._count = len(keys)
            self.number, self.size = max(1, len(keys) // self._safe), self._safe
        else:
            # A page that comes again may be the last one, or each one where page numbers are ignored.
            is_again = bool(keys) and keys == self._before
            beyond = len(keys) - max(0, self._count - self.number * self._safe)
            self.is_cut = is_new or beyond > _SHIFT or (is_again and self.is_long)
            # An empty reply may be a failure: behind a full page, a second one has to follow.
            self._empty += not keys
            self.ended = self.is_cut or is_again or self._empty > self.is_long
            self.number += 1
        self._before = keys

    def refuse(self, status: int | None) -> bool:
        """Process a refusal in place of the page; return `False` if it is an error."""
        if status not in REFUSALS or (self.number == 0 and self.size == self._safe):
            return False
        # A refusal may be an outage: it is believed only where no row is expected.
        self.is_cut = self.is_long or self.number == 0 or status == 500
        self.ended = True
        return True


class Passes:
    """Walk up and down through a listing until a pass finds no new row. What four passes miss, a deeper scan finds.

    No service cuts pages of `safe` rows. The arguments are numbers of rows, but for the largest number of passes.
    """

    is_cut = False

    def __init__(self, safe: int, largest: int, *, past_end: int, most: int = MOST_PASSES) -> None:
        self._begin = partial(Pass, largest, safe=safe, past_end=past_end)
        self._safe, self._most = safe, most
        self.up = self._begin()
        self.now: Pass | Down = self.up
        self._rows: set[Hashable] = set()
        self._news = self._passes = 0
        self.ended = False

    @property
    def is_long(self) -> bool:
        """`True` if the listing has more rows than a page of the documented size."""
        return len(self._rows) >= self._safe

    def take(self, keys: Sequence[Hashable]) -> None:
        self.now.take(keys)
        self._news += not self._rows.issuperset(keys)
        self._rows.update(keys)
        self._turn()

    def refuse(self, status: int | None) -> bool:
        """Process a refusal in place of the page; return `False` if it is an error."""
        if not self.now.refuse(status):
            return False
        self._turn()
        return True

    def _turn(self) -> None:
        if not self.now.ended:
            return
        self._passes += 1
        # One page below the documented size has been read at once.
        is_whole = self.up.pages <= 1 and not self.is_long
        if self._passes == self._most or (self._passes > 1 and not self._news) or is_whole or self.up.ignores_offset:
            self.ended = True
            return
        self._news = 0
        if self.now is self.up:
            self.now = Down(self.up, 0)
        else:
            self.now = self.up = self._begin()


Walk = Snapshot | Passes
