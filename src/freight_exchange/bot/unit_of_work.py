"""Unit of work of a bot: reads, and durable steps with a name."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

import anyio

from freight_exchange.errors import StoreAwayError
from freight_exchange.store.protocol import ConflictError

if TYPE_CHECKING:
    from freight_exchange.bot.failpoints import Failpoints
    from freight_exchange.feed.feed import Feed
    from freight_exchange.store.work import WorkStore

__all__ = ["DEFAULT_NAME", "UnitOfWork", "offer_feed_name"]

T = TypeVar("T")

_CONFLICT_RETRIES: Final = 4

DEFAULT_NAME: Final = "bot"
"""Default name of a bot in its store. `exchange.watch` has another default, so it shares nothing with the bot."""


def offer_feed_name(bot: str) -> str:
    """Return the name, in the store, of the feed of offers of a bot."""
    return f"{bot}: offers"


class StoreAccess(Protocol):
    """Access to a store: the lease of the feed, or the bot's membership in the fleet."""

    @property
    def inline(self) -> bool:
        """`True` if calls of the store run in the event loop, not in a thread."""
        ...

    def state(self) -> Any:
        """Return the feed's state or the bot's work, as the store has opened it."""
        ...

    async def run(self, work: Callable[[], T]) -> T:
        """Call the store."""
        ...


class UnitOfWork:
    """Reads and transactions on the work that a store keeps beside a feed's state.

    A commit waits for the disk. Steps that arrive meanwhile share the next commit (group commit).

    Args:
        feed: The feed, whose clock times the steps.
        failpoints: Called before and after each step.
        store: Access to the store; default that of the feed, whose lease must be held.
    """

    def __init__(self, feed: Feed, failpoints: Failpoints, store: StoreAccess | None = None) -> None:
        self._feed = feed
        self._access: StoreAccess = feed.lease if store is None else store
        self._commit_lock = anyio.Lock()
        self._waiting: deque[_Step[Any]] = deque()
        self.reach = failpoints

    def time(self) -> float:
        """Return seconds on the feed's clock, which continues through restarts."""
        return self._feed.time()

    def to_utc(self, time: float) -> datetime:
        """Convert a time of the feed's clock to UTC."""
        return self._feed.to_utc(time)

    async def read(self, work: Callable[[WorkStore], T]) -> T:
        """Read from the store."""
        return await self._access.run(lambda: work(self._store()))

    async def write(self, step: str, work: Callable[[WorkStore], T]) -> T:
        """Take a durable step. `work` runs again if a step that shared its commit fails."""
        self.reach(f"before {step}")
        result = work(self._store()) if self._access.inline else await self._commit(_Step(work))
        self.reach(f"after {step}")
        return result

    async def _commit(self, step: _Step[T]) -> T:
        self._waiting.append(step)
        try:
            async with self._commit_lock:
                # A commit with this step may still run although its caller was cancelled: this call waits for it.
                while not step.is_finished:
                    await self._access.run(self._commit_waiting)
        finally:
            step.is_wanted = step.is_finished
        return step.result()

    def _commit_waiting(self) -> None:
        """Take all waiting steps in one commit, or one by one if it fails. Runs in the store's thread."""
        store, steps = self._store(), list[_Step[Any]]()
        while self._waiting:
            steps.append(self._waiting.popleft())
        steps = [step for step in steps if step.is_wanted]
        if len(steps) > 1:
            try:
                with store.transaction():
                    results = [step.work(store) for step in steps]
            except StoreAwayError as error:
                # The commit may have succeeded: a second run would take its own writes for those of another replica.
                for step in steps:
                    step.fail(error)
                return
            except Exception:  # noqa: BLE001 - nothing was written; each step runs again and raises its own error
                results = []
            for step, result in zip(steps, results, strict=False):
                step.finish(result)
        for step in steps:
            if not step.is_finished:
                step.run_alone(store)

    async def deliver(self, handlers: Mapping[int, Sequence[str]], *, leave: Sequence[int]) -> None:
        """Turn a batch of the feed's events into deliveries; events in `leave` stay unacknowledged."""
        self.reach("before deliver")
        await self._feed.deliver(handlers, leave=leave)
        self.reach("after deliver")

    def _store(self) -> WorkStore:
        return cast("WorkStore", self._access.state())


class _Step(Generic[T]):
    """Durable step that waits for a commit.

    Attributes:
        is_wanted: Whether the caller still waits for it.
        is_finished: Whether it has a result or an error.
    """

    _result: T

    def __init__(self, work: Callable[[WorkStore], T]) -> None:
        self.work = work
        self.is_wanted = True
        self.is_finished = False
        self._error: Exception | None = None

    def finish(self, result: T) -> None:
        self._result, self.is_finished = result, True

    def run_alone(self, store: WorkStore) -> None:
        """Run in a separate commit, and repeat it after a conflict with a write of another replica."""
        try:
            for _ in range(_CONFLICT_RETRIES):
                with suppress(ConflictError):
                    self.finish(self.work(store))
                    return
            self.finish(self.work(store))
        except Exception as error:  # noqa: BLE001 - raised by the caller
            self.fail(error)

    def fail(self, error: Exception) -> None:
        self._error, self.is_finished = error, True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result
