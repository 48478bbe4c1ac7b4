"""As many requests under way as there are connections, and each in a task that no caller can interrupt."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import ConfigurationError, FreightExchangeError, TransportError
from freight_exchange.hooks import Attempt
from freight_exchange.transport import wire_log
from freight_exchange.transport.message import Kind
from freight_exchange.transport.tasks import EndedError

if TYPE_CHECKING:
    from freight_exchange.hooks import Hooks
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.redaction import Redactor
    from freight_exchange.transport.tasks import Jobs

__all__ = ["Limiter"]

_LAST_WORDS = 1.0
"""Seconds that the hooks are given for the record of a write that was cut off."""

_logger = logging.getLogger("freight_exchange.transport")


class Limiter:
    """Waits for a free place, sends in a job of the client, and frees the place when the sending has ended.

    The HTTP library's pool loses a connection for good when a caller that waits for one is cancelled. Here nobody
    waits inside the pool, and the caller leaves at once while the job ends in its own time.
    """

    def __init__(self, jobs: Jobs, hooks: Hooks, redactor: Redactor, *, reads: int, writes: int | None) -> None:
        """`writes` is `None` where both kinds share one pool."""
        wire_log.watch()
        self._jobs = jobs
        self._hooks = hooks
        self._redactor = redactor
        self._reads = anyio.Semaphore(reads, fast_acquire=True)
        self._writes = self._reads if writes is None else anyio.Semaphore(writes, fast_acquire=True)

    async def __call__(self, request: Request, call_next: Next) -> Response:
        places = self._writes if request.kind is Kind.WRITE else self._reads
        await places.acquire()
        place = _Place(places)
        try:
            job = self._jobs.start(lambda: self._send(request, call_next, place), place.free)
        except ConfigurationError:
            place.free()
            raise
        try:
            return await job.wait()
        except EndedError:
            closed = TransportError(
                "the client was closed while the call was under way",
                permanent=True,
                unsent=not request.progress.may_have_begun,
            )
        finally:
            if not job.finished:
                request.progress.abandon()
                # A write that has begun is not cut off: that would turn one that happens into one that may.
                whole = request.kind is Kind.WRITE and request.progress.may_have_begun
                job.end(request.ends_at if whole else None)
        raise closed

    async def _send(self, request: Request, call_next: Next, place: _Place) -> Response:
        started = anyio.current_time()
        wire_log.begin(request, self._redactor)
        try:
            try:
                response = await call_next(request)
            finally:
                wire_log.end()
        except FreightExchangeError as error:
            place.free()
            await self._tell(request, started, error.attempts, error.status, error)
            raise
        except anyio.get_cancelled_exc_class():
            place.free()
            if request.kind is Kind.WRITE and request.progress.may_have_begun:
                # Cut off by its deadline or by closing: what is known of it must not be lost with it.
                with anyio.move_on_after(_LAST_WORDS, shield=True):
                    await self._tell(request, started, request.progress.sends, None, None)
            raise
        place.free()
        await self._tell(request, started, response.attempt, response.status, None)
        return response

    async def _tell(
        self,
        request: Request,
        started: float,
        number: int,
        status: int | None,
        error: FreightExchangeError | None,
    ) -> None:
        abandoned = request.progress.abandoned
        if not (self._hooks or abandoned or _logger.isEnabledFor(logging.DEBUG)):
            return
        attempt = Attempt(
            method=request.method,
            path=request.path,
            number=number,
            status=status,
            elapsed=anyio.current_time() - started,
            error=error,
            abandoned=abandoned,
            may_have_taken_effect=request.kind is Kind.WRITE and request.progress.may_have_begun,
        )
        if abandoned and attempt.may_have_taken_effect:
            _logger.warning("a write that nobody waits for any more ended: %s", attempt)
        else:
            _logger.debug("%s", attempt)
        await self._hooks.emit(attempt)


class _Place:
    """A place among the requests under way, freed once: at the end of the sending, or of a job that never began."""

    __slots__ = ("_free", "_places")

    def __init__(self, places: anyio.Semaphore) -> None:
        self._places = places
        self._free = False

    def free(self) -> None:
        if not self._free:
            self._free = True
            self._places.release()
