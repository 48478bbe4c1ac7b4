"""Resolver of answers in doubt: look at the request until the service shows the result, or a person decides."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.bot.answers.record import RESOLVED, AnswerRecord
from freight_exchange.bot.answers.repository import redeliver_answer
from freight_exchange.bot.offers.record import UNSETTLED
from freight_exchange.bot.offers.repository import ChangedElsewhereError
from freight_exchange.bot.writes.late_writes import LateWrites
from freight_exchange.errors import READ_ERRORS, LoginRejectedError, OfferInDoubtError
from freight_exchange.models import Applied, Listing, NotApplied, Reconciliation, StillUnknown

if TYPE_CHECKING:
    from freight_exchange.bot.answers.repository import AnswerRepository
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange

__all__ = ["AnswerResolver", "answer_in_doubt_error", "log_fields"]

_logger = logging.getLogger("freight_exchange.bot")

_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0
_RETRY_PAUSE: Final = 2.0
_CHECK_FACTOR: Final = 4
_MAX_SETTLE: Final = timedelta(hours=1)
"""Limit of the settle time. Each resend has four times that of the one before: the service may take longer than
`settle` to show an answer, and then absence proves nothing."""


class AnswerResolver:
    """Resolver of answers in doubt.

    Args:
        exchange: The client.
        unit_of_work: The store.
        repository: Stores the results.
        metrics: Counts results.
        settle: Time that the service may take to show an answer.

    Attributes:
        wake: Called when a delivery may have become ready again.
    """

    wake: Callable[[], None]

    def __init__(
        self,
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        repository: AnswerRepository,
        metrics: Metrics,
        *,
        settle: timedelta,
    ) -> None:
        self._exchange = exchange
        self._unit_of_work = unit_of_work
        self._repository = repository
        self._metrics = metrics
        self._settle = settle
        self._late_writes = LateWrites()
        self.wake = _ignore

    async def settled(self, key: str) -> AnswerRecord | None:
        """Return the answer with this key, or `None`.

        Raises:
            OfferInDoubtError: The answer is in doubt, here or at another replica.
        """
        record = await self._repository.find(key)
        if record is not None and record.state in UNSETTLED:
            raise answer_in_doubt_error(record)
        return record

    def retry_pause(self, request: int | None) -> float | None:
        """Return the seconds before a delivery may retry; `None` without a doubt on its request."""
        found = [record for record in self._repository.doubts() if record.request == request]
        if not found:
            return None
        return _MAX_PAUSE if all(record.parked for record in found) else _RETRY_PAUSE

    async def resolve(self, record: AnswerRecord, wait: float = 0.0) -> None:
        """Check an answer until its result is known or decided elsewhere. It may still arrive for `wait` seconds."""
        await self._late_writes.wait(record, wait)
        pause = _FIRST_PAUSE
        while self._repository.is_current(record):
            try:
                record = await self._look(record)
            except LoginRejectedError:
                raise
            except ChangedElsewhereError as error:
                _logger.warning("%s is no longer checked: %s", record, error, extra=log_fields(record))
                return
            except READ_ERRORS as error:
                _logger.warning("%s cannot be checked yet: %s; retrying", record, error, extra=log_fields(record))
            if self._repository.is_current(record):
                await anyio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)

    def check_arrived(self, record: AnswerRecord) -> None:
        """Raise `ValidationError` if an answer may still arrive."""
        self._late_writes.check(record)

    async def _look(self, record: AnswerRecord) -> AnswerRecord:
        settle = min(self._settle * _CHECK_FACTOR**record.resends, _MAX_SETTLE)
        result = await self._exchange.reconcile(record.write, settle=settle)
        if not self._repository.is_current(record):
            # A person has decided meanwhile. This result says nothing about a newer doubt that has begun since.
            return record
        listing = _decided_listing(record, result)
        if listing is not None:
            record = await self._repository.advance(record, "confirmed", step="resolved", listing=listing, **RESOLVED)
            self._metrics.answers["confirmed"] += 1
            why = "it was carried out" if isinstance(result, Applied) else "another offer is approved, so it is over"
            _logger.warning("%s is no longer in doubt: %s", record, why, extra=log_fields(record))
            self.wake()
            return record
        if isinstance(result, StillUnknown):
            return await self._keep(record)
        # Absent, or another offer was selected, which the next call finds.
        return await self._return_to_handler(record, is_absent=isinstance(result, NotApplied))

    async def _keep(self, record: AnswerRecord) -> AnswerRecord:
        was_parked = record.parked
        record = await self._repository.advance(record, "unknown", step="resolved", checks=record.checks + 1)
        if record.parked and not was_parked:
            _logger.critical(
                "%s stays in doubt: look at the service's own pages, and resolve it by hand; nothing more is sent about"
                " it before",
                record,
                extra=log_fields(record),
            )
        return record

    async def _return_to_handler(self, record: AnswerRecord, *, is_absent: bool) -> AnswerRecord:
        resends = record.resends + is_absent
        record = await self._repository.advance(record, "intent", step="resolved", resends=resends, **RESOLVED)
        self._metrics.answers["not taken"] += 1
        now = self._unit_of_work.time()
        is_sent_again = await self._unit_of_work.write("settle", lambda store: redeliver_answer(store, record, at=now))
        self.wake()
        log_absent(record, is_sent_again=is_sent_again)
        return record


def log_absent(record: AnswerRecord, *, is_sent_again: bool) -> None:
    """Log that an answer was not carried out, and what follows."""
    text = "%s is no longer in doubt: it was not carried out, and %s"
    if is_sent_again:
        _logger.warning(text, record, "its handler is called again", extra=log_fields(record))
    else:
        why = f"its handler {record.handler!r} has ended; give it by hand if you still want it"
        _logger.error(text, record, why, extra=log_fields(record))


def log_fields(record: AnswerRecord) -> dict[str, object]:
    """Return the fields of log records about an answer."""
    return {"request": record.request, "offer": record.offer}


def answer_in_doubt_error(record: AnswerRecord) -> OfferInDoubtError:
    """Make the error for the handler."""
    return OfferInDoubtError(
        f"{record} may or may not have been carried out: nothing more is sent about it before that is known",
        request=record.request,
    )


def _decided_listing(record: AnswerRecord, result: Reconciliation) -> Listing | None:
    """Return the listed request that decides an answer, or `None`.

    It shows the answer, or the approval of another offer. The latter decides a decline: the service may then list the
    approved offer alone, and refuses an approval of the declined one.
    """
    if isinstance(result, Applied) and isinstance(result.record, Listing):
        return result.record
    if record.approved or not isinstance(result, StillUnknown):
        return None
    found = (listing for listing in result.candidates if isinstance(listing, Listing))
    return next((listing for listing in found if _has_selected_another(listing, record.offer)), None)


def _has_selected_another(listing: Listing, offer: int) -> bool:
    return listing.selected is not None and listing.selected.id not in (None, offer)


def _ignore() -> None:
    """Wake nothing."""
