"""Import of requests: each row of a file is published once, through interruptions and lost replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import anyio

from freight_exchange import Applied, BadRequestError, FreightExchange, FreightExchangeError, NotApplied
from freight_exchange.cli.import_journal import ImportJournal, State
from freight_exchange.cli.request_file import Row
from freight_exchange.errors import OutcomeUnknownError
from freight_exchange.models import Listing, Publish, RateRequest, Reconciliation

__all__ = ["SETTLE", "Report", "import_requests"]

SETTLE: Final = timedelta(seconds=30)
"""Time after which an absent request is proof that it was not taken."""

_POLL_INTERVAL: Final = 5.0

Report = Callable[[Row, str, RateRequest | Listing | None], None]
"""Takes what happened to a row, in words, and the record that shows its request."""


async def import_requests(
    exchange: FreightExchange, rows: Sequence[Row], journal: ImportJournal, report: Report, settle: timedelta = SETTLE
) -> Counter[State | None]:
    """Publish the rows that are not published yet; return the number of rows in each state.

    The journal has each step before it is taken. A row whose outcome is unknown is looked for among the own requests,
    and sent again only after proof that it is absent.

    Raises:
        ConfigurationError: The exchange has none of the requests that the journal has as published.
    """
    await _check_exchange(exchange, journal, settle)
    for row in rows:
        if journal.state(row.key) == "sending":
            report(row, "an earlier run may have published it: looking for it", None)
            found = await exchange.reconcile(Publish(row.draft), settle=settle, baseline=journal.baseline())
            _resolve(row, journal, report, found)
    if all(journal.state(row.key) != "sending" for row in rows):
        # While a row is in doubt, a request that looks like it must not pass for an older one.
        journal.write_own(await exchange.offers.list(sweep=True).collect())
    for row in rows:
        while journal.state(row.key) is None:
            await _publish(exchange, row, journal, report, settle)
    return Counter(journal.state(row.key) for row in rows)


async def _check_exchange(exchange: FreightExchange, journal: ImportJournal, settle: timedelta) -> None:
    """Check that the exchange still has the published requests, and was not reset."""
    published = journal.published()
    deadline = anyio.current_time() + settle.total_seconds()
    while published:
        own = await exchange.offers.list(sweep=True).collect()
        if published & {(listing.index, listing.commodity) for listing in own}:
            return
        # A request published a moment ago may not be listed yet.
        if anyio.current_time() >= deadline:
            raise journal.foreign_exchange_error()
        await anyio.sleep(_POLL_INTERVAL)


async def _publish(
    exchange: FreightExchange, row: Row, journal: ImportJournal, report: Report, settle: timedelta
) -> None:
    journal.write(row.key, "sending")
    try:
        published = await exchange.requests.publish(row.draft)
    except OutcomeUnknownError as error:
        report(row, f"it is not known whether it was published: {error}", None)
        found: Reconciliation = await error.reconcile(settle=settle, baseline=journal.baseline())
        _resolve(row, journal, report, found)
    except BadRequestError as error:
        journal.write(row.key, "refused")
        report(row, f"refused: {error}", None)
    except FreightExchangeError:
        # No other error of a write leaves its outcome open: the next run sends it.
        journal.remove(row.key)
        raise
    else:
        journal.write(row.key, "published", published)
        report(row, "published", published)


def _resolve(row: Row, journal: ImportJournal, report: Report, found: Reconciliation) -> None:
    match found:
        case Applied(RateRequest() | Listing() as record):
            journal.write(row.key, "published", record)
            report(row, "published", record)
        case NotApplied():
            journal.remove(row.key)
            report(row, "it was not published", None)
        case _:
            report(row, "still in doubt: the next run looks again before anything of this row is sent", None)
