"""Watcher: polls the list of rate requests and turns its changes into events."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freight_exchange.feed.feed import Feed

__all__ = ["Feed"]

if not TYPE_CHECKING:
    # Type checkers must not see `__getattr__`: they would accept every name of the module.
    def __getattr__(name: str) -> object:
        """Import the feed on first use: a client that never watches needs none."""
        if name == "Feed":
            from freight_exchange.feed.feed import Feed

            return Feed
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
