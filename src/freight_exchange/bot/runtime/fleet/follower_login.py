"""Login of a replica that follows: it logs in before its first claim, and a login rejected in a call ends its session.

A replica that scans logs in for its scans. One that follows would otherwise claim deliveries that it cannot process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import FreightExchangeError, LoginRejectedError, is_transient, retry_delay
from freight_exchange.hooks import CallInfo, Instrumentation
from freight_exchange.transport.replies import MAX_HONOURED

if TYPE_CHECKING:
    from freight_exchange.client import FreightExchange

__all__ = ["LoginRejectionMonitor", "log_in"]

_logger = logging.getLogger("freight_exchange.bot")

_FIRST_PAUSE: Final = 1.0
_MAX_PAUSE: Final = 30.0


async def log_in(exchange: FreightExchange) -> None:
    """Log in, and retry while the exchange cannot be reached.

    Raises:
        LoginRejectedError: The service rejected the email or password.
        FreightExchangeError: Retries do not help.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            await exchange.login()
        except FreightExchangeError as error:
            if not is_transient(error):
                raise
            delay = max(min(retry_delay(error) or 0.0, MAX_HONOURED), pause)
            _logger.warning(
                "this replica cannot log in at %s: %s; it claims no deliveries until it can; retrying in %.0f s",
                exchange._base_url,
                error,
                delay,
            )
            await anyio.sleep(delay)
            pause = min(2 * pause, _MAX_PAUSE)
        else:
            return


class LoginRejectionMonitor(Instrumentation):
    """Instrumentation that reports a rejected login.

    Args:
        on_rejection: Called when a call fails because the service rejects the login.
    """

    def __init__(self, on_rejection: Callable[[LoginRejectedError], None]) -> None:
        self._on_rejection = on_rejection

    @contextmanager
    def call(self, call: CallInfo) -> Iterator[None]:
        """Surround a call."""
        try:
            yield
        except LoginRejectedError as error:
            self._on_rejection(error)
            raise
