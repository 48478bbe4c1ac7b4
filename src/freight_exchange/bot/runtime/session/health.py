"""Health of a session: age of the watermark, and whether the bot is live."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from freight_exchange.feed.feed import Feed
    from freight_exchange.feed.status import FeedStatus
    from freight_exchange.offer_feed.feed import OfferFeed
    from freight_exchange.offer_feed.status import OfferFeedStatus

__all__ = ["LIVE_INTERVALS", "Health"]

LIVE_INTERVALS: Final = 3
"""A bot is live while its watermark is younger than this many intervals."""


class Health:
    """Health of a session.

    Args:
        feed: The feed.
        interval: Time between scans.
        offer_feed: The feed of offers, if there is one.
        started_at: Time on the loop's clock at which the bot began; a session may begin later.

    Attributes:
        started_at: As given, or the end of a standby.
    """

    def __init__(
        self, feed: Feed, interval: timedelta, offer_feed: OfferFeed | None = None, *, started_at: float
    ) -> None:
        self._feed = feed
        self._offer_feed = offer_feed
        self._interval = interval
        self._frozen: tuple[FeedStatus | None, timedelta] | None = None
        self.started_at = started_at

    def freeze(self) -> None:
        """Keep the present values: after the end of the loop its clock cannot be read.

        A session that a rejected login ended is not frozen at once, as its watermark grows older meanwhile.
        """
        if self._frozen is None:
            self._frozen = self.feed_status(), self.age()

    def feed_status(self) -> FeedStatus | None:
        """Return the status of the feed; `None` before it was entered."""
        if self._frozen is not None:
            return self._frozen[0]
        try:
            return self._feed.status()
        except ConfigurationError:
            return None

    def age(self) -> timedelta:
        """Return the age of the watermark, or the time since the start if that is less."""
        if self._frozen is not None:
            return self._frozen[1]
        running = timedelta(seconds=anyio.current_time() - self.started_at)
        ages = self._cover_ages()
        return min(running, max(running if age is None else age for age in ages)) if ages else running

    def is_young(self) -> bool:
        """Return whether the watermark is young enough for a live bot."""
        return self.age() <= LIVE_INTERVALS * self._interval

    def is_failing(self) -> bool:
        """Return whether scans have failed for so long that the watermark is not young any more."""
        return not self.is_young() and any(
            status is not None and status.state == "backing-off" for status in self._statuses()
        )

    def last_scan(self) -> float:
        """Return the start of the last complete scan on the loop's clock; minus infinity before the first."""
        ages = [age for age in self._cover_ages() if age is not None]
        return anyio.current_time() - max(ages).total_seconds() if ages else -math.inf

    def offer_feed_status(self) -> OfferFeedStatus | None:
        """Return the status of the feed of offers; `None` without one, and before it was entered."""
        try:
            return None if self._offer_feed is None else self._offer_feed.status()
        except ConfigurationError:
            return None

    def _cover_ages(self) -> list[timedelta | None]:
        """Return the age of the watermark of each feed that reads."""
        return [None if status is None else status.cover_age for status in self._statuses()]

    def _statuses(self) -> list[FeedStatus | OfferFeedStatus | None]:
        """Return the status of each feed that reads."""
        statuses: list[FeedStatus | OfferFeedStatus | None] = []
        if not self._feed.is_idle:
            statuses.append(self.feed_status())
        if self._offer_feed is not None:
            statuses.append(self.offer_feed_status())
        return statuses
