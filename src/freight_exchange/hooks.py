"""Records of events, which hooks receive for logging and metrics.

A hook is sync or async, and receives all records; it selects by `match` or `isinstance`. A hook never changes the
outcome of a call: its errors are logged, and an async hook that takes longer than five seconds is cancelled. No record
contains a secret. Durations are seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import attrs

from freight_exchange.base import NO_HEADERS, ReplyHeaders, Serializable
from freight_exchange.errors import DecodeError, FreightExchangeError
from freight_exchange.models import Write

__all__ = [
    "Attempt", "BrokenRecord", "Degraded", "Event", "Hook", "Login", "Recovered", "ReplyHeaders", "Retry", "Scan",
    "ScanProgress",
]  # fmt: skip


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Attempt(Serializable):
    """Attempt of a call: one request handed to the network, and its end.

    Attributes:
        path: Relative to the API root.
        number: Number of the attempt within its call, from 1; 0 if it could not be sent.
        error: The reason why there is no reply.
        abandoned: Whether the caller had left before the end, by a cancellation or its deadline.
        may_have_taken_effect: Whether a write may have been carried out; always false for reads.
        write: The write as a value, for `exchange.reconcile(attempt.write)`; `None` for reads and logins.
        call_id: The id of its call, which all its attempts, retries, errors and log lines have.
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
class Retry(Serializable):
    """Failed attempt that is repeated after `delay` seconds."""

    method: str
    path: str
    number: int
    delay: float
    error: FreightExchangeError
    call_id: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Login(Serializable):
    """End of a login.

    Attributes:
        generation: The number of the new token, from 1; 0 if there is none.
        reason: `first`, `clock` (the token was about to expire) or `refused` (the service refused it).
        error: The reason why there is no token.
    """

    generation: int
    reason: Literal["first", "clock", "refused"]
    elapsed: float
    error: FreightExchangeError | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BrokenRecord(Serializable):
    """Unreadable part of a reply whose rest was read: a record, or a value of one, at the position `error.path`."""

    method: str
    path: str
    error: DecodeError


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ScanInfo(Serializable):
    """Scan that is about to begin, or to continue."""

    feed: str
    tier: str
    window: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Scan(ScanInfo):
    """End of a feed's scan.

    Attributes:
        tier: Its depth: `narrow`, `half an hour`, `six hours` or `five days`.
        window: Seconds that it looked back.
        events: Number of new events.
        complete: Whether it has seen all updates since the last complete scan.
        error: The reason why it ended early.
    """

    pages: int
    rows: int
    events: int
    complete: bool
    elapsed: float
    error: FreightExchangeError | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ScanProgress(ScanInfo):
    """Progress of a feed's scan, after a page that is not the last; its events are delivered meanwhile.

    Attributes:
        tier, window: As in `Scan`.
        first: Whether the scan belongs to the feed's first one, which takes minutes in a large market.
        requests: Number of different requests on its pages so far.
    """

    first: bool
    pages: int
    requests: int
    elapsed: float


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Degraded(Serializable):
    """Start of failures of a feed's scans. The feed retries; there is no other record until it has recovered.

    Attributes:
        retry_in: Seconds until the feed sends its next request: at least an interval, and at least `Retry-After`.
    """

    feed: str
    error: FreightExchangeError
    retry_in: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Recovered(Serializable):
    """Recovery of a feed: its scans succeed again, `after` seconds after the first failure; no event is lost."""

    feed: str
    after: float


Event = Attempt | Retry | Login | BrokenRecord | Scan | ScanProgress | Degraded | Recovered

Hook = Callable[[Event], Awaitable[None] | None]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallInfo(Serializable):
    """Call that is about to begin; its `Attempt` and `Retry` records have the same `call_id`."""

    base_url: str
    method: str
    path: str
    call_id: str
    write: Write | None


@attrs.define(kw_only=True, eq=False)
class HandlerRun:
    """Attempt of a bot's handler. `ending`, as in the metric of deliveries, and `error` are set at its end."""

    feed: str
    handler: str
    kind: str
    event: int
    request: int | None
    attempt: int
    ending: str | None = None
    error: Exception | None = None


Work = CallInfo | ScanInfo | HandlerRun
"""Work that an instrumentation surrounds."""
