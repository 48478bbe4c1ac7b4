"""Publication of rows, each once, despite interruptions and lost replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, TypeAlias

import anyio

from freight_exchange.bulk.journal import Journal, State
from freight_exchange.bulk.request_file import Row
from freight_exchange.client import FreightExchange
from freight_exchange.errors import DEFAULT_SETTLE, BadRequestError, FreightExchangeError, OutcomeUnknownError
from freight_exchange.models import Applied, Listing, NotApplied, Publish, RateRequest, Reconciliation

__all__ = ["OnRow", "publish"]

_POLL_INTERVAL: Final = 5.0

OnRow: TypeAlias = Callable[[Row, str, RateRequest | Listing | None], None]
"""Callback for each step of a row: its text, and the record that shows the request."""


def _ignore(row: Row, event: str, record: RateRequest | Listing | None) -> None: ...


async def publish(
    exchange: FreightExchange,
    rows: Sequence[Row],
    journal: Journal,
    *,
    on_row: OnRow = _ignore,
    settle: timedelta = DEFAULT_SETTLE,
) -> Counter[State]:
    """Publish the rows that are not published yet; return the number of rows in each state.

    The journal records each step before it is taken. If the outcome of a row is unknown, its request is searched among
    the account's requests, and sent again only after proof of its absence. An equal request that another program
    publishes for the same account at the same moment cannot be distinguished.

    Args:
        exchange: The client of a shipper.
        rows: The rows of a file.
        journal: The journal of that file.
        on_row: Called with each step of a row.
        settle: Time that the service may take to list a request. Absence is proven only after it.

    Raises:
        ConfigurationError: The exchange has none of the requests that are published by the journal.
        FreightExchangeError: A call failed. The row was not published, and the next run sends it.
    """
    await _check_exchange(exchange, journal, settle)
    for row in rows:
        if journal.state(row) == "sending":
            on_row(row, "an earlier run may have published it: looking for it", None)
            found = await exchange.reconcile(Publish(row.draft), settle=settle, baseline=journal.baseline())
            _resolve(row, journal, on_row, found)
    if all(journal.state(row) != "sending" for row in rows):
        # Not while a row is in doubt: its request must not count as one from before.
        journal.write_own(await exchange.offers.list(sweep=True).collect())
    for row in rows:
        while journal.state(row) is None:
            await _publish(exchange, row, journal, on_row, settle)
    return Counter(state for row in rows if (state := journal.state(row)) is not None)


async def _check_exchange(exchange: FreightExchange, journal: Journal, settle: timedelta) -> None:
    """Check that the exchange still has the published requests, and was not reset."""
    published = journal.published()
    deadline = anyio.current_time() + settle.total_seconds()
    while published:
        own = await exchange.offers.list(sweep=True).collect()
        if published & {(listing.index, listing.commodity) for listing in own}:
            return
        # A request that was just published may not be listed yet.
        if anyio.current_time() >= deadline:
            raise journal.foreign_exchange_error()
        await anyio.sleep(_POLL_INTERVAL)


async def _publish(exchange: FreightExchange, row: Row, journal: Journal, on_row: OnRow, settle: timedelta) -> None:
    journal.write(row, "sending")
    try:
        published = await exchange.requests.publish(row.draft)
    except OutcomeUnknownError as error:
        on_row(row, f"it is not known whether it was published: {error}", None)
        found: Reconciliation = await error.reconcile(settle=settle, baseline=journal.baseline())
        _resolve(row, journal, on_row, found)
    except BadRequestError as error:
        journal.write(row, "refused")
        on_row(row, f"refused: {error}", None)
    except FreightExchangeError:
        # After any other error of a write it was not carried out, so the next run sends it.
        journal.remove(row)
        raise
    else:
        journal.write(row, "published", published)
        on_row(row, "published", published)


def _resolve(row: Row, journal: Journal, on_row: OnRow, found: Reconciliation) -> None:
    match found:
        case Applied(RateRequest() | Listing() as record):
            journal.write(row, "published", record)
            on_row(row, "published", record)
        case NotApplied():
            journal.remove(row)
            on_row(row, "it was not published", None)
        case _:
            on_row(row, "still in doubt: the next run looks again before anything of this row is sent", None)
