"""Waits of a feed: before the repetition of a page, and between scans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from freight_exchange.errors import READ_ERRORS, LoginRejectedError, request_count, retry_delay
from freight_exchange.feed.paging_legacy.page_sizes import SIZE_REFUSALS

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.feed.core.planning.scanner import Scanner
    from freight_exchange.wire import Rows

__all__ = ["quiet_for", "read_page", "wait_to_continue", "wait_until_due"]

T = TypeVar("T")

_MIN_SLEEP: Final = 0.001


async def read_page(pacer: Pacer, scanner: Scanner[T], fetch: Callable[[], Awaitable[Rows[T]]]) -> Rows[T] | None:
    """Fetch the page that the scanner waits for; return `None` if the scan continues without it, after an error."""
    try:
        page = await fetch()
    except LoginRejectedError:
        raise
    except READ_ERRORS as error:
        if not await wait_to_continue(pacer, scanner, error):
            raise
        return None
    pacer.record_reply()
    return page


async def wait_to_continue(pacer: Pacer, scanner: Scanner[T], error: FreightExchangeError) -> bool:
    """Wait until the scan may continue after an error in place of a page; return whether it continues."""
    number = scanner.number
    if pacer.failures and not number and error.status in SIZE_REFUSALS:
        # A refusal during failures counts as one of them. The next scan asks for a smaller page.
        pacer.repeat_delay(sent=request_count(error), retry_after=retry_delay(error))
        return False
    outcome = scanner.fail(error)
    if outcome == "continue" and number:
        # There is no such page: the error is the answer, not a failure.
        pacer.record_reply()
        return True
    pause = pacer.repeat_delay(sent=request_count(error), retry_after=retry_delay(error))
    if outcome == "repeat" and pause is not None:
        await anyio.sleep(pause)
        return True
    return outcome == "continue"


def quiet_for(pacer: Pacer) -> float:
    """Return the seconds until the next request may be sent; more than 0 only after a failure."""
    return max(0.0, pacer.quiet_until - anyio.current_time())


async def wait_until_due(pacer: Pacer) -> None:
    """Wait until a scan is due and may be sent."""
    # Some timers fire a little early. A scan that began before it is due would be followed by another one at once.
    while (left := max(pacer.due, pacer.quiet_until) - anyio.current_time()) > 0:  # noqa: ASYNC110 - time passes without an event
        await anyio.sleep(max(left, _MIN_SLEEP))
