"""Hooks: callables that receive frozen records of events, for logging and metrics.

A hook, sync or async, receives every record; `match` or `isinstance` selects. A hook never changes the outcome of a
call: its errors are logged, and an async hook that takes longer than `HOOK_TIMEOUT` is cancelled. No record holds a
secret.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import anyio
import attrs

from freight_exchange.errors import DecodeError, FreightExchangeError
from freight_exchange.models._base import Frozen
from freight_exchange.models.writes import Write
from freight_exchange.platform.reply_headers import NO_HEADERS, ReplyHeaders

__all__ = [
    "Attempt", "BrokenRecord", "Degraded", "Event", "Hook", "Login", "Recovered", "Retry", "Scan", "ScanProgress",
]  # fmt: skip


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Attempt(Frozen):
    """Attempt of a call: one request handed to the network, and its end.

    Attributes:
        method: The HTTP method.
        path: The path, relative to the API root.
        number: Number of the attempt within its call, from 1; 0 if it could not be sent.
        status: The reply's status, or `None` without one.
        elapsed: Seconds from the start of the attempt to its end.
        error: Why there is no reply, or `None`.
        abandoned: Whether the caller had left (cancelled, or past its deadline) before the end.
        may_have_taken_effect: Whether a write may have been carried out; always false for reads.
        write: The write as a value, for `exchange.reconcile(attempt.write)`; `None` for reads and logins.
        call_id: The id of its call: the same for all its attempts, its retries, its error and its log lines.
        headers: The reply's headers, case-insensitive, without cookies and secrets.
    """

    method: str
    path: str
    number: int
    status: int | None
    elapsed: float
    error: FreightExchangeError | None
    abandoned: bool
    may_have_taken_effect: bool
    write: Write | None = None
    call_id: str = ""
    headers: ReplyHeaders = attrs.field(default=NO_HEADERS, repr=False)

    @property
    def request_id(self) -> str | None:
        """Id of the request by the service or a gateway, from the reply's headers, or `None`."""
        return self.headers.request_id


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Retry(Frozen):
    """Failed attempt that is repeated after `delay` seconds."""

    method: str
    path: str
    number: int
    delay: float
    error: FreightExchangeError
    call_id: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Login(Frozen):
    """End of a login.

    Attributes:
        generation: The number of the token obtained, from 1; 0 without one.
        reason: `first`, `clock` (the token was about to expire) or `refused` (the service refused it).
        elapsed: Seconds.
        error: Why there is no token, or `None`.
    """

    generation: int
    reason: Literal["first", "clock", "refused"]
    elapsed: float
    error: FreightExchangeError | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BrokenRecord(Frozen):
    """Part of a reply that could not be read while the rest was: `error.path` has its position.

    The part is a record of a listing, a part of one, or a key that repeats. The path `$` means that the reply reports
    a failure beside its rows, so that rows may be missing, or that a key repeats in the reply to a write.
    """

    method: str
    path: str
    error: DecodeError


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Scan(Frozen):
    """End of a feed's scan.

    Attributes:
        feed: The feed's name.
        tier: How deep it looked: `narrow`, `half an hour`, `six hours` or `five days`.
        window: Seconds that it looked back.
        pages: Pages that came.
        rows: Rows on them.
        events: Events that it made.
        complete: Whether all that was updated since the last complete scan has been seen.
        elapsed: Seconds.
        error: Why it ended early, or `None`.
    """

    feed: str
    tier: str
    window: int
    pages: int
    rows: int
    events: int
    complete: bool
    elapsed: float
    error: FreightExchangeError | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ScanProgress(Frozen):
    """Page of a feed's scan that has more pages to read.

    The first scan of a large market takes minutes; this record shows how far it is. The events of its pages are
    delivered meanwhile.

    Attributes:
        feed: The feed's name.
        tier: How deep it looks, as in `Scan`.
        first: Whether the scan belongs to the feed's first one.
        window: Seconds that it looks back.
        pages: Pages so far.
        requests: Different requests on them.
        elapsed: Seconds since the scan began.
    """

    feed: str
    tier: str
    first: bool
    window: int
    pages: int
    requests: int
    elapsed: float


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Degraded(Frozen):
    """Start of failing scans of a feed, which keeps retrying; reported once until it has recovered.

    Attributes:
        feed: The feed's name.
        error: Why the scan failed.
        retry_in: Seconds until the feed sends its next request: an interval or more, and what `Retry-After` asked for.
    """

    feed: str
    error: FreightExchangeError
    retry_in: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Recovered(Frozen):
    """Recovery of a feed: its scans succeed again, `after` seconds after the first failure; no event is lost."""

    feed: str
    after: float


Event = Attempt | Retry | Login | BrokenRecord | Scan | ScanProgress | Degraded | Recovered

Hook = Callable[[Event], Awaitable[None] | None]


HOOK_TIMEOUT: Final = 5.0
"""Seconds that an async hook may take for one record."""

_logger = logging.getLogger("freight_exchange.hooks")


class Hooks:
    """The hooks of a client, called one after another."""

    __slots__ = ("_failed", "_hooks")

    def __init__(self, hooks: tuple[Hook, ...] = ()) -> None:
        self._hooks = hooks
        self._failed: set[tuple[int, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def with_hook(self, hook: Hook) -> Hooks:
        """Return these hooks and one more."""
        return Hooks((*self._hooks, hook))

    async def emit(self, event: Event) -> None:
        """Call every hook with the record; log what fails."""
        for hook in self._hooks:
            try:
                result = hook(event)
                if inspect.isawaitable(result):
                    with anyio.move_on_after(HOOK_TIMEOUT) as scope:
                        await result
                    if scope.cancelled_caught:
                        self._log(hook, event, f"it took longer than {HOOK_TIMEOUT:g} s and was cancelled", None)
            except Exception as error:  # noqa: BLE001  # a hook's bug must not change the result of the call
                self._log(hook, event, type(error).__name__, error)

    def _log(self, hook: Hook, event: Event, why: str, error: Exception | None) -> None:
        # The first failure of a kind at ERROR, the others at DEBUG.
        key = (id(hook), why)
        level = logging.DEBUG if key in self._failed else logging.ERROR
        self._failed.add(key)
        name = getattr(hook, "__qualname__", type(hook).__qualname__)
        _logger.log(
            level,
            "hook %s failed on a record %s: %s; the call is not affected",
            name,
            type(event).__name__,
            why,
            exc_info=error,
        )
