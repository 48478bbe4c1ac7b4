"""Status of a feed, and explanations of its events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

import attrs

from freight_exchange.base import Serializable
from freight_exchange.feed.core.first_scan import BASELINE
from freight_exchange.feed.core.state import State
from freight_exchange.feed.events import Gap, RequestEvent, RequestKind, Unreadable
from freight_exchange.feed.serialization import load_request, unpack
from freight_exchange.filters import RequestFilter
from freight_exchange.store.protocol import StoredEvent, TrackedRequest

__all__ = ["Explanation", "FeedStatus", "Phase", "explain"]

Phase = Literal["priming", "live", "catching-up", "backing-off", "draining", "stopped"]
"""State of a feed."""


@attrs.frozen(kw_only=True)
class FeedStatus(Serializable):
    """Status of a feed.

    Attributes:
        state: `priming` until the first scan is complete; `live`; `catching-up` after a restart, or after a scan that
            took longer than its window allowed for; `backing-off` while scans fail; `draining`; `stopped`.
        cover_age: Age of the watermark: the time before which no update was missed, except for those that the service
            shows later than `allowance`. `None` before the feed was entered. In a healthy feed it stays small.
        last_success: When the last complete scan began, UTC.
        window: Window of the running or last scan; while priming, of the first scan.
        pages: Pages of that scan so far.
        clamp: Maximum number of rows that the service returns in a page, if known.
        allowance: Time that the service may take to show an update; it grows when updates are found late.
        late: Number of requests that showed up after more than `allowance`, and were found by deep scans.
        unacknowledged: Number of events that wait to be delivered or acknowledged.
        gaps: The gaps that are not acknowledged yet.
        retry_in: Time until the next request after a failure: at least an interval, and at least `Retry-After`.
        offset_ignored: Whether the service returns its first page for each offset. Requests on other pages are missed.
    """

    state: Phase
    cover_age: timedelta | None
    last_success: datetime | None
    window: timedelta
    pages: int
    clamp: int | None
    allowance: timedelta
    late: int
    unacknowledged: int
    gaps: tuple[Gap, ...]
    offset_ignored: bool = False
    retry_in: timedelta = timedelta(0)


@attrs.frozen(kw_only=True)
class Explanation(Serializable):
    """Explanation why a request was delivered or not; `str()` returns the sentence.

    Attributes:
        index: The request's identifier.
        verdict: `unseen`: no scan has seen it. `unreadable`: it is listed and cannot be read. `baseline`: it was listed
            when the feed began, and has not changed. `excluded`: the filter excludes it, or excluded its last event.
            `waiting`: its event waits to be pulled. `handed-out`: its last event was acknowledged.
        sentence: The verdict in words.
        first_seen: When a scan first saw it, UTC; `None` if none has.
        last_seen: When a scan or a look-up last saw it, or found it gone, UTC; `None` if that is unknown.
        events: The kinds of its events that the store still has, oldest first.
    """

    index: int
    verdict: Literal["unseen", "unreadable", "baseline", "excluded", "waiting", "handed-out"]
    sentence: str
    first_seen: datetime | None
    last_seen: datetime | None
    events: tuple[str, ...]

    def __str__(self) -> str:
        return self.sentence


def explain(
    index: int,
    seen: TrackedRequest | None,
    events: Sequence[StoredEvent],
    *,
    state: State,
    time: float,
    wall: float,
    where: RequestFilter | None,
) -> Explanation:
    """Explain why a request was delivered or not.

    Args:
        index: The request's identifier.
        seen: Its row in the store, if any.
        events: Its events in the store.
        state: The feed's state.
        time, wall: The present time on the feed's clock, and in seconds since the epoch.
        where: The feed's filter.
    """

    def at(moment: float) -> datetime:
        return datetime.fromtimestamp(wall - (time - moment), UTC)

    def explained(
        verdict: Literal["unseen", "unreadable", "baseline", "excluded", "waiting", "handed-out"], why: str
    ) -> Explanation:
        return Explanation(
            index=index,
            verdict=verdict,
            sentence=f"request {index} {why}",
            first_seen=None if seen is None else at(seen.first_seen),
            # A tombstone has no time at which the request was last seen.
            last_seen=None if seen is None or seen.last_scan == 0 else at(seen.last_seen),
            events=tuple(event.kind for event in events),
        )

    if seen is None:
        if any(event.kind == "unreadable" for event in events):
            return explained("unreadable", "is listed and cannot be read: an Unreadable event has the reason")
        if not state.is_primed:
            return explained("unseen", "was in no scan: the first scan is not complete")
        return explained(
            "unseen",
            f"was in no scan: the scans cover updates before {at(state.watermark.time):%Y-%m-%d %H:%M:%S} UTC,"
            f" and the service may show one up to {state.allowance:g} s late",
        )
    waiting = (event for event in events if not event.is_acknowledged and event.kind in get_args(RequestKind))
    if (event := next((event for event in waiting if _is_wanted(event, where)), None)) is not None:
        return explained("waiting", f"is {event.kind}, and its event waits to be pulled or acknowledged")
    if events and events[-1].kind == Unreadable.kind:
        return explained("unreadable", "was listed in a form that cannot be read: an Unreadable event has the reason")
    record = None if seen.record is None else load_request(seen.record)
    excluded = None if where is None or record is None else where.excluded_by(record)
    if excluded is not None:
        return explained("excluded", f"is excluded by the filter: {excluded}")
    if seen.version <= BASELINE:
        return explained(
            "baseline", "was listed when the feed began, which delivers later ones only, and has not changed"
        )
    # Here every waiting event is excluded by the filter.
    done = [event for event in events if event.is_acknowledged or event.kind in get_args(RequestKind)]
    if not done:
        kept = "requests" if record is None else "events"
        return explained("handed-out", f"was handed out, or excluded by a filter, longer ago than {kept} are kept")
    handed_out = [event for event in done if event.is_acknowledged and not event.is_filtered]
    last = f"the last event was {done[-1].kind!r}"
    if done[-1] in handed_out:
        return explained("handed-out", f"was handed out and acknowledged: {last}")
    before = f", and {handed_out[-1].kind!r} before it was handed out" if handed_out else ""
    return explained("excluded", f"was excluded by the filter of that time: {last}{before}")


def _is_wanted(event: StoredEvent, where: RequestFilter | None) -> bool:
    """Return whether the event passes the filter; the request may have changed since."""
    if where is None:
        return True
    read = unpack(event.kind, event.payload)
    return isinstance(read, RequestEvent) and where.matches(read.request)
