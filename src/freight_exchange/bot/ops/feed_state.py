"""Stored state of a bot's feeds: the time that they cover, and the history of a request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.core.state import State
from freight_exchange.feed.status import Explanation, explain
from freight_exchange.offer_feed.core.known_offers import OfferFeedState
from freight_exchange.offer_feed.explanation import explain_request
from freight_exchange.platform.clock import Reading, SystemClock

if TYPE_CHECKING:
    from freight_exchange.store.snapshot import Snapshot

__all__ = ["covered_until", "explain_handling", "request_state", "to_utc"]


def request_state(feed: Snapshot) -> State | None:
    """Return the state of the feed of requests, or `None` before its first commit."""
    return None if feed.state is None else State.load(feed.state)


def covered_until(feed: Snapshot, offer_feed: Snapshot | None) -> datetime | None:
    """Return the time up to which the feed of requests covers updates, or the feed of offers if the former is idle."""
    for state in (request_state(feed), _offer_state(offer_feed)):
        if state is not None and state.is_primed:
            return to_utc(state, state.watermark.time)
    return None


def explain_handling(index: int, feed: Snapshot, offer_feed: Snapshot | None) -> Explanation:
    """Return the explanation by the feed that knows the request; if neither does, by the one that is not idle.

    Raises:
        ConfigurationError: No feed has a state yet.
    """
    state, offer_state = request_state(feed), _offer_state(offer_feed)
    tracked, events = feed.history(index)
    if offer_feed is not None and offer_state is not None and tracked is None:
        own, own_events = offer_feed.history(index)
        if own is not None or state is None or not state.is_primed:
            time, wall = _clocks(offer_state)
            return explain_request(index, own, own_events, time=time, wall=wall)
    if state is None:
        raise ConfigurationError("the file has no complete scan yet: let the bot finish its first one")
    time, wall = _clocks(state)
    return explain(index, tracked, events, state=state, time=time, wall=wall, where=None)


def to_utc(state: State | OfferFeedState, time: float) -> datetime:
    """Return a time on the feed's clock as UTC."""
    present, wall = _clocks(state)
    return datetime.fromtimestamp(wall - (present - time), UTC)


def _clocks(state: State | OfferFeedState) -> tuple[float, float]:
    """Return the time on the feed's clock and on the wall clock, both at the same moment.

    The moment is now on the machine that scans, and the last scan on any other: its clocks may be off.
    """
    watermark, reading = state.watermark, _read()
    if reading.boot_id and reading.boot_id == watermark.reading.boot_id:
        return watermark.time_at(reading), reading.wall
    return watermark.time, watermark.reading.wall


def _read() -> Reading:
    """Return a reading of the machine's clocks, outside of an event loop."""

    async def read() -> Reading:
        return SystemClock().read()

    return anyio.run(read)


def _offer_state(feed: Snapshot | None) -> OfferFeedState | None:
    return None if feed is None or feed.state is None else OfferFeedState.load(feed.state)
