"""Account of a feed: requested until its source returns it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
import attrs

from freight_exchange.errors import DeadlineExceededError
from freight_exchange.errors.transient import READ_ERRORS, is_transient
from freight_exchange.hooks import Degraded, Recovered

if TYPE_CHECKING:
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.hooks import Hooks

__all__ = ["AccountSource"]

_logger = logging.getLogger("freight_exchange.feed")


@attrs.frozen
class AccountSource:
    """Source of the account's email, which may fail for a while.

    Attributes:
        account: Returns the email.
        timeout: Seconds that one answer may take.
        hooks: Receive its failures.
        feed: Name of the feed.
        base_url: Address of the service, for the log.
    """

    account: Callable[[], Awaitable[str]]
    timeout: float
    hooks: Hooks
    feed: str
    base_url: str

    async def resolve(self, pacer: Pacer) -> str:
        """Return the account; retry, at the pace of its backoff, while the source fails."""
        began, failures = anyio.current_time(), 0
        while True:
            try:
                account = await self._within_timeout()
            except READ_ERRORS as error:
                if not is_transient(error):
                    raise
                if not failures:
                    _logger.warning(
                        "the feed %r has no credentials for %s: %s; retrying", self.feed, self.base_url, error
                    )
                    await self.hooks.emit(Degraded(feed=self.feed, error=error))
                await anyio.sleep(pacer.backoff(failures))
                failures += 1
            else:
                if failures:
                    await self.hooks.emit(Recovered(feed=self.feed, after=anyio.current_time() - began))
                return account.strip().casefold()

    async def _within_timeout(self) -> str:
        with anyio.move_on_after(self.timeout):
            return await self.account()
        raise DeadlineExceededError(f"no credentials were given within {self.timeout:g} s")
