"""One attempt after another: a delivery is handed to its handler, and settled by how that ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.lowlevel
import attrs

from freight_exchange.bot.cancellation import ServingTask, quieten, requested, split
from freight_exchange.bot.delivery.context import Context, Log, Stopping
from freight_exchange.bot.delivery.in_flight import ActiveDelivery, about
from freight_exchange.bot.delivery.retry_policy import IN_DOUBT, INTERRUPTED, Decision, decide
from freight_exchange.bot.delivery.routing import EARLIER
from freight_exchange.bot.outcomes import Drop, ProcessEnd, RetryLater, leaves, told
from freight_exchange.bot.router import BotEvent, Handler, subject
from freight_exchange.errors import OfferInDoubtError
from freight_exchange.feed.core.diff import differences
from freight_exchange.feed.events import BidSelected, RequestEvent
from freight_exchange.feed.serialization import unpack, unpack_selected

if TYPE_CHECKING:
    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.offers.ledger import Ledger
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.store.work import Delivery, WorkStore

__all__ = ["Worker", "settle"]

_logger = logging.getLogger("freight_exchange.bot")

_BEFORE_GIVING_UP: Final = 3600.0
"""Requests may be listed while another part of the service is away: its trouble is waited for as long as this."""
_LEAST_RETRIES: Final = 1
"""After an interruption. What a process ended around was perhaps not called at all: it is called once more, whatever
its handler's `retries`."""


class Worker:
    """Hands deliveries to their handlers.

    Args:
        handlers: The handlers, by their ids.
        given: What each is given beside its event and its context.
        exchange: The client.
        unit_of_work: Where deliveries are kept.
        ledger: Where their offers go.
        metrics: Where they are counted.
        stopping: What handlers are told of a stop by.
        scanned: When the service was last read whole, on the loop's clock.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        given: Mapping[str, Mapping[str, object]],
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        ledger: Ledger,
        metrics: Metrics,
        stopping: Stopping,
        *,
        scanned: Callable[[], float],
    ) -> None:
        self._handlers = handlers
        self._given = given
        self._exchange = exchange
        self._unit_of_work = unit_of_work
        self._ledger = ledger
        self._metrics = metrics
        self._stopping = stopping
        self._scanned = scanned
        self._serving = ServingTask()
        self._random = Random()
        self._troubled: dict[tuple[int, str], float] = {}

    @property
    def handlers(self) -> Collection[str]:
        """The ids of the handlers: a delivery for another is not to be handed over."""
        return self._handlers.keys()

    async def hand_over(self, delivery: Delivery) -> None:
        """Call the handler that it is for, and write down what comes of it."""
        handler = self._handlers[delivery.handler]
        if (doubt := self._doubt(delivery)) is not None:
            await self.release(delivery, doubt)
            return
        log = Log(_logger, about(delivery))
        if delivery.attempts > max(handler.retries, _LEAST_RETRIES) + 1:
            # It ended the process, or the process was ended around it, once too often to try again.
            verdict = Decision(ending="dead", state="dead", error=delivery.error, forgive=True)
            _tell(log, handler, verdict, None)
            await self._conclude(delivery, verdict)
            return
        done_too: tuple[int, ...] = ()
        context: Context | None = None
        error: Exception | None = None
        before, stint = requested(), ActiveDelivery.of(delivery, handler.timeout)
        try:
            with self._metrics.at_work.on(stint):
                event, done_too = await self._event_of(delivery)
                context = self._context(delivery, event, log)
                try:
                    with anyio.fail_after(handler.timeout):
                        await self._call(handler, event, context, number=max((delivery.event, *done_too)))
                finally:
                    context.close()
        except Exception as raised:  # noqa: BLE001 - a handler may raise anything: it is judged, kept and logged
            error = raised
        except BaseException as raised:
            if isinstance(raised, SystemExit | KeyboardInterrupt) or not self._serving.is_cut_off():
                error = _strayed(raised, stint)
            else:
                with anyio.CancelScope(shield=True):
                    await self.release(delivery, 0.0)
                # Raises the cancellation, and not what a handler's own tasks made of it.
                await anyio.lowlevel.checkpoint_if_cancelled()
                raise
        await quieten(before)
        left = None if context is None else await self._left(delivery, context)
        verdict = self._judge(delivery, handler, error, left)
        _tell(log, handler, verdict, error or left)
        # Once a handler is done, a cancellation must not make it be called again.
        with anyio.CancelScope(shield=True):
            await self._conclude(delivery, verdict, done_too if verdict.state == "done" else ())

    def _doubt(self, delivery: Delivery) -> float | None:
        """Seconds to wait for what is in doubt, if the delivery waits for that."""
        if delivery.error == IN_DOUBT:
            return self._ledger.doubts.pause(delivery.index)
        if delivery.error == INTERRUPTED:
            return self._ledger.doubts.pause(delivery.index, handler=delivery.handler)
        return None

    async def _left(self, delivery: Delivery, context: Context) -> Exception | None:
        """What the handler should have let pass. While an offer is on its way that it has left, the bot may end."""
        try:
            return await context.unanswered()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.release(delivery, 0.0)
            raise

    def _judge(self, delivery: Delivery, handler: Handler, error: Exception | None, left: Exception | None) -> Decision:
        key, now = (delivery.event, delivery.handler), anyio.current_time()
        since = self._troubled.get(key, now)
        served = self._scanned() > since + _BEFORE_GIVING_UP
        verdict = decide(delivery, handler, error, left=left, served=served, random=self._random, held=now - since)
        if verdict.ending == "trouble":
            self._troubled[key] = since
        else:
            self._troubled.pop(key, None)
        return verdict

    async def _call(self, handler: Handler, event: BotEvent, context: Context, *, number: int) -> None:
        # Asked again: the filter may have changed since, or have failed when the delivery was made.
        if not handler.wants(event):
            raise Drop("the handler's filter leaves it out")
        if isinstance(event, RequestEvent) and event.kind == "updated" and await self._is_echo(event, number):
            raise Drop("the update shows what the own offer brought about")
        await handler.function(subject(event), context, **self._given[handler.id])

    async def _is_echo(self, event: RequestEvent, number: int) -> bool:
        # Where it is not known what the request was before, anything may have changed beside what is named.
        return event.previous is not None and await self._ledger.echoes(event, number)

    def _context(self, delivery: Delivery, event: BotEvent, log: Log) -> Context:
        return Context(
            event=event,
            number=delivery.event,
            index=delivery.index,
            handler=delivery.handler,
            attempt=delivery.attempts,
            stopping=self._stopping,
            exchange=self._exchange,
            ledger=self._ledger,
            log=log,
        )

    async def _event_of(self, delivery: Delivery) -> tuple[BotEvent, tuple[int, ...]]:
        """The event, and the numbers of the later ones that it stands for as well."""
        if delivery.kind == BidSelected.kind:
            return unpack_selected(delivery.payload), ()
        kind = "new" if delivery.kind.startswith(EARLIER) else delivery.kind
        event = cast("BotEvent", unpack(kind, delivery.payload))
        if not isinstance(event, RequestEvent) or event.kind != "updated":
            return event, ()
        behind = await self._unit_of_work.read(lambda store: store.later_deliveries(delivery.event, delivery.handler))
        numbers: list[int] = []
        updates = [event]
        for later in behind:
            if later.kind != "updated":
                break
            update: Any = unpack(later.kind, later.payload)
            numbers.append(later.event)
            updates.append(update)
        return _together(updates), tuple(numbers)

    async def release(self, delivery: Delivery, delay: float) -> None:
        """Put it back: it is due again in so many seconds, and this was no attempt."""
        await self._conclude(delivery, Decision(ending="released", state="ready", delay=delay, forgive=True))

    async def _conclude(self, delivery: Delivery, verdict: Decision, done_too: tuple[int, ...] = ()) -> None:
        now = self._unit_of_work.time()
        await self._unit_of_work.write(
            "settle", partial(settle, delivery=delivery, verdict=verdict, done_too=done_too, now=now)
        )
        self._metrics.deliveries[delivery.handler, verdict.ending] += 1 + len(done_too)


def settle(
    store: WorkStore, delivery: Delivery, verdict: Decision, done_too: tuple[int, ...] = (), *, now: float
) -> None:
    """Write down what became of a delivery, and of the later ones that were done with it."""
    store.settle(
        delivery.event,
        delivery.handler,
        state=verdict.state,
        not_before=now + verdict.delay,
        error=verdict.error,
        refund_attempt=verdict.forgive,
        also_done=done_too,
        at=now,
    )


def _strayed(error: BaseException, stint: ActiveDelivery) -> Exception:
    """What a handler failed by that was cancelled by something of its own; what is no cancellation ends the bot."""
    cancelled, others = split(error)
    if cancelled and all(isinstance(other, Exception) for other in others):
        return RuntimeError("the handler was cancelled by something of its own")
    _logger.critical("%s ends the bot by %s", stint, told(error), extra=stint.about)
    ends = next((other for other in others if isinstance(other, SystemExit | KeyboardInterrupt)), None)
    raise error if ends is None else ProcessEnd(ends) from error


def _together(updates: Sequence[RequestEvent]) -> RequestEvent:
    """Several updates as one."""
    first, last = updates[0], updates[-1]
    # Between them may be others, which the handler's filter left out: so what differs is not what they changed. What
    # changed and changed back does not differ, and an earlier attempt may have been called for it.
    differ = () if first.previous is None else differences(first.previous, last.request)
    changed = (name for update in updates for name in update.changed)
    return attrs.evolve(
        last,
        previous=first.previous,
        changed=tuple(dict.fromkeys((*differ, *changed))),
        observed_between=(first.observed_between[0], last.observed_between[1]),
    )


def _tell(log: Log, handler: Handler, verdict: Decision, error: Exception | None) -> None:
    match verdict.ending:
        case "done":
            log.debug("the handler %r is done", handler.id)
        case "dead":
            log.error("the handler %r failed for the last time: its delivery is dead", handler.id, exc_info=error)
        case "failed":
            log.warning(
                "the handler %r failed: it is called again in %.0f s", handler.id, verdict.delay, exc_info=error
            )
        case "doubt" if error is not None and not _says_so(error):
            log.warning(
                "the handler %r failed while its offer is in doubt: it is called again once that is known",
                handler.id,
                exc_info=error,
            )
        case _:
            log.info("the handler %r ended: %s", handler.id, verdict.error or verdict.ending)


def _says_so(error: Exception) -> bool:
    """Whether the handler has ended in an orderly way with its offer in doubt."""
    return all(isinstance(leaf, OfferInDoubtError | RetryLater) for leaf in leaves(error))
