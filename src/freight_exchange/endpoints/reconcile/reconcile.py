"""Reconciliation: find out whether a write happened, by reading the listings.

Absence is proof only if complete readings agree on it over the settle time: the service may show a write late. No
write is ever sent from here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

import anyio

from freight_exchange.endpoints.reconcile import evidence
from freight_exchange.endpoints.reconcile.evidence import Extent, Gone, Look, Readers
from freight_exchange.errors import DecodeError, FeedProtocolError, LoginRejectedError, ValidationError
from freight_exchange.errors.transient import READ_ERRORS, retry_delay
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

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0
_SHARE_OF_SETTLE = 0.125
"""Pause between readings, as a share of the settle time: a long one needs few readings."""
_LEAST_PAUSE = 0.001
"""Seconds. A pause that rounds to zero would read without end under a clock that only moves while tasks sleep."""

_SETTLE_TIMES = 4
"""Settle times (plus a minute) for which readings may fail before the result is `StillUnknown`."""


def time_limit(settle: float) -> float:
    """Return the seconds after which a reconciliation gives up."""
    return _SETTLE_TIMES * settle + 60


async def reconcile(
    strict: Readers, lenient: Readers, write: Write, *, settle: timedelta, baseline: Sequence[object] | None
) -> Reconciliation:
    """Find out whether the write happened, within the settle time; no deadline of the client applies.

    Args:
        strict: Resources whose listings fail if a record cannot be read, because it may be the one wanted.
        lenient: Resources whose listings skip unreadable records, which suffices to prove presence.
        write: The write to look for.
        settle: Time that the service may take to show a write.
        baseline: Records from before the send.
    """
    if not isinstance(settle, timedelta) or settle < timedelta(0):
        raise ValidationError("settle must be a timedelta that is not negative", field="settle")
    if isinstance(write, RawWrite):
        return StillUnknown()
    look = evidence.look_for(write, lenient, baseline)
    # The others read the state of one record, and conclude nothing from what is not there.
    if isinstance(write, SubmitOffer | Publish | CreateRoute) or (isinstance(write, Respond) and not write.approved):
        look = _despite_gaps(evidence.look_for(write, strict, baseline), look)
    return await _settle(look, settle.total_seconds())


def _despite_gaps(strict: Look, lenient: Look) -> Look:
    """Make a look that concludes presence from a listing with unreadable records, but not absence."""

    async def look(extent: Extent) -> Reconciliation:
        try:
            return await strict(extent)
        except (DecodeError, FeedProtocolError) as error:
            _logger.info("a listing has unreadable records, and cannot prove absence: %s", error)
        found = await lenient(extent)
        return StillUnknown() if isinstance(found, NotApplied | Gone) else found

    return look


async def _settle(look: Look, settle: float) -> Reconciliation:
    """Look until the write is seen, or at least two complete looks over the settle time agree on another result.

    Any result but `Applied` must last: what the service shows may be older than the write. A complete look begins and
        ends
    the time over which the write is absent. Those in between are glances, which conclude nothing from absence.
    """
    deadline = anyio.current_time() + time_limit(settle)
    agreed: type[Reconciliation] | None = None
    until = 0.0
    doubt = StillUnknown()
    pause = _FIRST_PAUSE
    while True:
        began = anyio.current_time()
        wait = pause
        extent = Extent.UNTIL_DOUBT if agreed is None else Extent.COMPLETE if began >= until else Extent.GLANCE
        try:
            found: Reconciliation | None = None
            with anyio.CancelScope(deadline=deadline):
                found = await look(extent)
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
            is_news = agreed is not type(found) and not (extent is Extent.GLANCE and isinstance(found, NotApplied))
            if is_news:
                agreed, until = type(found), began + settle
            elif extent is Extent.COMPLETE:
                return Applied(found.record) if isinstance(found, Gone) else found
            wait = min(wait, until - anyio.current_time())
        wait = max(wait, _LEAST_PAUSE)
        if anyio.current_time() + wait > deadline:
            return doubt
        await anyio.sleep(wait)
        pause = min(2 * pause, max(_LONGEST_PAUSE, _SHARE_OF_SETTLE * settle))
