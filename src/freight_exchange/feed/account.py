"""Account that a feed belongs to; reading it is retried until the credentials are there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import READ_ERRORS, DeadlineExceededError, is_transient
from freight_exchange.hooks import Degraded, Recovered

if TYPE_CHECKING:
    from freight_exchange.feed.client_parts import ClientParts
    from freight_exchange.feed.core.planning.pacer import Pacer

__all__ = ["resolve_account"]

_logger = logging.getLogger("freight_exchange.feed")


async def resolve_account(client: ClientParts, feed: str, pacer: Pacer) -> str:
    """Return the email of the feed's account. While the credentials cannot be read, retry with backoff."""
    began, failures = anyio.current_time(), 0
    while True:
        try:
            account = await _within_timeout(client)
        except READ_ERRORS as error:
            if not is_transient(error):
                raise
            if not failures:
                _logger.warning("the feed %r has no credentials for %s: %s; retrying", feed, client.base_url, error)
                await client.hooks.emit(Degraded(feed=feed, error=error))
            await anyio.sleep(pacer.backoff(failures))
            failures += 1
        else:
            if failures:
                await client.hooks.emit(Recovered(feed=feed, after=anyio.current_time() - began))
            return account.strip().casefold()


async def _within_timeout(client: ClientParts) -> str:
    with anyio.move_on_after(client.account_timeout):
        return await client.account()
    raise DeadlineExceededError(f"no credentials were given within {client.account_timeout:g} s")
