"""Status of feeds, and explanations why an event was delivered or not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import attrs

from freight_exchange.base import Serializable
from freight_exchange.feed.events import Gap, OfferEvent, RequestEvent, Unreadable, load_event, load_record
from freight_exchange.feed.sources import load_offer
from freight_exchange.models import RateRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from freight_exchange.filters import OfferFilter, RequestFilter
    from freight_exchange.store.feeds import EventRow, Item

Phase = Literal["priming", "live", "catching-up", "backing-off", "draining", "stopped"]
"""State of a feed."""

Verdict = Literal["unseen", "unreadable", "baseline", "excluded", "waiting", "handed-out"]


@attrs.frozen(kw_only=True)
class FeedStatus(Serializable):
    """Status of a feed.

    Attributes:
        state: `priming` until the first scan is complete; `live`; `catching-up` after a restart, or after a scan that
            took longer than its window allowed for; `backing-off` while scans fail; `draining`; `stopped`.
        cover_age: Age of the watermark: the time before which no update was missed, except for those that the service
            shows later than `allowance`. `None` before the feed was entered. In a healthy feed it stays small.
        last_success: When the last complete scan began, UTC.
        window, pages: Window and pages of the running or last scan.
        allowance: Time that the service may take to show an update.
        unacknowledged: Number of events that wait to be delivered or acknowledged.
        gaps: The gaps that are not acknowledged yet.
        retry_in: Time until the next request after a failure: at least an interval, and at least `Retry-After`.
    """

    state: Phase
    cover_age: timedelta | None
    last_success: datetime | None
    window: timedelta
    pages: int
    allowance: timedelta
    unacknowledged: int
    gaps: tuple[Gap, ...]
    retry_in: timedelta = timedelta(0)


@attrs.frozen(kw_only=True)
class OfferFeedStatus(Serializable):
    """Status of a feed of offers. The other fields are as in `FeedStatus`.

    Attributes:
        cover_age: Time since the start of the last complete scan; `None` before the first. In a healthy feed it stays
            small.
        requests: Number of your requests that the last scan has listed with offers.
        offers: Number of offers on them.
    """

    state: Phase
    cover_age: timedelta | None
    last_success: datetime | None
    pages: int
    requests: int
    offers: int
    unacknowledged: int
    retry_in: timedelta = timedelta(0)


@attrs.frozen(kw_only=True)
class Explanation(Serializable):
    """Explanation why a request was delivered or not; `str()` returns the sentence.

    Attributes:
        index: The request's identifier.
        verdict: `unseen`: no scan has seen it. `unreadable`: it is listed and cannot be read. `baseline`: it was listed
            when the feed began, and has not changed. `excluded`: the filter excludes it. `waiting`: its event waits to
            be pulled. `handed-out`: its last event was acknowledged.
        sentence: The verdict in words.
        first_seen: When a scan first saw it, UTC; `None` if none has.
        last_seen: When a scan or a look-up last saw it, or found it gone, UTC; `None` if that is unknown.
        events: The kinds of its events that the store still has, oldest first.
    """

    index: int
    verdict: Verdict
    sentence: str
    first_seen: datetime | None
    last_seen: datetime | None
    events: tuple[str, ...]

    def __str__(self) -> str:
        return self.sentence


def explain_request(
    index: int,
    item: Item | None,
    events: Sequence[EventRow],
    to_utc: Callable[[float], datetime],
    where: RequestFilter | None,
    unseen: str,
) -> Explanation:
    """Explain why a request was delivered or not, by its item and events in the store.

    `to_utc` converts a time on the feed's clock; `unseen` is the explanation for a request that no scan has seen.
    """
    waiting = [
        event
        for row in events
        if not row.acked
        and isinstance(event := load_event(row.kind, row.payload), RequestEvent)
        and (where is None or where.matches(event.request))
    ]
    record = None if item is None or item.record is None else load_record(item.record, RateRequest)
    reason = None if where is None or record is None else where.excluded_by(record)
    excluded = "" if reason is None else f"is excluded by the filter: {reason}"
    return _explain(index, f"request {index}", item, events, waiting, to_utc, unseen, excluded)


def explain_offer(
    request: int,
    offer: int,
    item: Item | None,
    events: Sequence[EventRow],
    to_utc: Callable[[float], datetime],
    where: OfferFilter | None,
) -> Explanation:
    """Explain why an offer was delivered or not; the arguments are those of `explain_request`."""
    loaded = [(row, load_event(row.kind, row.payload)) for row in events]
    its = [(row, event) for row, event in loaded if isinstance(event, OfferEvent) and event.offer.id == offer]
    waiting = [
        event for row, event in its if not row.acked and (where is None or where.matches(event.offer, event.listing))
    ]
    record = None if item is None else item.record
    is_excluded = where is not None and record is not None and not where.matches(*load_offer(record))
    what, excluded = f"offer {offer} on request {request}", "is excluded by the filter" if is_excluded else ""
    unseen = "was in no scan: the service has not listed it, or it cannot be read"
    return _explain(request, what, item, [row for row, _ in its], waiting, to_utc, unseen, excluded)


def _explain(
    index: int,
    what: str,
    item: Item | None,
    events: Sequence[EventRow],
    waiting: Sequence[RequestEvent | OfferEvent],
    to_utc: Callable[[float], datetime],
    unseen: str,
    excluded: str,
) -> Explanation:
    kinds = tuple(event.kind for event in events)
    verdict: Verdict
    if item is None and Unreadable.kind not in kinds:
        verdict, why = "unseen", unseen
    elif waiting:
        verdict, why = "waiting", f"is {waiting[0].kind}, and its event waits to be pulled or acknowledged"
    elif item is None or kinds[-1:] == (Unreadable.kind,):
        verdict, why = "unreadable", "is listed and cannot be read: an Unreadable event has the reason"
    elif excluded:
        verdict, why = "excluded", excluded
    elif item.version == 0:
        verdict, why = "baseline", "was listed when the feed began, which delivers later ones only, and has not changed"
    elif not kinds:
        verdict, why = "handed-out", "was handed out, or excluded by a filter, longer ago than events are kept"
    else:
        verdict, why = "handed-out", f"was handed out and acknowledged: the last event was {kinds[-1]!r}"
    return Explanation(
        index=index,
        verdict=verdict,
        sentence=f"{what} {why}",
        first_seen=None if item is None else to_utc(item.first_seen),
        # A tombstone has no time at which the request was last seen.
        last_seen=None if item is None or item.record is None else to_utc(item.last_seen),
        events=kinds,
    )
