"""Steps of clocks that no client can distinguish from a suspended machine, or from a service that waited."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from tests.model.servers.history import History
from tests.model.servers.replies import ALLOWANCE, APART, SLACK, are_apart, begins, proven_updates
from tests.model.servers.server import Served

__all__ = ["Clocks"]

_FIVE_DAYS: Final = 432_000.0


class Clocks(History):
    """The clocks of a run, compared with true time."""

    def gaps(self, at: float) -> int:
        """Count the gaps of five days between two listings that a clock may show."""
        jumps = sum(self._passed(earlier.at, later.at) >= _FIVE_DAYS for earlier, later in pairwise(self.listings(at)))
        return jumps + sum(when <= at for when, _ in self.unreported_times())

    def _passed(self, earlier: float, later: float) -> float:
        """Return the maximum seconds between two times by the wall clock, or by monotonic clocks since a restart.

        A run on another machine begins by the wall clock, which may be corrected soon afterwards.
        """
        wall = self.schedule.wall
        starts = [s.start for s in self.schedule.sessions if not s.same_machine and earlier < s.start < later]
        return max(wall(later), *(wall(start) + later - start for start in starts), -math.inf) - wall(earlier)

    def unreported_times(self) -> list[tuple[float, float]]:
        """Return starts on another machine with a slower wall clock: no clock shows the time since the last run.

        The wall clock is compared with the last complete scan as well, since the last clock may have been set back
        after it. A start on the same machine counts too if no listing was read there before.
        """
        wall, sessions = self.schedule.wall, self.schedule.sessions[1:]
        found: list[tuple[float, float]] = []
        for session in sessions:
            before = max((s.at for s in self.listings(session.start)), default=math.inf)
            requested = (s.at for s in self.server.served if s.call == "listing" and s.at >= session.start)
            after = min(requested, default=before)
            complete = max((claim.at for claim in self.log.claims if claim.at < session.start), default=before)
            is_elsewhere = any(not s.same_machine for s in sessions if before < s.start <= session.start)
            if is_elsewhere and wall(after) < max(wall(before), wall(complete)):
                found.append((session.start, _FIVE_DAYS))
        return found

    def set_forward(self, since: float, until: float) -> float:
        """Return the seconds by which the wall clock was set forward between two times."""
        jumps = (*self.schedule.wall_jumps, *self.unreported_times())
        return sum(by for when, by in jumps if by > 0 and since < when <= until)

    def may_have_slept(self, index: int, at: float) -> bool:
        """Return whether the window that first lists a request began after the entry only by the wall clock.

        If no page before the entry listed the request, all windows up to its event decide.
        """
        listings = [s for s in self.listings(at + SLACK) if index in s.rows]
        deciding = listings if listings and listings[0].at > self.began else listings[:1]
        return any(map(self._seems_later, deciding))

    def _shows(self, first: Served, last: Served, index: int) -> bool:
        """Return whether a page of a scan, from its first to its last one, shows a request."""
        return any(index in s.rows for s in self.listings(last.at + SLACK) if s.at >= first.at)

    def _seems_later(self, listing: Served) -> bool:
        jumps = (by for when, by in self.schedule.wall_jumps if self.began < when <= listing.at)
        least = self.began - ALLOWANCE - SLACK
        return begins(listing) < least <= begins(listing) + max((*jumps, 0.0))

    def brought_back(self, index: int, at: float) -> bool:
        """Return whether the service's clock was set back, so that its windows list an older request.

        No listing showed the request before, because its last update was older than the widest window.
        """
        row = self.market.rows(at).get(index)
        return row is not None and any(
            by < 0
            and self.began < when <= at
            and not self.is_within_reach(row, self.began)
            and not any(index in s.rows for s in self.listings(when))
            for when, by in self.schedule.quirks.jumps
        )

    def may_be_older(self, index: int, found: float, gone: float) -> bool:
        """Return whether the wall clock was set forward, and too few scans look back that much further for a request.

        Two complete scans, an interval apart, must lack it, since a stale listing may show it. Up to their last page
        they must look back to the earliest possible time of its update.

        Args:
            index: The request.
            found: Time at which its last state was listed.
            gone: Time of its withdrawal.
        """
        updated = min(found, proven_updates(self.listings(gone)).get(index, found))
        jumps = (*self.schedule.wall_jumps, *self.unreported_times())
        lost = sum(by for when, by in jumps if by > 0 and found <= self._covered(when) + SLACK)
        if not lost:
            return False
        deep = [pages for pages in self.whole_scans() if pages[0].at > gone and begins(pages[1]) < updated - lost]
        lacking = [first for first, last in deep if not self._shows(first, last, index)]
        return not are_apart(lacking, APART * self.interval)

    def _covered(self, jump: float) -> float:
        """Return when a scan was complete that covers a jump, and shows what was updated in all the time it took.

        The first scan of a feed covers nothing that came after its entry.
        """
        return min((claim.at for claim in self.log.claims if claim.since >= jump), default=math.inf)
