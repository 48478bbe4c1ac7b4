"""Ledger of answers: record an approval before it is sent, so that no request gets two.

    intent -> sending -> confirmed | rejected | unknown

Each step is durable before the next one begins. `sending` belongs to the replica that sends; after its end, to the one
that adopts it, which waits until nothing can arrive any more. A doubt is resolved by reading, under the lock of its
request, before anything else is sent there.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs

from freight_exchange.bot.answers.checks import already_approved_error, check_against
from freight_exchange.bot.answers.record import AnswerRecord, AnswerState, answer_key, is_answer
from freight_exchange.bot.offers.record import UNSETTLED
from freight_exchange.bot.offers.repository import ChangedElsewhereError
from freight_exchange.bot.write_outcome import outcome_of
from freight_exchange.errors import (
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    OfferChangedError,
    OfferInDoubtError,
    OfferRejectedError,
)
from freight_exchange.errors.transient import READ_ERRORS
from freight_exchange.models import Applied, Listing, NotApplied, Offer, StillUnknown
from freight_exchange.platform import clock
from freight_exchange.platform.clock import SendLimit
from freight_exchange.store.work import SEND_WINDOW

if TYPE_CHECKING:
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.platform.tasks import TaskStarter
    from freight_exchange.store.seat import Adoption
    from freight_exchange.store.work import Effect

__all__ = ["AnswerLedger"]

_logger = logging.getLogger("freight_exchange.bot")

_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0
_CHECKS_BEFORE_ALARM: Final = 3
_PATIENCE_FACTOR: Final = 4
_LONGEST_SETTLE: Final = timedelta(hours=1)
"""If the service shows answers later than `settle`, absence is no proof: each resend is checked four times as long."""


class AnswerLedger:
    """Answers of a bot to offers.

    Args:
        exchange: The client.
        unit_of_work: The store.
        tasks: Runs the checks of doubts.
        settle: Time that the service may take to show an answer.
    """

    def __init__(
        self, exchange: FreightExchange, unit_of_work: UnitOfWork, tasks: TaskStarter, *, settle: timedelta
    ) -> None:
        self._exchange = exchange
        self._unit_of_work = unit_of_work
        self._tasks = tasks
        self._settle = settle
        self._locks: dict[int, anyio.Lock] = {}
        self._arriving: set[str] = set()
        """Keys of adopted answers that may still arrive at the service: absence is no proof yet."""

    async def adopt(self, adoption: Adoption) -> None:
        """Resolve the answers that processes left in doubt at their end."""
        for record in map(AnswerRecord.from_effect, filter(is_answer, adoption.effects)):
            _logger.warning("%s may have been sent before the last run ended; checking", record, extra=_fields(record))
            if record.state == "sending":
                record = await self._advance(record, "unknown")
            self._arriving.add(record.key)
            self._tasks.start_soon(self._resolve_adopted, record, adoption.wait)

    async def answer(self, draft: AnswerRecord, *, seen: Offer | None, check: Callable[[], None]) -> Listing | None:
        """Give an answer, or return the result if it was given before.

        Args:
            draft: The answer.
            seen: The offer as the handler saw it; `None` if it gave the identifier only.
            check: Called before the answer is recorded and before it is sent; raises if it may not be given.

        Raises:
            AlreadyApprovedError, OfferChangedError, OfferInDoubtError, OfferRejectedError: It is not sent, or not
                known to be.
            FreightExchangeError: It was not sent.
        """
        try:
            return await self._answer(draft, seen, check)
        except ChangedElsewhereError as error:
            # Another replica answers at the same time.
            raise _in_doubt_error(draft) from error

    async def _answer(self, draft: AnswerRecord, seen: Offer | None, check: Callable[[], None]) -> Listing | None:
        async with self._lock(draft.request):
            approval = await self._settled(answer_key(draft.request))
            known = approval if draft.approved else await self._settled(draft.key)
            if approval is not None and approval.state == "confirmed":
                if draft.approved and approval.offer == draft.offer:
                    return approval.listing
                if draft.approved or approval.offer == draft.offer:
                    raise already_approved_error(draft, approval.offer)
            if known is not None and known.offer == draft.offer and known.state in ("confirmed", "rejected"):
                if known.state == "rejected":
                    raise _rejected_error(known)
                return known.listing
            try:
                listing = await self._exchange.offers.get(draft.request)
            except NotFoundError as error:
                raise OfferChangedError(
                    f"{draft} was not sent: the request is not listed any more", request=draft.request
                ) from error
            is_shown = check_against(listing, draft, seen)
            check()
            before = None if known is None else known.state
            resends = known.resends if known is not None and known.offer == draft.offer else 0
            record = attrs.evolve(draft, resends=resends)
            if is_shown:
                record = attrs.evolve(record, state="confirmed", listing=listing)
                await self._put("confirmed", record, expected_state=before)
                return listing
            await self._put("intent", record, expected_state=before)
            # The write may have taken long. An intent that is left here was not sent, as after a crash.
            check()
            return await self._send(record)

    async def _send(self, record: AnswerRecord) -> Listing | None:
        # Before `sending` is recorded: a replica that takes this over waits from a later moment on.
        limit = SendLimit(clock.now(), SEND_WINDOW)
        record = await self._advance(record, "sending")
        self._unit_of_work.reach("before send")
        offers = self._exchange._limited(send_limit=limit).offers
        try:
            listing = await (offers.approve(record.offer) if record.approved else offers.decline(record.offer))
        except FreightExchangeError as error:
            self._unit_of_work.reach("after send")
            outcome = outcome_of(error)
            if outcome == "unknown":
                await self._mark_in_doubt(record, str(error))
                raise _in_doubt_error(record) from error
            if outcome == "rejected":
                record = await self._advance(record, "rejected", refusal=error.message, status=error.status)
                raise _rejected_error(record) from error
            await self._advance(record, "intent", step="withdrawn")
            raise
        except BaseException as error:
            # Cancelled, or a bug: it may have been sent.
            with anyio.CancelScope(shield=True):
                await self._mark_in_doubt(record, type(error).__name__)
            raise
        self._unit_of_work.reach("after send")
        await self._advance(record, "confirmed", listing=listing)
        _logger.info("%s was carried out", record, extra=_fields(record))
        return listing

    # Doubts

    async def _settled(self, key: str) -> AnswerRecord | None:
        """Return the record of an answer, once it is not in doubt; the lock of its request is held."""
        record = await self._find(key)
        if record is None or record.state not in UNSETTLED:
            return record
        if record.state == "sending" or key in self._arriving:
            raise _in_doubt_error(record)
        return await self._look(record)

    async def _look(self, record: AnswerRecord) -> AnswerRecord:
        """Check whether the service shows an answer; raise `OfferInDoubtError` if that remains unknown."""
        settle = min(self._settle * _PATIENCE_FACTOR**record.resends, _LONGEST_SETTLE)
        result = await self._exchange.reconcile(record.write, settle=settle)
        match result:
            case Applied(record=Listing() as listing):
                record = await self._advance(record, "confirmed", step="resolved", listing=listing, checks=0)
                _logger.warning("%s is no longer in doubt: it was carried out", record, extra=_fields(record))
                return record
            case StillUnknown():
                checks = record.checks + 1
                record = await self._advance(record, "unknown", step="resolved", checks=checks)
                if checks == _CHECKS_BEFORE_ALARM:
                    _logger.critical(
                        "%s stays in doubt: check the service's own pages; nothing is sent on the request before the"
                        " service shows its result",
                        record,
                        extra=_fields(record),
                    )
                raise _in_doubt_error(record)
            case _:
                # Absent, or another offer was selected, which the next call finds.
                resends = record.resends + isinstance(result, NotApplied)
                record = await self._advance(record, "intent", step="resolved", checks=0, resends=resends)
                _logger.warning("%s is no longer in doubt: it was not carried out", record, extra=_fields(record))
                return record

    async def _resolve_adopted(self, record: AnswerRecord, wait: float) -> None:
        await anyio.sleep(wait)
        self._arriving.discard(record.key)
        await self._resolve_in_time(record)

    async def _resolve_in_time(self, record: AnswerRecord) -> None:
        """Resolve a doubt, though its handler may not be called again."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with self._lock(record.request):
                    await self._settled(record.key)
            except LoginRejectedError:
                raise
            except (OfferInDoubtError, ChangedElsewhereError, *READ_ERRORS):
                await anyio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
            else:
                return

    async def _mark_in_doubt(self, record: AnswerRecord, why: str) -> None:
        doubtful = await self._advance(record, "unknown")
        _logger.warning("%s may or may not have been carried out: %s; checking", record, why, extra=_fields(record))
        self._tasks.start_soon(self._resolve_in_time, doubtful)

    # Store

    async def _find(self, key: str) -> AnswerRecord | None:
        effect: Effect | None = await self._unit_of_work.read(lambda store: store.effect(key))
        return None if effect is None else AnswerRecord.from_effect(effect)

    async def _advance(
        self, record: AnswerRecord, state: AnswerState, *, step: str | None = None, **changes: Any
    ) -> AnswerRecord:
        changed: AnswerRecord = attrs.evolve(record, state=state, **changes)
        return await self._put(step or state, changed, expected_state=record.state)

    async def _put(self, step: str, record: AnswerRecord, *, expected_state: str | None) -> AnswerRecord:
        record = attrs.evolve(record, at=self._unit_of_work.time())
        effect = record.to_effect()
        if not await self._unit_of_work.write(
            step, lambda store: store.put_effect(effect, expected_state=expected_state)
        ):
            raise ChangedElsewhereError(
                f"{record} is not {expected_state or 'new'} any more: another process writes to this bot's store"
            )
        return record

    @asynccontextmanager
    async def _lock(self, request: int) -> AsyncIterator[None]:
        """Lock a request: one answer at a time."""
        lock = self._locks.setdefault(request, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._locks.pop(request, None)


def _fields(record: AnswerRecord) -> dict[str, object]:
    return {"request": record.request, "offer": record.offer}


def _in_doubt_error(record: AnswerRecord) -> OfferInDoubtError:
    return OfferInDoubtError(
        f"{record} may or may not have been carried out: nothing more is sent on the request before that is known",
        request=record.request,
    )


def _rejected_error(record: AnswerRecord) -> OfferRejectedError:
    error = OfferRejectedError(f"{record} was refused: {record.refusal}", status=record.status)
    error.request = record.request
    return error
