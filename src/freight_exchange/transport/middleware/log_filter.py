"""Log filter: masks secrets in the logs of the HTTP libraries.

The libraries log the headers of a reply at DEBUG, and its reason phrase at INFO. A reply may repeat secrets.
"""

from __future__ import annotations

import http
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING

from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.secrets import MASK

if TYPE_CHECKING:
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["LogFilter"]

_LIBRARIES = ("httpx", "httpx2")
_LOGGERS = (
    *_LIBRARIES,
    *(f"{core}.{part}" for core in ("httpcore", "httpcore2") for part in ("connection", "http11", "http2", "proxy")),
)
_PHRASES = frozenset(status.phrase for status in http.HTTPStatus)

_sending: ContextVar[tuple[Redactor, bool] | None] = ContextVar("sending", default=None)


class LogFilter:
    """Middleware that masks secrets in the log records of the HTTP libraries while they send a request."""

    __slots__ = ("_redactor",)

    def __init__(self, redactor: Redactor) -> None:
        """Filter all later log records of the libraries that belong to a request of this package."""
        self._redactor = redactor
        for name in _LOGGERS:
            # A filter that was added before is not added again.
            logging.getLogger(name).addFilter(_mask_record)

    async def __call__(self, request: Request, call_next: Next) -> Response:
        _sending.set((self._redactor, request.kind is RequestKind.LOGIN))
        try:
            return await call_next(request)
        finally:
            # Set to `None`, not reset by a token: a closed loop ends its tasks in another context, which refuses the
            # token.
            _sending.set(None)


def _mask_record(record: logging.LogRecord) -> bool:
    """Mask secrets in a record. Always return `True`: no record is dropped."""
    sending = _sending.get()
    if sending is None:
        return True
    redactor, login = sending
    if login:
        # The token in its reply is not known yet.
        if record.name in _LIBRARIES:
            _mask_phrase(record)
        else:
            event, _, facts = record.getMessage().partition(" ")
            if event.startswith("receive_") and facts:
                record.msg, record.args = f"{event} {MASK}", ()
    message = record.getMessage()
    if (masked := redactor.masked(message)) != message:
        record.msg, record.args = masked, ()
    return True


def _mask_phrase(record: logging.LogRecord) -> None:
    """Mask the reason phrase at the end of the library's line, unless it is a standard one."""
    if isinstance(record.args, tuple) and record.args and record.args[-1] not in _PHRASES:
        record.args = (*record.args[:-1], MASK)
