"""Reconciliation: find out whether a write happened, by reading the listings.

Absence is proven only if complete readings agree on it over the settle time, since the service may show a write late.
This module never sends a write.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

import anyio

from freight_exchange.endpoints.reconcile.evidence import (
    EvidenceSearch,
    Gone,
    Readers,
    SearchExtent,
    evidence_search_for,
)
from freight_exchange.errors import (
    READ_ERRORS,
    DecodeError,
    FeedProtocolError,
    LoginRejectedError,
    ValidationError,
    retry_delay,
)
from freight_exchange.models import (
    Applied,
    CreateRoute,
    NotApplied,
    Publish,
    RawWrite,
    Reconciliation,
    Respond,
    StillUnknown,
    SubmitOffer,
    Write,
)

__all__ = ["Readers", "reconcile", "time_limit"]

_logger = logging.getLogger("freight_exchange.reconcile")

_FIRST_PAUSE, _MAX_PAUSE = 0.5, 8.0
_SHARE_OF_SETTLE = 0.125
"""Pause between readings, as a share of the settle time, so that a long settle time needs few readings."""
_MIN_PAUSE = 0.001
"""Shortest pause in seconds. Without a pause, a clock that moves only while tasks sleep would never move."""

_SETTLE_TIMES = 4
"""Time limit of a reconciliation whose readings fail, as a multiple of the settle time; a minute is added."""


def time_limit(settle: float) -> float:
    """Return the seconds after which a reconciliation gives up."""
    return _SETTLE_TIMES * settle + 60


async def reconcile(
    strict: Readers, lenient: Readers, write: Write, *, settle: timedelta, baseline: Sequence[object] | None
) -> Reconciliation:
    """Find out whether the write happened. It takes about the settle time; no deadline of the client applies.

    Args:
        strict: Resources whose listings fail if a record cannot be read, because that may be the record of the write.
        lenient: Resources whose listings skip unreadable records, which is enough to prove presence.
        write: The write to look for.
        settle: Time that the service may take to show a write.
        baseline: Records that were listed before the write was sent.
    """
    if not isinstance(settle, timedelta) or settle < timedelta(0):
        raise ValidationError("settle must be a timedelta that is not negative", field="settle")
    if isinstance(write, RawWrite):
        return StillUnknown()
    search = evidence_search_for(write, lenient, baseline)
    # The other writes are found by the state of one record, without a conclusion from absence.
    if isinstance(write, SubmitOffer | Publish | CreateRoute) or (isinstance(write, Respond) and not write.approved):
        search = _despite_gaps(evidence_search_for(write, strict, baseline), search)
    return await _settle(search, settle.total_seconds())


def _despite_gaps(strict: EvidenceSearch, lenient: EvidenceSearch) -> EvidenceSearch:
    """Make a search that can prove presence, but not absence, if a listing has unreadable records."""

    async def search(extent: SearchExtent) -> Reconciliation:
        try:
            return await strict(extent)
        except (DecodeError, FeedProtocolError) as error:
            _logger.info("a listing has unreadable records, and cannot prove absence: %s", error)
        found = await lenient(extent)
        return StillUnknown() if isinstance(found, NotApplied | Gone) else found

    return search


async def _settle(search: EvidenceSearch, settle: float) -> Reconciliation:
    """Search until the write is found, or until complete searches at the start and the end of the settle time agree.

    A result other than `Applied` must last for the settle time, since the service may still show the time before the
    write. Searches between the two complete ones make a single pass, from which absence does not follow.
    """
    deadline = anyio.current_time() + time_limit(settle)
    agreed: type[Reconciliation] | None = None
    until = 0.0
    doubt = StillUnknown()
    pause = _FIRST_PAUSE
    while True:
        began = anyio.current_time()
        wait = pause
        if agreed is None:
            extent = SearchExtent.UNTIL_DOUBT
        else:
            extent = SearchExtent.COMPLETE if began >= until else SearchExtent.SINGLE_PASS
        try:
            found: Reconciliation | None = None
            with anyio.CancelScope(deadline=deadline):
                found = await search(extent)
            if found is None:
                return doubt
        except READ_ERRORS as error:
            if isinstance(error, LoginRejectedError):
                raise
            _logger.info("a reading failed: %s; the settle time starts again", error)
            agreed = None
            wait = max(wait, retry_delay(error) or 0.0)
        else:
            if isinstance(found, Applied) and not isinstance(found, Gone):
                return found
            if isinstance(found, StillUnknown):
                doubt = found
            is_unproven = extent is SearchExtent.SINGLE_PASS and isinstance(found, NotApplied)
            if agreed is not type(found) and not is_unproven:
                agreed, until = type(found), began + settle
            elif extent is SearchExtent.COMPLETE:
                return Applied(found.record) if isinstance(found, Gone) else found
            wait = min(wait, until - anyio.current_time())
        wait = max(wait, _MIN_PAUSE)
        if anyio.current_time() + wait > deadline:
            return doubt
        await anyio.sleep(wait)
        pause = min(2 * pause, max(_MAX_PAUSE, _SHARE_OF_SETTLE * settle))
