"""Status of a feed of offers."""

from __future__ import annotations

from datetime import datetime, timedelta

import attrs

from freight_exchange.feed.status import Phase
from freight_exchange.models._base import Serializable

__all__ = ["OfferFeedStatus"]


@attrs.frozen(kw_only=True)
class OfferFeedStatus(Serializable):
    """Status of a feed of offers.

    Attributes:
        state: `priming`, until the first scan is complete; `catching-up`, after a restart; `live`; `backing-off`, while
            scans fail or lack most of what they should contain; `stopped`.
        cover_age: Time since the start of the last complete scan; `None` before the first. A feed is alive while this
            is young.
        last_success: When the last complete scan of this run began, UTC.
        pages: Pages of the last scan.
        requests: Own requests that are known.
        offers: Offers on them that are not gone.
        unacknowledged: Events that wait to be delivered or acknowledged.
        retry_in: Time until the next request after a failure: an interval or more, and what `Retry-After` asked for.
    """

    state: Phase
    cover_age: timedelta | None
    last_success: datetime | None
    pages: int
    requests: int
    offers: int
    unacknowledged: int
    retry_in: timedelta = timedelta(0)
