"""Feed of offers: reads all requests of the account in each scan, and turns changes of their offers into events.

`core` has the rules, which are pure. In `scanning`, `poller` runs the scans and `journal` commits their results. `feed`
delivers the events. Lease, queue, pace and delivery are those of the feed of requests (`freight_exchange.feed`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freight_exchange.offer_feed.feed import OfferFeed

__all__ = ["OfferFeed"]

if not TYPE_CHECKING:
    # Type checkers must not see `__getattr__`: they would accept every name of the module.
    def __getattr__(name: str) -> object:
        """Import the feed on first use: a client that never watches needs none."""
        if name == "OfferFeed":
            from freight_exchange.offer_feed.feed import OfferFeed

            return OfferFeed
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
