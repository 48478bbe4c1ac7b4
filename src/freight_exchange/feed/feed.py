"""The loop that drives a feed: it looks when the next event is awaited, and never in the background."""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, Self

import anyio
import attrs

from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    FreightExchangeError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.feed.cover import is_covered, window_for
from freight_exchange.feed.events import RequestEvent
from freight_exchange.transport import clock

if TYPE_CHECKING:
    from types import TracebackType

    from freight_exchange.models import RateRequest
    from freight_exchange.paging import Paginator
    from freight_exchange.store.memory import MemoryStore

__all__ = ["Feed", "Start"]

Start = Literal["now", "backfill"] | timedelta
Search = Callable[[timedelta], "Paginator[RateRequest]"]

_logger = logging.getLogger("freight_exchange.feed")

_PASSING = (TransportError, DeadlineExceededError, DecodeError, APIStatusError, FeedProtocolError)
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 1.0, 20.0
_AGAIN = 1.0
_JITTER = 0.1


class Feed:
    """Events of rate requests, handed out as they are found: `async for event in feed`.

    Made by `exchange.watch()`. Entering it takes the first look, and goes on trying through trouble that may pass; what
    does not, a wrong URL or a certificate that is not valid, it raises. A rejected login ends it at any time.
    """

    def __init__(
        self, search: Search, store: MemoryStore, *, start: Start, interval: timedelta, allowance: timedelta
    ) -> None:
        self._search = search
        self._store = store
        self._start = start
        self._interval = _positive(interval, "interval")
        self._allowance = _positive(allowance, "allowance")
        self._pending: deque[RequestEvent] = deque()
        self._next_look = 0.0
        self._failures = 0
        self._longest_look = 0.0
        self._looked_at: datetime | None = None

    async def __aenter__(self) -> Self:
        while not await self._look(silently=self._start == "now", first=True):
            await self._until_next_look()
        self._next_look = anyio.current_time() + random.random() * self._interval
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def __aiter__(self) -> AsyncIterator[RequestEvent]:
        return self

    async def __anext__(self) -> RequestEvent:
        while not self._pending:
            await self._until_next_look()
            await self._look(silently=False, first=False)
        return self._pending.popleft()

    async def _until_next_look(self) -> None:
        await anyio.sleep(max(0.0, self._next_look - anyio.current_time()))

    async def _look(self, *, silently: bool, first: bool) -> bool:
        """Look once; whether the look was complete. What it found counts all the same.

        A first look that fails in a way that waiting does not mend raises: a wrong URL must not look like patience.
        """
        began, wall = clock.now(), datetime.now(UTC)
        cover = self._store.cover
        since = cover.elapsed() if cover is not None else self._first_window()
        window = window_for(since, self._allowance, 2 * self._longest_look)
        try:
            async for page in self._search(timedelta(seconds=window)).pages():
                for request in page:
                    self._take(request, wall, silently=silently)
        except AuthenticationError:
            raise
        except _PASSING as error:
            if first and not _may_pass(error):
                raise
            self._back_off(error)
            return False
        self._failures = 0
        self._longest_look = max(self._longest_look, began.elapsed())
        covered = is_covered(window, None if cover is None else cover.elapsed(), self._allowance)
        if covered:
            self._store.cover = began
            self._looked_at = wall
        pause = self._interval * random.uniform(1 - _JITTER, 1 + _JITTER)
        # A look that its window slid past is taken again, wider, and not at once: the service may be slow for a reason.
        self._next_look = began.loop + pause if covered else anyio.current_time() + min(_AGAIN, pause)
        return covered

    def _first_window(self) -> float | None:
        return self._start.total_seconds() if isinstance(self._start, timedelta) else None

    def _take(self, request: RateRequest, seen_at: datetime, *, silently: bool) -> None:
        previous = self._store.last(request.index)
        if previous == request:
            return
        self._store.remember(request)
        if silently:
            return
        changed = () if previous is None else _changed(previous, request)
        self._pending.append(
            RequestEvent(
                kind="new" if previous is None else "updated",
                request=request,
                previous=previous,
                changed=changed,
                observed_between=(self._looked_at, seen_at),
            )
        )

    def _back_off(self, error: FreightExchangeError) -> None:
        self._failures += 1
        longest = min(_LONGEST_BACK_OFF, _FIRST_BACK_OFF * 2 ** min(self._failures - 1, 6))
        pause = random.random() * longest
        if isinstance(error, RateLimitedError) and error.retry_after is not None:
            pause = max(pause, min(error.retry_after, _LONGEST_BACK_OFF))
        self._next_look = anyio.current_time() + pause
        _logger.warning("a look failed, the next follows in %.1f s: %s", pause, error)


def _may_pass(error: FreightExchangeError) -> bool:
    """Whether the trouble may be gone at the next look."""
    if isinstance(error, TransportError):
        return not error.permanent
    return not isinstance(error, APIStatusError) or isinstance(error, ServerError | RateLimitedError)


def _changed(previous: RateRequest, request: RateRequest) -> tuple[str, ...]:
    names = (field.name for field in attrs.fields(type(request)))
    return tuple(name for name in names if getattr(previous, name) != getattr(request, name))


def _positive(value: timedelta, name: str) -> float:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise ConfigurationError(f"{name} must be a timedelta of more than 0, not {value!r}")
    return value.total_seconds()
