"""A bot's hold on its store: every durable step it takes passes here, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, cast

from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from freight_exchange.bot.points import Points
    from freight_exchange.feed.feed import Feed
    from freight_exchange.store.work import WorkStore

__all__ = ["Desk"]

T = TypeVar("T")


class Desk:
    """The work that is kept beside the state of a feed.

    Args:
        feed: The feed, entered.
        points: Told before and after each durable step.
    """

    def __init__(self, feed: Feed, points: Points) -> None:
        if not hasattr(feed.hold.state(), "claim"):
            raise ConfigurationError("the store keeps no work: a bot needs a SQLiteStore, a MemoryStore or a BotStore")
        self._feed = feed
        self.at = points

    def time(self) -> float:
        """Seconds on the feed's clock, which goes on through restarts."""
        return self._feed.time()

    def moment(self, time: float) -> datetime:
        """When the feed's clock said so, UTC."""
        return self._feed.moment(time)

    async def read(self, work: Callable[[WorkStore], T]) -> T:
        """Ask the store."""
        return await self._feed.hold.run(lambda: work(self._state()))

    async def write(self, step: str, work: Callable[[WorkStore], T]) -> T:
        """Take a durable step."""
        self.at(f"before {step}")
        done = await self._feed.hold.run(lambda: work(self._state()))
        self.at(f"after {step}")
        return done

    async def deliver(self, handlers: Mapping[int, Sequence[str]], *, leave: Sequence[int]) -> None:
        """Turn a batch of the feed's events into deliveries; those to `leave` stay as they are."""
        self.at("before deliver")
        await self._feed.deliver(handlers, leave=leave)
        self.at("after deliver")

    def _state(self) -> WorkStore:
        return cast("WorkStore", self._feed.hold.state())
