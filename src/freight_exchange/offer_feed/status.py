"""Status of a feed of offers."""

from __future__ import annotations

from datetime import datetime, timedelta

import attrs

from freight_exchange.base import Serializable
from freight_exchange.feed.status import Phase

__all__ = ["OfferFeedStatus"]


@attrs.frozen(kw_only=True)
class OfferFeedStatus(Serializable):
    """Status of a feed of offers.

    Attributes:
        state: `priming` until the first scan is complete; `catching-up` after a restart; `live`; `backing-off` while
            scans fail or lack many known offers; `stopped`.
        cover_age: Time since the start of the last complete scan; `None` before the first. In a healthy feed it stays
            small.
        last_success: When the last complete scan of this run began, UTC.
        pages: Pages of the last scan.
        requests: Number of your requests that are known.
        offers: Number of offers on them that are not gone.
        unacknowledged: Number of events that wait to be delivered or acknowledged.
        retry_in: Time until the next request after a failure: at least an interval, and at least `Retry-After`.
    """

    state: Phase
    cover_age: timedelta | None
    last_success: datetime | None
    pages: int
    requests: int
    offers: int
    unacknowledged: int
    retry_in: timedelta = timedelta(0)
