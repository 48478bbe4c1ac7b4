"""Facts that the replies of a server prove by themselves."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from typing import Final

from tests.model.servers.market import Version
from tests.model.servers.quirks import Span
from tests.model.servers.server import Served, StrangeServer

__all__ = ["begins", "first_alike", "loudest_hour", "proven_updates"]

_HOUR: Final = 3600.0


def begins(listing: Served) -> float:
    """The time from which on a listing claims to show what was updated."""
    return listing.at - float(listing.body["secondsSinceUpdate"])


def proven_updates(listings: Iterable[Served]) -> dict[int, float]:
    """Return the earliest possible time of each request's last update, as far as listings prove it.

    An update that changes nothing is proven by no more than the window that shows the request.
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


def first_alike(versions: Sequence[Version], index: int, listings: Sequence[Served]) -> Version:
    """The first of several versions with the content of the last one, if no listing since shows another one."""
    last = versions[-1]
    for version in versions:
        contents = {s.rows[index] for s in listings if s.at >= version.since and index in s.rows}
        if version.content == last.content and contents <= {last.content}:
            return version
    return last


def loudest_hour(server: StrangeServer, span: Span) -> int:
    """The most requests within an hour of a span."""
    times = [served.at for served in server.served if served.at in span]
    return max((bisect.bisect_left(times, at + _HOUR) - number for number, at in enumerate(times)), default=0)
