"""The watcher: a polled list becomes events."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freight_exchange.feed.feed import Feed

__all__ = ["Feed"]

if not TYPE_CHECKING:
    # Hidden from type checkers, to which a module with `__getattr__` has every name.
    def __getattr__(name: str) -> object:
        """Import the feed on first use: a client that never watches needs none."""
        if name == "Feed":
            from freight_exchange.feed.feed import Feed

            return Feed
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
