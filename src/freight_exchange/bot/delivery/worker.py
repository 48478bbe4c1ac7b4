"""Worker: call a handler for a delivery, and settle the delivery by the result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.lowlevel

from freight_exchange.bot.delivery.attempt_log import AttemptLog
from freight_exchange.bot.delivery.backfills import BACKFILL_KIND
from freight_exchange.bot.delivery.cancellation import ServingTask, absorb_cancellations, count_cancellations
from freight_exchange.bot.delivery.retry_policy import Decision, decide
from freight_exchange.bot.delivery.updates import merge_updates
from freight_exchange.bot.handlers.context import Context, Log, Stopping
from freight_exchange.bot.handlers.handler import OFFER_KINDS, BotEvent, Handler, subject
from freight_exchange.bot.metrics.metrics import ActiveDelivery, log_fields
from freight_exchange.bot.outcomes import IN_DOUBT, INTERRUPTED, Drop, ProcessEnd, describe
from freight_exchange.bot.tasks import split_cancellations
from freight_exchange.feed.events import BidSelected, RequestEvent
from freight_exchange.feed.serialization import unpack, unpack_selected
from freight_exchange.hooks import HandlerRun
from freight_exchange.offer_feed.events import OfferEvent
from freight_exchange.offer_feed.serialization import unpack_offer_event

if TYPE_CHECKING:
    from freight_exchange.bot.answers.ledger import AnswerLedger
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.offers.ledger import OfferLedger
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.store.work import Delivery, Work

__all__ = ["Worker", "settle"]

_logger = logging.getLogger("freight_exchange.bot")

_OUTAGE_LIMIT: Final = 3600.0
"""Seconds of transient errors, while the service answers other calls, before a delivery is given up."""
_MIN_RETRIES: Final = 1
"""Minimum number of retries after interruptions, even for a handler without `retries`: the process may have ended
before the first call."""


class Worker:
    """Worker: calls handlers and settles their deliveries.

    Args:
        handlers: The handlers, by their ids.
        arguments: Arguments of each handler after its event and its context.
        exchange: The client.
        unit_of_work: Store of deliveries.
        ledger: Ledger of offers.
        answers: Ledger of answers to offers.
        metrics: Counts deliveries.
        stopping: Shows handlers that the bot stops.
        feed: Name of the feed.
        last_scan: Returns the start of the last complete scan, on the loop's clock.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        arguments: Mapping[str, Mapping[str, object]],
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        ledger: OfferLedger,
        answers: AnswerLedger,
        metrics: Metrics,
        stopping: Stopping,
        *,
        feed: str,
        last_scan: Callable[[], float],
    ) -> None:
        self._handlers = handlers
        self._arguments = arguments
        self._exchange = exchange
        self._unit_of_work = unit_of_work
        self._ledger = ledger
        self._answers = answers
        self._metrics = metrics
        self._stopping = stopping
        self._feed = feed
        self._last_scan = last_scan
        self._log = AttemptLog()
        self._serving = ServingTask()
        self._random = Random()
        self._outage_began: dict[tuple[int, str], float] = {}

    @property
    def handlers(self) -> Collection[str]:
        """Ids of the handlers. Deliveries for others must not be claimed."""
        return self._handlers.keys()

    async def deliver(self, delivery: Delivery) -> None:
        """Call the handler of a delivery, and settle the delivery."""
        handler = self._handlers[delivery.handler]
        if (pause := await self._doubt_pause(delivery)) is not None:
            await self.release(delivery, pause)
            return
        if delivery.attempts > max(handler.retries, _MIN_RETRIES) + 1:
            # The process ended during each attempt.
            decision = Decision(ending="dead", state="dead", error=delivery.error, refund_attempt=True)
            self._log.write(delivery, handler, decision, None)
            await self._settle(delivery, decision)
            return
        run = HandlerRun(
            feed=self._feed,
            handler=handler.id,
            kind=delivery.kind,
            event=delivery.event,
            request=delivery.index,
            attempt=delivery.attempts,
        )
        with self._exchange._options.limits.instruments.handler(run):
            await self._attempt(delivery, handler, run)

    async def _attempt(self, delivery: Delivery, handler: Handler, run: HandlerRun) -> None:
        merged: tuple[int, ...] = ()
        context: Context | None = None
        error: Exception | None = None
        before, active = count_cancellations(), ActiveDelivery.start(delivery, handler.timeout)
        try:
            with self._metrics.in_flight.track(active):
                event, merged = await self._load_event(delivery)
                context = self._make_context(delivery, event)
                self._observe_latency(delivery, event)
                began = anyio.current_time()
                try:
                    with anyio.fail_after(handler.timeout):
                        await self._call(handler, event, context, number=max((delivery.event, *merged)))
                finally:
                    context.close()
                    self._metrics.handler_times[handler.id,].observe(anyio.current_time() - began)
        except Exception as raised:  # noqa: BLE001 - a handler may raise anything; it is decided on, stored and logged
            error = raised
        except BaseException as raised:
            if isinstance(raised, SystemExit | KeyboardInterrupt) or not self._serving.is_cancelled():
                error = _handler_cancellation(raised, active)
            else:
                with anyio.CancelScope(shield=True):
                    await self.release(delivery, 0.0)
                # Raises the cancellation itself; `raised` may be an exception group of a handler's own tasks.
                await anyio.lowlevel.checkpoint_if_cancelled()
                raise
        await absorb_cancellations(before)
        offer_error = None if context is None else await self._await_offers(delivery, context)
        decision = self._decide(delivery, handler, error, offer_error)
        run.ending, run.error = decision.ending, error or offer_error
        self._log.write(delivery, handler, decision, run.error)
        # A handler that is done must not be called again because of a cancellation.
        with anyio.CancelScope(shield=True):
            await self._settle(delivery, decision, merged if decision.state == "done" else ())

    async def _doubt_pause(self, delivery: Delivery) -> float | None:
        """Return the seconds to wait for an offer or an answer in doubt, if the delivery depends on one."""
        if delivery.error not in (IN_DOUBT, INTERRUPTED):
            return None
        handler = None if delivery.error == IN_DOUBT else delivery.handler
        if (pause := self._answers.resolver.retry_pause(delivery.index)) is not None:
            return pause
        return await self._ledger.resolver.delivery_pause(delivery.index, handler=handler)

    async def _await_offers(self, delivery: Delivery, context: Context) -> Exception | None:
        """Wait for offers that the handler did not wait for, and return their error. The bot may end meanwhile."""
        try:
            return await context.offer_error()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.release(delivery, 0.0)
            raise

    def _decide(
        self, delivery: Delivery, handler: Handler, error: Exception | None, offer_error: Exception | None
    ) -> Decision:
        key, now = (delivery.event, delivery.handler), anyio.current_time()
        since = self._outage_began.get(key, now)
        decision = decide(
            delivery,
            handler,
            error,
            offer_error=offer_error,
            has_recovered=self._last_scan() > since + _OUTAGE_LIMIT,
            random=self._random,
            outage=now - since,
        )
        if decision.ending == "transient":
            self._outage_began[key] = since
        else:
            self._outage_began.pop(key, None)
        return decision

    async def _call(self, handler: Handler, event: BotEvent, context: Context, *, number: int) -> None:
        # The filter may have changed since the delivery was made, or have failed then.
        await handler.load_codes(self._exchange.currencies.by_code)
        if not handler.matches(event):
            raise Drop("the handler's filter excludes it")
        if isinstance(event, RequestEvent) and event.kind == "updated" and await self._is_own_update(event, number):
            raise Drop("the update shows only the effect of this bot's offer")
        await handler.function(subject(event), context, **self._arguments[handler.id])

    async def _is_own_update(self, event: RequestEvent, number: int) -> bool:
        # Without the previous request, more may have changed than the event names.
        return event.previous is not None and await self._ledger.is_own_update(event, number)

    def _observe_latency(self, delivery: Delivery, event: BotEvent) -> None:
        """Observe how long an event waited since the scan that found it, at its first attempt."""
        if delivery.attempts > 1 or delivery.error is not None or not isinstance(event, RequestEvent | OfferEvent):
            return
        now = self._unit_of_work.to_utc(self._unit_of_work.time())
        waited = (now - event.observed_between[1]).total_seconds()
        self._metrics.event_latencies[delivery.handler,].observe(max(waited, 0.0))

    def _make_context(self, delivery: Delivery, event: BotEvent) -> Context:
        return Context(
            event=event,
            number=delivery.event,
            index=delivery.index,
            handler=delivery.handler,
            attempt=delivery.attempts,
            stopping=self._stopping,
            exchange=self._exchange,
            ledger=self._ledger,
            answers=self._answers,
            log=Log(_logger, log_fields(delivery)),
        )

    async def _load_event(self, delivery: Delivery) -> tuple[BotEvent, tuple[int, ...]]:
        """Return the event, and the numbers of later updates that are merged into it."""
        if delivery.kind == BidSelected.kind:
            return unpack_selected(delivery.payload), ()
        if delivery.kind in OFFER_KINDS.values():
            return unpack_offer_event(delivery.payload), ()
        kind = "new" if delivery.kind.startswith(BACKFILL_KIND) else delivery.kind
        event = cast("BotEvent", unpack(kind, delivery.payload))
        if not isinstance(event, RequestEvent) or event.kind != "updated":
            return event, ()
        queue = await self._unit_of_work.read(lambda store: store.later_deliveries(delivery.event, delivery.handler))
        numbers: list[int] = []
        updates = [event]
        for later in queue:
            if later.kind != "updated":
                break
            update: Any = unpack(later.kind, later.payload)
            numbers.append(later.event)
            updates.append(update)
        return merge_updates(updates), tuple(numbers)

    async def release(self, delivery: Delivery, delay: float) -> None:
        """Return a delivery, due again after `delay` seconds, without counting the attempt."""
        await self._settle(delivery, Decision(ending="released", state="ready", delay=delay, refund_attempt=True))

    async def _settle(self, delivery: Delivery, decision: Decision, merged: tuple[int, ...] = ()) -> None:
        now = self._unit_of_work.time()
        await self._unit_of_work.write(
            "settle", partial(settle, delivery=delivery, decision=decision, merged=merged, now=now)
        )
        self._metrics.deliveries[delivery.handler, decision.ending] += 1 + len(merged)


def settle(store: Work, delivery: Delivery, decision: Decision, merged: tuple[int, ...] = (), *, now: float) -> None:
    """Record the result of a delivery, and of later ones that were merged into it."""
    store.settle(
        delivery.event,
        delivery.handler,
        state=decision.state,
        not_before=now + decision.delay,
        error=decision.error,
        refund_attempt=decision.refund_attempt,
        also_done=merged,
        at=now,
    )


def _handler_cancellation(error: BaseException, active: ActiveDelivery) -> Exception:
    """Return the failure of a handler that its own code cancelled. Other `BaseException`s end the bot."""
    cancelled, others = split_cancellations(error)
    if cancelled and all(isinstance(other, Exception) for other in others):
        return RuntimeError("the handler was cancelled by its own code")
    _logger.critical("%s ends the bot: %s", active, describe(error), extra=active.log_fields)
    ends = next((other for other in others if isinstance(other, SystemExit | KeyboardInterrupt)), None)
    raise error if ends is None else ProcessEnd(ends) from error
