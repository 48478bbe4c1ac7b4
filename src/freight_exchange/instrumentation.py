"""Instrumentation: code that runs around the calls, scans and handlers of a client, its feeds and its bots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from freight_exchange.hooks import Event
    from freight_exchange.models import Write

__all__ = ["NO_INSTRUMENTS", "CallInfo", "HandlerRun", "Instrumentation", "Instruments", "ScanInfo"]


@attrs.frozen(kw_only=True)
class CallInfo:
    """Call that is about to begin.

    Attributes:
        base_url: The API root.
        method: The HTTP method.
        path: The path, relative to the API root.
        call_id: The id of the call, which its `Attempt` and `Retry` records have.
        write: The write as a value; `None` for reads.
    """

    base_url: str
    method: str
    path: str
    call_id: str
    write: Write | None


@attrs.frozen(kw_only=True)
class ScanInfo:
    """Scan that is about to begin, or to continue.

    Attributes:
        feed: The name of the feed.
        tier: Its depth, as in the `Scan` record.
        window: Seconds that it looks back.
    """

    feed: str
    tier: str
    window: int


@attrs.define(kw_only=True)
class HandlerRun:
    """Attempt of a bot's handler.

    Attributes:
        feed: The name of the bot's feed.
        handler: The handler's id.
        kind: The kind of the event.
        event: The number of the event in the feed.
        request: The index of the request, or `None`.
        attempt: The number of this attempt, from 1.
        ending: The ending, as in the metric `freight_exchange_bot_deliveries_total`; `None` until it is known.
        error: The exception that the handler raised, or `None`.
    """

    feed: str
    handler: str
    kind: str
    event: int
    request: int | None
    attempt: int
    ending: str | None = None
    error: Exception | None = None


class Instrumentation:
    """Base class of instrumentations, which does nothing. Each context manager surrounds the operation in its name."""

    def record(self, event: Event) -> None:
        """Receive a record of the client's hooks."""

    def call(self, call: CallInfo) -> AbstractContextManager[object]:
        """Surround a call: its attempts, waits and login. An error of the call passes through."""
        return _NOTHING

    def scan(self, scan: ScanInfo) -> AbstractContextManager[object]:
        """Surround a scan of a feed, or a part of one that pauses."""
        return _NOTHING

    def found(self, feed: str, events: Sequence[int]) -> None:
        """Receive the numbers of the events that the last scan of a feed has found."""

    def handler(self, run: HandlerRun) -> AbstractContextManager[object]:
        """Surround an attempt of a bot's handler. At the end, `run` has the ending and the error."""
        return _NOTHING


class Instruments:
    """The instrumentations of a client, the first outermost. Its truth value is false if there are none."""

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[Instrumentation, ...] = ()) -> None:
        self._parts = parts

    def __bool__(self) -> bool:
        return bool(self._parts)

    def and_also(self, part: Instrumentation) -> Instruments:
        """Return these instrumentations and one more."""
        return Instruments((*self._parts, part))

    def record(self, event: Event) -> None:
        """Pass on a record of the client's hooks."""
        for part in self._parts:
            part.record(event)

    def call(self, call: CallInfo) -> AbstractContextManager[object]:
        """Surround a call."""
        return self._entered(lambda part: part.call(call))

    def scan(self, scan: ScanInfo) -> AbstractContextManager[object]:
        """Surround a scan."""
        return self._entered(lambda part: part.scan(scan))

    def found(self, feed: str, events: Sequence[int]) -> None:
        """Pass on the numbers of the events that the last scan of a feed has found."""
        for part in self._parts:
            part.found(feed, events)

    def handler(self, run: HandlerRun) -> AbstractContextManager[object]:
        """Surround an attempt of a handler."""
        return self._entered(lambda part: part.handler(run))

    @contextmanager
    def _entered(self, enter: Callable[[Instrumentation], AbstractContextManager[object]]) -> Iterator[None]:
        with ExitStack() as stack:
            for part in self._parts:
                stack.enter_context(enter(part))
            yield


_NOTHING: Final = nullcontext()

NO_INSTRUMENTS: Final = Instruments()
