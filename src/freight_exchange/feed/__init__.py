"""Feeds: poll a listing of the service, and turn its changes into durable events.

A `Poller` scans a source (`Requests`, `Offers`, `SelectedBids`), compares it with the store, and commits each page with
its events. `Feed` and `OfferFeed` deliver the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freight_exchange.feed.feed import Feed, OfferFeed

__all__ = ["Feed", "OfferFeed"]

if not TYPE_CHECKING:
    # Type checkers must not see `__getattr__`: they would accept every name of the module.
    def __getattr__(name: str) -> object:
        """Import a feed on first use: a client that never watches needs none."""
        if name in __all__:
            from freight_exchange.feed import feed

            return getattr(feed, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
