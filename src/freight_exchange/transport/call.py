"""Call of the service: a request made from options and sent through the chain."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import anyio
import attrs

from freight_exchange.instrumentation import NO_INSTRUMENTS, CallInfo, Instruments
from freight_exchange.transport.message import CallContext, Request, RequestKind, SendProgress

if TYPE_CHECKING:
    from freight_exchange.errors.outcome import Reconciler
    from freight_exchange.models.writes import Write
    from freight_exchange.options import RetryPolicy, Timeouts
    from freight_exchange.platform.clock import SendLimit
    from freight_exchange.transport.message import Next, Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["CallExecutor", "Limits", "RequestMeter", "new_call_id"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def new_call_id() -> str:
    """Return an id for one call: 16 hexadecimal digits, unique among processes."""
    return os.urandom(8).hex()


class Read(Protocol[T_co]):
    """Function that turns a successful reply into a result, or raises `DecodeError`."""

    def __call__(self, response: Response, /) -> T_co: ...


@attrs.define
class RequestMeter:
    """Count of the requests that calls sent, logins before replays included.

    Attributes:
        sent: Total number of requests.
    """

    sent: int = 0
    _extra: int = 0

    def record(self, progress: SendProgress) -> None:
        """Count the requests of a call that has ended."""
        self.sent += progress.sends + progress.replays
        self._extra += max(0, progress.sends - 1) + progress.replays

    def take_extra(self) -> int:
        """Return how many requests calls needed in addition to their first one, since the last call of this method."""
        extra, self._extra = self._extra, 0
        return extra


@attrs.frozen(kw_only=True)
class Limits:
    """Limits of time and retries for the calls of one view of a client, and the instruments around them."""

    deadline: float
    timeouts: Timeouts
    retries: RetryPolicy
    instruments: Instruments = NO_INSTRUMENTS
    meter: RequestMeter | None = None
    send_limit: SendLimit | None = None


@attrs.frozen(eq=False)
class CallExecutor:
    """Entry to a chain of middleware.

    Every error of this package that it raises is settled: it states whether the call may have taken effect, has the
    circumstances of the call, and must not be retried by callers.
    """

    send: Next
    redactor: Redactor
    base_url: str = ""

    async def call(
        self,
        kind: RequestKind,
        method: str,
        path: str,
        read: Read[T],
        limits: Limits,
        *,
        content: bytes | None = None,
        params: tuple[tuple[str, str], ...] = (),
        write: Write | None = None,
        exchange: Reconciler | None = None,
        started: float | None = None,
        call_id: str | None = None,
    ) -> T:
        """Send a request until it succeeds, its retries are used up or its deadline has passed.

        `started` is the time from which the deadline counts, for calls that look something up first. `call_id` is an id
        chosen by the caller.
        """
        started = anyio.current_time() if started is None else started
        request = Request(
            method=method,
            path=path,
            kind=kind,
            timeouts=limits.timeouts,
            content=content,
            params=params,
            call_id=call_id or new_call_id(),
            write=write,
            replayable=kind is not RequestKind.WRITE or limits.retries.trust_refusals,
            deadline=limits.deadline,
            ends_at=started + limits.deadline,
            progress=SendProgress(limits.send_limit),
            context=CallContext(read=read, retries=limits.retries, started=started, reconciler=exchange),
        )
        # The body of a login contains the password, which a traceback with locals would show.
        del content
        try:
            if limits.instruments:
                with limits.instruments.call(self._describe(request)):
                    response = await self.send(request)
            else:
                response = await self.send(request)
        finally:
            if limits.meter is not None:
                limits.meter.record(request.progress)
        return cast("T", response.result)

    def _describe(self, request: Request) -> CallInfo:
        return CallInfo(
            base_url=self.base_url,
            method=request.method,
            path=request.path,
            call_id=request.call_id,
            write=request.write,
        )
