"""Sender of offers: each is sent in a separate task, so that a cancelled handler does not interrupt it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs

from freight_exchange.bot.offers.own_updates import changed_by_offer
from freight_exchange.bot.offers.repository import ChangedElsewhereError
from freight_exchange.bot.writes.record_versions import is_version
from freight_exchange.bot.writes.write_outcome import outcome_of
from freight_exchange.errors import (
    BadRequestError,
    FencedError,
    FreightExchangeError,
    NotFoundError,
    OfferInDoubtError,
    OfferRejectedError,
    StoreAwayError,
    StoreError,
)
from freight_exchange.models import RequestStatus
from freight_exchange.options import RetryPolicy
from freight_exchange.platform import clock
from freight_exchange.platform.clock import SendLimit
from freight_exchange.store.protocol import StoreRefusedError
from freight_exchange.store.work import SEND_WINDOW

if TYPE_CHECKING:
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.offers.in_doubt import InDoubtResolver
    from freight_exchange.bot.offers.record import OfferRecord, State
    from freight_exchange.bot.offers.repository import OfferRepository
    from freight_exchange.bot.tasks import TaskStarter
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Bid

__all__ = ["OfferSender", "PendingSend", "in_doubt_error", "rejected_error"]

_logger = logging.getLogger("freight_exchange.bot")

_LOOKUP_DEADLINE: Final = 5.0
_RECORD_TRIES: Final = 8
_RECORD_PAUSE: Final = 1.0
"""Seconds between tries to record a reply while the store is away."""


class PendingSend:
    """Offer that is being sent.

    Attributes:
        key: Key of the offer.
        finished: Set once it has a result.
        result: The bid or the error; `None` if the bot ended first.
    """

    def __init__(self, record: OfferRecord) -> None:
        self.key = record.key
        self._record = record
        self.finished = anyio.Event()
        self.result: Bid | Exception | None = None

    async def wait(self) -> Bid:
        """Wait for the result. Cancelling this does not stop the send."""
        await self.finished.wait()
        if self.result is None:
            raise in_doubt_error(self._record)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class OfferSender:
    """Sender of offers, one at a time for each request.

    Args:
        exchange: The client.
        unit_of_work: Has the failpoints around a send.
        repository: Stores the results.
        resolver: Takes offers without a result.
        tasks: Runs the sends.
        metrics: Counts results.
    """

    def __init__(
        self,
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        repository: OfferRepository,
        resolver: InDoubtResolver,
        tasks: TaskStarter,
        metrics: Metrics,
    ) -> None:
        self._exchange = exchange
        self._unit_of_work = unit_of_work
        self._repository = repository
        self._resolver = resolver
        self._tasks = tasks
        self._metrics = metrics
        self._pending: dict[int, PendingSend] = {}

    def pending(self, request: int) -> PendingSend | None:
        """Return the offer on a request that is being sent."""
        return self._pending.get(request)

    async def wait_idle(self) -> None:
        """Wait until nothing is being sent."""
        while self._pending:
            await next(iter(self._pending.values())).finished.wait()

    async def adopt(self, records: Iterable[OfferRecord], *, wait: float) -> None:
        """Resolve offers that an ended process left in doubt. They may still arrive for `wait` seconds."""
        for record in records:
            if record.state == "sending":
                _logger.warning(
                    "%s may have been sent before the last run ended; checking whether the service has it",
                    record,
                    extra={"request": record.request},
                )
                try:
                    record = await self._repository.advance(record, "unknown", unknown_since=record.at)
                except ChangedElsewhereError as error:
                    # Its replica still ran, and recorded the reply.
                    _logger.warning("%s is no longer checked: %s", record, error, extra={"request": record.request})
                    continue
            self.start_resolving(record, wait=wait)

    async def send(self, record: OfferRecord) -> Bid:
        """Send an offer and return the bid. Cancelling this does not stop the send."""
        pending = self._pending[record.request] = PendingSend(record)

        async def run() -> None:
            try:
                pending.result = await self._send(record)
            except Exception as error:
                pending.result = error
                if isinstance(error, StoreError) and not isinstance(error, ChangedElsewhereError):
                    raise
            finally:
                del self._pending[record.request]
                pending.finished.set()

        self._tasks.start_soon(run)
        return await pending.wait()

    async def _send(self, record: OfferRecord) -> Bid:
        # Begins before `sending` is recorded, so that it ends before the wait of a replica that adopts the offer.
        limit = SendLimit(clock.now(), SEND_WINDOW)
        record = await self._repository.advance(record, "sending")
        self._unit_of_work.reach("before send")
        try:
            bid = await self._exchange._limited(send_limit=limit).bids.submit(
                record.request, amount=record.amount, currency=record.currency, rates=record.rates, terms=record.terms
            )
        except FreightExchangeError as error:
            self._unit_of_work.reach("after send")
            outcome = outcome_of(error, refusals=(BadRequestError,))
            if outcome == "unknown":
                await self._mark_in_doubt(record, str(error))
                raise in_doubt_error(record) from error
            if outcome == "rejected":
                raise await self._record_refusal(record, error) from error
            await self._withdraw(record, error)
            raise
        except BaseException as error:
            # Cancelled, or a bug: it may have been sent.
            with anyio.CancelScope(shield=True):
                await self._mark_in_doubt(record, type(error).__name__)
            raise
        self._unit_of_work.reach("after send")
        changed_fields = changed_by_offer(bid, record.fields_before)
        await self._record_reply(record, "confirmed", bid=bid, changed_fields=changed_fields)
        self._metrics.offers["confirmed"] += 1
        _logger.info("%s was taken: %s", record, record.amount, extra={"request": record.request})
        return bid

    async def _record_refusal(self, record: OfferRecord, error: FreightExchangeError) -> OfferRejectedError:
        record = await self._record_reply(record, "rejected", refusal=error.message, status=error.status)
        self._metrics.offers["rejected"] += 1
        rejected = rejected_error(record)
        rejected.request_closed = await self._is_closed(record.request)
        return rejected

    async def _is_closed(self, request: int) -> bool:
        """Return whether the service lists a request as awarded, or not at all; `False` if that is not known."""
        exchange = self._exchange.with_options(deadline=_LOOKUP_DEADLINE, retries=RetryPolicy(attempts=1))
        try:
            found = await exchange.requests.get(request)
        except NotFoundError:
            return True
        except FreightExchangeError:
            return False
        return found.status not in (None, RequestStatus.AVAILABLE)

    async def _record_reply(self, record: OfferRecord, state: State, **changes: Any) -> OfferRecord:
        """Record the reply of the service, even if another replica has taken over the offer."""
        # One version for all tries: a later one recognizes what an earlier one has written.
        answered = attrs.evolve(record, state=state, at=self._unit_of_work.time(), **changes)
        for _ in range(_RECORD_TRIES):
            try:
                return await self._try_to_record(record, answered)
            except (StoreAwayError, StoreRefusedError) as error:
                fields = {"request": record.request}
                _logger.warning("the reply to %s is not recorded yet: %s; retrying", record, error, extra=fields)
                await anyio.sleep(_RECORD_PAUSE)
        return await self._try_to_record(record, answered)

    async def _try_to_record(self, record: OfferRecord, answered: OfferRecord) -> OfferRecord:
        try:
            await self._repository.replace(record, answered)
        except (FencedError, ChangedElsewhereError) as error:
            if is_version(await self._repository.find_one(record.request, record.key), answered):
                # An earlier try wrote it, and the connection was lost before the acknowledgement.
                return answered
            if not await self._repository.record_late(record, answered):
                if answered.state == "confirmed":
                    await self._report_late_bid(answered)
                raise ChangedElsewhereError(f"{record} was resolved elsewhere before it was answered") from error
            _logger.warning(
                "%s was answered after another replica had taken it over; the reply is recorded: %s",
                record,
                answered.state,
                extra={"request": record.request},
            )
        return answered

    async def _report_late_bid(self, record: OfferRecord) -> None:
        """Log that an offer was taken whose reply could not be recorded."""
        stored = await self._repository.find_one(record.request, record.key)
        fields = {"request": record.request}
        if stored is None:
            _logger.warning(
                "%s was taken, but the store no longer has it, because a backup was restored; check the"
                " service's own pages",
                record,
                extra=fields,
            )
        elif stored.state != "confirmed" or not _may_be_same_bid(stored, record):
            _logger.critical(
                "%s was taken, but so late that it counted as absent and was sent again: look at the service's own"
                " pages for a second one",
                record,
                extra=fields,
            )

    async def _withdraw(self, record: OfferRecord, error: FreightExchangeError) -> None:
        """Record an offer that was not sent as an intent again."""
        await self._repository.advance(record, "intent", step="withdrawn")
        # Logged here, as the handler may have been cancelled meanwhile.
        _logger.warning("%s was not sent: %s", record, error, extra={"request": record.request})

    async def _mark_in_doubt(self, record: OfferRecord, why: str) -> None:
        doubtful = await self._repository.advance(record, "unknown", unknown_since=self._unit_of_work.time())
        self._metrics.offers["doubtful"] += 1
        _logger.warning(
            "%s may or may not have been taken: %s; checking whether the service has it",
            record,
            why,
            extra={"request": record.request},
        )
        self.start_resolving(doubtful)

    def start_resolving(self, doubtful: OfferRecord, *, wait: float = 0.0) -> None:
        """Start to resolve an offer in doubt, after a wait."""
        self._resolver.add(doubtful)
        self._tasks.start_soon(self._resolver.resolve, doubtful, wait)


def _may_be_same_bid(stored: OfferRecord, record: OfferRecord) -> bool:
    """Return whether two records of an offer may have the same bid. One from a listing, or a person, has no id."""
    ids = [None if bid is None or bid.offer is None else bid.offer.id for bid in (stored.bid, record.bid)]
    return stored.resends == record.resends if None in ids else ids[0] == ids[1]


def in_doubt_error(record: OfferRecord) -> OfferInDoubtError:
    """Make the error for the handler."""
    next_step = "a person has to decide" if record.parked else "it is being checked"
    return OfferInDoubtError(
        f"{record} may or may not have been taken: {next_step}, and it is not sent again before that is known",
        request=record.request,
    )


def rejected_error(record: OfferRecord) -> OfferRejectedError:
    """Make the error for the handler."""
    error = OfferRejectedError(
        f"{record} was refused: {record.refusal}; it is not sent again, but a revision may be", status=record.status
    )
    error.request = record.request
    return error
