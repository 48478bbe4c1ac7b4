"""Ledger of answers: record an approval before it is sent, so that no request gets two.

    intent -> sending -> confirmed | rejected | unknown

Each step is durable before the next one begins. An answer in the state `sending` belongs to the replica that sends it.
If that replica ends, another one adopts the answer, and waits until it cannot arrive any more. A doubt is resolved by
reading before anything else is sent about the request.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
import attrs

from freight_exchange.bot.answers.checks import already_approved_error, check_against
from freight_exchange.bot.answers.in_doubt import AnswerResolver, answer_in_doubt_error, log_absent, log_fields
from freight_exchange.bot.answers.record import AnswerRecord, answer_key, answer_keys, is_answer, manual_answer
from freight_exchange.bot.answers.repository import AnswerRepository, redeliver_answer
from freight_exchange.bot.keyed_locks import KeyedLocks
from freight_exchange.bot.offers.repository import ChangedElsewhereError
from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.bot.writes.write_outcome import outcome_of
from freight_exchange.errors import (
    FreightExchangeError,
    NotFoundError,
    OfferChangedError,
    OfferRejectedError,
    StoreError,
)
from freight_exchange.models import Listing, Offer
from freight_exchange.platform import clock
from freight_exchange.platform.clock import SendLimit
from freight_exchange.store.work import SEND_WINDOW

if TYPE_CHECKING:
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.offers.initial_bid_check import RestoreState
    from freight_exchange.bot.tasks import TaskStarter
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.store.seat import Adoption

__all__ = ["AnswerLedger"]

_logger = logging.getLogger("freight_exchange.bot")


class AnswerLedger:
    """Answers of a bot to offers.

    Args:
        exchange: The client.
        unit_of_work: The store.
        tasks: Runs answers and the checks of doubts, which outlive a cancelled handler.
        metrics: Counts answers.
        settle: Time that the service may take to show an answer.
    """

    def __init__(
        self,
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        tasks: TaskStarter,
        metrics: Metrics,
        *,
        settle: timedelta,
    ) -> None:
        self._exchange = exchange
        self._unit_of_work = unit_of_work
        self._tasks = tasks
        self._metrics = metrics
        self._settle = settle
        self._certain_at = -math.inf
        self._repository = AnswerRepository(unit_of_work)
        # One answer at a time on a request.
        self._locks = KeyedLocks()
        self.resolver = AnswerResolver(exchange, unit_of_work, self._repository, metrics, settle=settle)

    def doubts(self) -> Sequence[AnswerRecord]:
        """Return the answers in doubt, the oldest first."""
        return self._repository.doubts()

    async def start(self, adoption: Adoption, restore_state: RestoreState) -> None:
        """Resolve the answers that earlier runs left in doubt.

        If the store may have lost answers, no answer is given before the service has had time to show them.
        """
        if restore_state.is_restored:
            self._certain_at = anyio.current_time() + self._settle.total_seconds() + adoption.wait
        await self.adopt(adoption)

    async def adopt(self, adoption: Adoption) -> None:
        """Resolve the answers that ended processes left in doubt, once those cannot arrive any more."""
        for record in map(AnswerRecord.from_effect, filter(is_answer, adoption.effects)):
            _logger.warning(
                "%s may have been sent before the last run ended; checking", record, extra=log_fields(record)
            )
            if record.state == "sending":
                try:
                    record = await self._repository.advance(record, "unknown", unknown_since=record.at)
                except ChangedElsewhereError as error:
                    # Its replica still ran, and recorded the reply.
                    _logger.warning("%s is no longer checked: %s", record, error, extra=log_fields(record))
                    continue
            self._start_resolving(record, wait=adoption.wait)

    async def answer(self, draft: AnswerRecord, *, seen: Offer | None, check: Callable[[], None]) -> Listing | None:
        """Give an answer, or return the result if it was given before. Cancelling this does not stop a send.

        Args:
            draft: The answer.
            seen: The offer as the handler saw it; `None` if it gave the identifier only.
            check: Called before the answer is recorded and before it is sent; raises if it may not be given.

        Raises:
            AlreadyApprovedError, OfferChangedError, OfferInDoubtError, OfferRejectedError: It was not sent, or that is
                not known.
            RetryLater: The store was restored a short time ago.
            FreightExchangeError: It was not sent.
        """
        finished, errors, results = anyio.Event(), list[Exception](), list[Listing | None]()

        async def run() -> None:
            try:
                async with self._locks.hold(draft.request):
                    results.append(await self._answer(draft, seen, check))
            except ChangedElsewhereError as error:
                # Another replica answers on the request, or a person has decided: the next call finds the result.
                doubt = answer_in_doubt_error(draft)
                doubt.__cause__ = error
                errors.append(doubt)
            except Exception as error:
                errors.append(error)
                if isinstance(error, StoreError):
                    raise
            finally:
                finished.set()

        self._tasks.start_soon(run)
        await finished.wait()
        if errors:
            raise errors[0]
        if not results:
            raise answer_in_doubt_error(draft)
        return results[0]

    async def resolve(self, request: int, offer: int, *, taken: bool) -> None:
        """Resolve a doubt, or undo a refusal, by a person's decision.

        Raises:
            ValidationError: No answer to the offer is in doubt or was refused, it may still arrive, or an argument is
                invalid.
        """
        found = [await self._repository.find(key) for key in answer_keys(request, offer)]
        # An answer that is being sent is not in doubt yet.
        records = [record for record in found if record is not None and record.state != "sending"]
        record, changes = manual_answer(records, offer, taken=taken)
        if not taken:
            self.resolver.check_arrived(record)
        changed = await self._repository.advance(record, step="resolved", **changes)
        self._metrics.answers["confirmed" if taken else "not taken"] += 1
        if record.state == "unknown" and not taken:
            now = self._unit_of_work.time()
            is_sent_again = await self._unit_of_work.write(
                "settle", lambda store: redeliver_answer(store, changed, at=now)
            )
            log_absent(changed, is_sent_again=is_sent_again)
        self.resolver.wake()

    async def wait_idle(self) -> None:
        """Wait until nothing is being sent."""
        await self._locks.wait_released()

    async def _answer(self, draft: AnswerRecord, seen: Offer | None, check: Callable[[], None]) -> Listing | None:
        approval = await self.resolver.settled(answer_key(draft.request))
        decline = await self.resolver.settled(answer_key(draft.request, draft.offer))
        known = approval if draft.approved else decline
        if approval is not None and approval.state == "confirmed":
            if draft.approved and approval.offer == draft.offer:
                return approval.listing
            if draft.approved or approval.offer == draft.offer:
                raise already_approved_error(draft, approval.offer)
        if known is not None and known.offer == draft.offer and known.state in ("confirmed", "rejected"):
            if known.state == "rejected":
                raise _rejected_error(known)
            return known.listing
        if (remaining := self._certain_at - anyio.current_time()) > 0:
            raise RetryLater(
                remaining,
                "the store was restored, and the service may not show an answer yet that the store lacks: answers wait"
                f" {remaining:.0f} s for that",
            )
        check()
        try:
            listing = await self._exchange.offers.get(draft.request)
        except NotFoundError as error:
            raise OfferChangedError(
                f"{draft} was not sent: the request is not listed any more", request=draft.request
            ) from error
        is_shown = check_against(listing, draft, seen, decline)
        check()
        resends = known.resends if known is not None and known.offer == draft.offer else 0
        offer = next((entry for entry in listing.offers if entry.id == draft.offer), None)
        amount, currency = (None, None) if offer is None else (offer.amount, offer.currency)
        record = attrs.evolve(draft, resends=resends, amount=amount, currency=currency)
        if is_shown:
            record = attrs.evolve(record, state="confirmed", listing=listing)
            await self._repository.put("confirmed", record, replaces=known)
            return listing
        record = await self._repository.put("intent", record, replaces=known)
        # The write may have taken long. If this check fails, the intent stays unsent, as after a crash.
        check()
        return await self._send(record)

    async def _send(self, record: AnswerRecord) -> Listing | None:
        # Begins before `sending` is recorded, so that it ends before the wait of a replica that adopts the answer.
        limit = SendLimit(clock.now(), SEND_WINDOW)
        record = await self._repository.advance(record, "sending")
        self._unit_of_work.reach("before send")
        offers = self._exchange._limited(send_limit=limit).offers
        try:
            listing = await (offers.approve(record.offer) if record.approved else offers.decline(record.offer))
        except FreightExchangeError as error:
            self._unit_of_work.reach("after send")
            outcome = outcome_of(error)
            if outcome == "unknown":
                await self._mark_in_doubt(record, str(error))
                raise answer_in_doubt_error(record) from error
            if outcome == "rejected":
                record = await self._repository.advance(record, "rejected", refusal=error.message, status=error.status)
                self._metrics.answers["rejected"] += 1
                raise _rejected_error(record) from error
            await self._repository.advance(record, "intent", step="withdrawn")
            # Logged here, as the handler may have been cancelled meanwhile.
            _logger.warning("%s was not sent: %s", record, error, extra=log_fields(record))
            raise
        except BaseException as error:
            # Cancelled, or a bug: it may have been sent.
            with anyio.CancelScope(shield=True):
                await self._mark_in_doubt(record, type(error).__name__)
            raise
        self._unit_of_work.reach("after send")
        await self._repository.advance(record, "confirmed", listing=listing)
        self._metrics.answers["confirmed"] += 1
        _logger.info("%s was carried out", record, extra=log_fields(record))
        return listing

    async def _mark_in_doubt(self, record: AnswerRecord, why: str) -> None:
        doubtful = await self._repository.advance(record, "unknown", unknown_since=self._unit_of_work.time())
        self._metrics.answers["doubtful"] += 1
        _logger.warning("%s may or may not have been carried out: %s; checking", record, why, extra=log_fields(record))
        self._start_resolving(doubtful)

    def _start_resolving(self, record: AnswerRecord, *, wait: float = 0.0) -> None:
        self._repository.own(record)
        self._tasks.start_soon(self.resolver.resolve, record, wait)


def _rejected_error(record: AnswerRecord) -> OfferRejectedError:
    error = OfferRejectedError(f"{record} was refused: {record.refusal}", status=record.status)
    error.request = record.request
    return error
