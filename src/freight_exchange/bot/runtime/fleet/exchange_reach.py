"""Reach of the exchange: a replica that cannot reach it, while others may, leaves deliveries to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import (
    AuthenticationError,
    DeadlineExceededError,
    FreightExchangeError,
    OutcomeUnknownError,
    TransportError,
)
from freight_exchange.hooks import CallInfo, Instrumentation

if TYPE_CHECKING:
    from freight_exchange.bot.runtime.fleet.membership import Membership
    from freight_exchange.client import FreightExchange

__all__ = ["ExchangeReach"]

_logger = logging.getLogger("freight_exchange.bot")

_MAX_FAILURES: Final = 3
"""Failed calls in a row, without a reply, after which the replica counts as cut off."""
_PROBE_INTERVAL: Final = 5.0
_PROBE_DEADLINE: Final = timedelta(seconds=10)
_WINDOW: Final = timedelta(seconds=1)


class ExchangeReach(Instrumentation):
    """Instrumentation that finds out whether calls reach the exchange.

    Attributes:
        is_paused: Whether this replica claims nothing, because it cannot reach the exchange and another replica may.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._error: FreightExchangeError | None = None
        self._cut_off = anyio.Event()
        self.is_paused = False

    @contextmanager
    def call(self, call: CallInfo) -> Iterator[None]:
        """Surround a call."""
        try:
            yield
        except FreightExchangeError as error:
            if _had_no_reply(error):
                self._failures, self._error = self._failures + 1, error
                if self._failures == _MAX_FAILURES:
                    self._cut_off.set()
            elif error.status is not None:
                self._failures = 0
            raise
        else:
            self._failures = 0

    async def run(self, exchange: FreightExchange, membership: Membership, wake: Callable[[], None]) -> None:
        """Pause claims while calls fail and another replica lives, until cancelled.

        Args:
            exchange: The client, with this instrumentation.
            membership: Seat of the bot in its store.
            wake: Called when claims may go on.
        """
        exchange = exchange.with_options(deadline=_PROBE_DEADLINE)
        while True:
            await self._cut_off.wait()
            self._cut_off = anyio.Event()
            while self._failures >= _MAX_FAILURES:
                self._pause(await membership.has_peer(), wake)
                if self.is_paused:
                    # Without claims this replica may make no other calls.
                    with suppress(FreightExchangeError):
                        await exchange.requests.search(since=_WINDOW, page_size=1)
                await anyio.sleep(_PROBE_INTERVAL if self._failures else 0)
            self._pause(False, wake)

    def _pause(self, is_paused: bool, wake: Callable[[], None]) -> None:
        was_paused, self.is_paused = self.is_paused, is_paused
        if is_paused and not was_paused:
            _logger.warning(
                "the last %d calls of this replica got no reply from the exchange: %s; it leaves deliveries to other"
                " replicas until a call succeeds",
                _MAX_FAILURES,
                self._error,
            )
        elif was_paused and not is_paused:
            _logger.info(
                "this replica claims deliveries again: a call had a reply, or no other replica of its version lives"
            )
            wake()


def _had_no_reply(error: FreightExchangeError) -> bool:
    """Return whether a call got no reply, or waits because a login was refused.

    A call that only waited in a queue of this process until its deadline shows nothing.
    """
    match error:
        case TransportError():
            return True
        case AuthenticationError():
            return error.retry_after is not None
        case DeadlineExceededError():
            return error.attempts > 0 or error.login_pending
        case _:
            return isinstance(error, OutcomeUnknownError) and error.status is None
