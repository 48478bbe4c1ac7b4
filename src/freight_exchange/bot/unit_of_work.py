"""A bot's hold on its store: every durable step it takes passes here, by its name."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio

from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from freight_exchange.bot.failpoints import Failpoints
    from freight_exchange.feed.feed import Feed
    from freight_exchange.store.work import WorkStore

__all__ = ["UnitOfWork"]

T = TypeVar("T")


class UnitOfWork:
    """The work that is kept beside the state of a feed.

    A commit waits for the disk. The steps that are asked for meanwhile wait for their turn and then share the next one:
    eight handlers that end together cost one.

    Args:
        feed: The feed, entered.
        failpoints: Told before and after each durable step.
    """

    def __init__(self, feed: Feed, failpoints: Failpoints) -> None:
        if not hasattr(feed.hold.state(), "claim"):
            raise ConfigurationError("the store keeps no work: a bot needs a SQLiteStore, a MemoryStore or a BotStore")
        self._feed = feed
        self._turn = anyio.Lock()
        self._waiting: deque[_Step[Any]] = deque()
        self.at = failpoints

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
        """Take a durable step. `work` may be called again where a step that shared its commit failed."""
        self.at(f"before {step}")
        if self._feed.hold.inline:
            done = work(self._state())
        else:
            done = await self._in_turn(_Step(work))
        self.at(f"after {step}")
        return done

    async def _in_turn(self, step: _Step[T]) -> T:
        self._waiting.append(step)
        try:
            async with self._turn:
                # One turn is enough: should somebody who left in the middle have it under way, this waits for that.
                while not step.ended:
                    await self._feed.hold.run(self._take_steps)
        finally:
            step.wanted = step.ended
        return step.outcome()

    def _take_steps(self) -> None:
        """Take all the steps that wait, in one commit if that succeeds. In the thread of the store."""
        store, steps = self._state(), list[_Step[Any]]()
        while self._waiting:
            steps.append(self._waiting.popleft())
        steps = [step for step in steps if step.wanted]
        if len(steps) > 1:
            try:
                with store.transaction():
                    results = [step.work(store) for step in steps]
            except Exception:  # noqa: BLE001 - nothing was written, and each finds out for itself which of them it was
                results = []
            for step, result in zip(steps, results, strict=False):
                step.end(result)
        for step in steps:
            if not step.ended:
                step.take(store)

    async def deliver(self, handlers: Mapping[int, Sequence[str]], *, leave: Sequence[int]) -> None:
        """Turn a batch of the feed's events into deliveries; those to `leave` stay as they are."""
        self.at("before deliver")
        await self._feed.deliver(handlers, leave=leave)
        self.at("after deliver")

    def _state(self) -> WorkStore:
        return cast("WorkStore", self._feed.hold.state())


class _Step(Generic[T]):
    """One durable step, and whether somebody waits for it."""

    _result: T

    def __init__(self, work: Callable[[WorkStore], T]) -> None:
        self.work = work
        self.wanted = True
        self.ended = False
        self._error: Exception | None = None

    def end(self, result: T) -> None:
        self._result, self.ended = result, True

    def take(self, store: WorkStore) -> None:
        """In a commit of its own."""
        try:
            self.end(self.work(store))
        except Exception as error:  # noqa: BLE001 - raised by whoever waits
            self._error, self.ended = error, True

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result
