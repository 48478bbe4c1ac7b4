"""Options of a feed of offers, checked before anything is sent."""

from __future__ import annotations

from typing import Literal

import attrs

from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.options import FeedOptions
from freight_exchange.filters import OfferFilter

__all__ = ["WatchOffersOptions"]


@attrs.frozen(kw_only=True)
class WatchOffersOptions(FeedOptions):
    """Options of a feed of offers. `exchange.watch_offers()` describes them."""

    start: Literal["now", "backfill"] = "backfill"
    where: OfferFilter | None = None

    def __attrs_post_init__(self) -> None:
        if self.start not in ("now", "backfill"):
            raise ConfigurationError(f"start must be 'now' or 'backfill', not {self.start!r}")
        if self.where is not None and not isinstance(self.where, OfferFilter):
            raise ConfigurationError(f"where must be OfferFilter(...), not {type(self.where).__name__}")
        super().__attrs_post_init__()
