"""The feed of offers: complete scans of the own requests become events about the offers on them.

`core` has the rules, which are pure. `journal` commits what scans find, `poller` runs the scans, and `feed` delivers
the events. Lease, queue, pace and delivery are those of the feed of requests (`freight_exchange.feed`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freight_exchange.offer_feed.feed import OfferFeed

__all__ = ["OfferFeed"]

if not TYPE_CHECKING:
    # Hidden from type checkers, to which a module with `__getattr__` has every name.
    def __getattr__(name: str) -> object:
        """Import the feed on first use: a client that never watches needs none."""
        if name == "OfferFeed":
            from freight_exchange.offer_feed.feed import OfferFeed

            return OfferFeed
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
