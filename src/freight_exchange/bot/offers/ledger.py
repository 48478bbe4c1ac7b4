"""Offer ledger: record an offer before it is sent, so that it is never sent twice and never lost.

    intent -> sending -> confirmed | rejected | unknown

Each step is durable before the next one begins. After a crash, `sending` means that the offer may have been sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from freight_exchange.bot.keyed_locks import KeyedLocks
from freight_exchange.bot.offers.existing_bids import ExistingBids, unknown_bid_error
from freight_exchange.bot.offers.in_doubt import InDoubtResolver
from freight_exchange.bot.offers.initial_bid_check import InitialBidCheck, RestoreState
from freight_exchange.bot.offers.own_updates import is_only_own_change, matches_reply, may_be_own_update, offer_fields
from freight_exchange.bot.offers.record import (
    UNSETTLED,
    OfferRecord,
    checked_offer_key,
    find_newer_price,
    is_offer,
    manual_changes,
)
from freight_exchange.bot.offers.repository import ChangedElsewhereError, OfferRepository
from freight_exchange.bot.offers.sender import OfferSender, PendingSend, in_doubt_error, rejected_error
from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.errors import (
    ConfigurationError,
    DeadlineExceededError,
    OfferInDoubtError,
    StoreError,
    ValidationError,
)

if TYPE_CHECKING:
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.tasks import TaskStarter
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.feed.events import RequestEvent
    from freight_exchange.models import Bid
    from freight_exchange.store.seat import Adoption

__all__ = ["OfferLedger"]

_logger = logging.getLogger("freight_exchange.bot")

_MAX_UPDATE_DELAY: Final = 600.0


class OfferLedger:
    """Offers of a bot.

    Args:
        exchange: The client.
        unit_of_work: The store.
        tasks: Runs sends, checks and decisions, which outlive a cancelled caller.
        metrics: Counts offers.
        handlers: Ids of the bot's handlers.
        settle: Time that the service may take to list an offer.
    """

    def __init__(
        self,
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        tasks: TaskStarter,
        metrics: Metrics,
        *,
        handlers: Collection[str],
        settle: timedelta,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._tasks = tasks
        self._metrics = metrics
        self._settle = settle
        self._repository = OfferRepository(unit_of_work, handlers)
        self._existing_bids = ExistingBids(exchange, self._repository)
        # One offer at a time on a request: a second one could not be distinguished from one that is not settled.
        self._locks = KeyedLocks()
        self.resolver = InDoubtResolver(exchange, self._repository, metrics, settle=settle)
        self._sender = OfferSender(exchange, unit_of_work, self._repository, self.resolver, tasks, metrics)

    async def start(self, adoption: Adoption, restore_state: RestoreState) -> None:
        """Resolve the offers that earlier runs left in doubt, and read the existing bids."""
        await self.adopt(adoption)
        # An offer that the store has lost may still arrive, like an adopted one.
        settle = self._settle.total_seconds() + adoption.wait
        self._tasks.start_soon(InitialBidCheck(self._existing_bids, self._repository, restore_state, settle=settle))

    async def adopt(self, adoption: Adoption) -> None:
        """Resolve the offers that processes left in doubt at their end."""
        records = map(OfferRecord.from_effect, filter(is_offer, adoption.effects))
        await self._sender.adopt(records, wait=adoption.wait)

    async def offer(
        self, draft: OfferRecord, *, event: RequestEvent | None, allow_existing: bool, check: Callable[[], None]
    ) -> Bid:
        """Make an offer, or return the bid if it was made before.

        Args:
            draft: The offer.
            event: The event that the handler was called for, if it is about a request.
            allow_existing: Whether this account may have other bids on the request.
            check: Called before the offer is recorded and before it is sent; raises if it may not be made.

        Raises:
            AlreadyOfferedError, OfferInDoubtError, OfferRejectedError: It was not sent, or that is not known.
            FreightExchangeError: It was not sent.
        """
        try:
            return await self._offer(draft, event, allow_existing=allow_existing, check=check)
        except OfferInDoubtError:
            if self.resolver.retry_pause(draft.request) is not None:
                self._repository.add_waiting(draft)
            raise

    async def _offer(
        self, draft: OfferRecord, event: RequestEvent | None, *, allow_existing: bool, check: Callable[[], None]
    ) -> Bid:
        async with self._locks.hold(draft.request):
            pending = self._sender.pending(draft.request)
            if pending is not None and pending.key != draft.key:
                await pending.finished.wait()
                pending = None
            records = await self._repository.find(draft.request)
            known = next((record for record in records if record.key == draft.key), None)
            if known is not None and (pending is not None or known.state != "intent"):
                return await self._recorded_result(known, draft, pending)
            if (newer := find_newer_price(draft, records)) is not None:
                fields = {"request": draft.request, "asked": str(draft.amount), "stands": str(newer.amount)}
                _logger.warning("%s is older than %s, which was taken; it is not sent", draft, newer, extra=fields)
                assert newer.bid is not None
                return newer.bid
            await self._check_other_offers(draft, records, event, allow_existing=allow_existing)
            has_others = allow_existing or draft.revision > 0
            record = attrs.evolve(
                draft,
                fields_before=None if event is None else offer_fields(event.request),
                baseline=await self._existing_bids.list_on(draft.request) if has_others else (),
                resends=0 if known is None else known.resends,
                at=self._unit_of_work.time(),
            )
            check()
            await self._repository.add_intent(record, replaces=known)
            # The write may have taken long. If this check fails, the intent stays unsent, as after a crash.
            check()
            return await self._sender.send(record)

    async def abandoned_error(self, request: int, revision: int) -> Exception:
        """Return the error of an offer whose handler did not wait for the result.

        Waits for an offer on the request that is being sent. An `OfferInDoubtError` means that the handler must be
        called again; any other error, that the offer was not sent.
        """
        if (pending := self._sender.pending(request)) is not None:
            await pending.finished.wait()
        records = await self._repository.find(request)
        if (doubtful := next((record for record in records if record.state in UNSETTLED), None)) is not None:
            return in_doubt_error(doubtful)
        subject = f"the handler ended before its offer on request {request} was"
        state = next((record.state for record in records if record.revision == revision), "intent")
        if state == "intent":
            return DeadlineExceededError(f"{subject} sent")
        return OfferInDoubtError(f"{subject} answered", request=request)

    async def resolve(self, request: int, revision: int, *, taken: bool) -> None:
        """Resolve a doubt, or undo a refusal, by a person's decision. Cancelling this does not stop it.

        Raises:
            ValidationError: The offer is neither in doubt nor refused, or an argument is invalid.
            ConfigurationError: The bot ended first.
        """
        key = checked_offer_key(request, revision)
        finished, outcome = anyio.Event(), list[Exception | None]()

        async def run() -> None:
            try:
                await self._resolve(request, key, taken=taken)
                outcome.append(None)
            except Exception as error:
                outcome.append(error)
                if isinstance(error, StoreError) and not isinstance(error, ChangedElsewhereError):
                    raise
            finally:
                finished.set()
                self.resolver.wake()

        # In a separate task: a write whose caller is cancelled may still succeed, and nothing would notice.
        self._tasks.start_soon(run)
        await finished.wait()
        if not outcome:
            raise ConfigurationError("this bot has ended: call this method while the bot runs")
        if (error := outcome[0]) is not None:
            raise error

    async def _resolve(self, request: int, key: str, *, taken: bool) -> None:
        permission = self._existing_bids.allow(request) if taken is False else nullcontext()
        await self.resolver.wait_recorded(key)
        for record in self.resolver.records():
            if record.key == key:
                with permission:
                    await self.resolver.decide(record, taken=taken)
                return
        async with self._locks.hold(request):
            found = await self._repository.find_one(request, key)
            if found is not None and found.state in UNSETTLED:
                raise ValidationError(
                    f"{found} is being sent, or checked by another replica: wait for the result, or resolve it with"
                    " `freight-exchange bot doubts resolve`",
                    field="request",
                )
            changes = manual_changes(found, taken=taken)
            assert found is not None
            with permission:
                await self._repository.advance(found, step="resolved", **changes)
            self._metrics.offers["confirmed" if taken else "not taken"] += 1

    async def wait_idle(self) -> None:
        """Wait until nothing is being sent."""
        await self._sender.wait_idle()

    async def is_own_update(self, event: RequestEvent, number: int) -> bool:
        """Return whether an update is the first that shows only the change that an offer of this bot caused.

        Args:
            event: The update.
            number: Its number; of merged updates, the last one's.

        Raises:
            RetryLater: An offer is in doubt that may have caused it.
        """
        if not event.changed:
            return False
        is_own = False
        for record in await self._repository.find(event.request.index):
            if may_be_own_update(event.changed) and self._delays_updates(record):
                pause = self.resolver.retry_pause(record.request) or 0.0
                raise RetryLater(pause, f"{record} is in doubt, and may have caused the update")
            if matches_reply(record, event.request) and record.own_update in (None, number):
                is_own = is_own or is_only_own_change(record, event.changed)
                if record.own_update is None:
                    await self._repository.update(record, own_update=number)
        return is_own

    def _delays_updates(self, record: OfferRecord) -> bool:
        """Return whether an offer is in doubt and likely to be resolved soon, without a person and after no outage."""
        since = self._unit_of_work.time() - record.in_doubt_since
        return record.state in UNSETTLED and not record.parked and since < _MAX_UPDATE_DELAY

    async def _recorded_result(self, known: OfferRecord, draft: OfferRecord, pending: PendingSend | None) -> Bid:
        """Return the result of an offer that must not be sent again."""
        if not known.is_same_offer(draft):
            _logger.warning(
                "%s was made before with %s and is %s; the different price or terms are not sent; pass a new revision"
                " to quote again",
                known,
                known.amount,
                known.state,
                extra={"request": known.request, "asked": str(draft.amount), "stands": str(known.amount)},
            )
        if pending is not None:
            # The handler that began the send was cancelled; the send continues.
            return await pending.wait()
        match known.state:
            case "confirmed":
                assert known.bid is not None
                return known.bid
            case "rejected":
                raise rejected_error(known)
            case _:
                raise in_doubt_error(known)

    async def _check_other_offers(
        self, draft: OfferRecord, records: Sequence[OfferRecord], event: RequestEvent | None, *, allow_existing: bool
    ) -> None:
        for other in records:
            if other.state in UNSETTLED:
                raise in_doubt_error(other)
        # Earlier scans lack it, so it was published after the store was made.
        is_newer = event is not None and event.kind == "new" and event.observed_between[0] is not None
        has_known_bid = any(other.state == "confirmed" for other in records)
        if not allow_existing and await self._existing_bids.has_unknown_bid(
            draft.request, is_newer=is_newer, has_known_bid=has_known_bid
        ):
            raise unknown_bid_error(draft.request)
