"""Facts that the replies of a server prove."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from typing import Final

from tests.model.servers.market import Version
from tests.model.servers.quirks import Span
from tests.model.servers.server import Served, StrangeServer

__all__ = [
    "ALLOWANCE", "APART", "SCANS", "SLACK", "TURN", "are_apart", "begins", "first_alike", "inferred_update",
    "loudest_hour", "proven_updates",
]  # fmt: skip

ALLOWANCE: Final = 60.0
"""Seconds by which the service may list an update late."""
SLACK: Final = 60.0
"""Seconds that a scan may take, or that a reader may need to pull an event."""
SCANS: Final = 2
"""Scans that must lack a request before it counts as gone."""
APART: Final = 0.8
"""Minimum intervals between two scans."""
TURN: Final = 1.2
"""Maximum intervals between two scans."""

_HOUR: Final = 3600.0


def begins(listing: Served) -> float:
    """Return the start of a listing's window."""
    return listing.at - float(listing.body["secondsSinceUpdate"])


def are_apart(scans: Sequence[Served], seconds: float) -> bool:
    """Return whether there are enough scans over a long enough time."""
    return len(scans) >= SCANS and scans[-1].at - scans[0].at >= seconds


def proven_updates(listings: Iterable[Served]) -> dict[int, float]:
    """Return the earliest possible time of each request's last update that listings prove.

    Only the window that shows the request proves an update that changes nothing.
    """
    proven: dict[int, float] = {}
    last: dict[int, Served] = {}
    for listing in listings:
        since = begins(listing)
        for index, content in listing.rows.items():
            before = last.get(index)
            changed = before.as_of if before is not None and before.rows[index] != content else -math.inf
            proven[index] = max(proven.get(index, -math.inf), since, changed)
            last[index] = listing
    return proven


def inferred_update(index: int, listings: Sequence[Served]) -> float:
    """Return the earliest possible time of a request's last update, inferred from listings that lack or show it.

    A listing with other content is older than the update, unless the reply was stale: content that was also listed
    earlier may be newer. Before the last content was first listed, scans without a gap between their windows must have
    lacked it. They begin at a listing with other content, or at the start of the window that first listed the last
    content.
    """
    showing = [s for s in listings if index in s.rows]
    if not showing:
        return -math.inf
    others = [s.at for s in showing if s.rows[index] != showing[-1].rows[index]]
    since = max(others, default=-math.inf)
    first = next(s for s in showing if s.at > since)
    returned = any(s.at < since and s.rows[index] == showing[-1].rows[index] for s in showing)
    until = begins(first) if returned else max(begins(first), since)
    for scan in listings:
        # What was read shortly before may be the first page of the same scan.
        is_before = since < scan.at < first.at - ALLOWANCE
        if is_before and not scan.body["offset"] and begins(scan) <= until:
            until = max(until, scan.at)
    return until - ALLOWANCE


def first_alike(versions: Sequence[Version], index: int, listings: Sequence[Served]) -> Version:
    """Return the first of several versions with the content of the last one, if no later listing shows another one."""
    last = versions[-1]
    for version in versions:
        contents = {s.rows[index] for s in listings if s.at >= version.since and index in s.rows}
        if version.content == last.content and contents <= {last.content}:
            return version
    return last


def loudest_hour(server: StrangeServer, span: Span) -> int:
    """Return the maximum number of requests within an hour of a span."""
    times = [served.at for served in server.served if served.at in span]
    return max((bisect.bisect_left(times, at + _HOUR) - number for number, at in enumerate(times)), default=0)
