"""Deliveries on their way: claimed, handed to their handlers, and settled by how those end."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.lowlevel
import attrs

from freight_exchange.bot.at_work import Stint
from freight_exchange.bot.cancelling import Serving, quieten, requested, split
from freight_exchange.bot.context import Context, Log, Stopping
from freight_exchange.bot.entries import unsettled
from freight_exchange.bot.handlers import BotEvent, Handler, subject
from freight_exchange.bot.intake import EARLIER
from freight_exchange.bot.judging import IN_DOUBT, INTERRUPTED, Verdict, backoff, judge
from freight_exchange.bot.outcomes import Drop, ProcessEnd, RetryLater, leaves, told
from freight_exchange.errors import OfferInDoubtError
from freight_exchange.feed.events import BidSelected, RequestEvent
from freight_exchange.feed.payload import unpack, unpack_selected
from freight_exchange.store.work import EVERY

if TYPE_CHECKING:
    from freight_exchange.bot.desk import Desk
    from freight_exchange.bot.ending import Tasks
    from freight_exchange.bot.ledger import Ledger
    from freight_exchange.bot.tally import Tally
    from freight_exchange.client import FreightExchange
    from freight_exchange.store.work import Delivery, WorkStore

__all__ = ["Deliveries"]

_logger = logging.getLogger("freight_exchange.bot")

_WITHOUT_HANDLER: Final = 300.0
_BETWEEN_SUSPECTS: Final = 1.0
_BEFORE_GIVING_UP: Final = 3600.0
"""Requests may be listed while another part of the service is away: its trouble is waited for as long as this."""
_LEAST_RETRIES: Final = 1
"""After an interruption. What a process ended around was perhaps not called at all: it is called once more, whatever
its handler's `retries`."""
_BETWEEN_LOOKS: Final = 1.0
_LONGEST_SLEEP: Final = 60.0
"""The loop's clock stands still while the machine is suspended, and the feed's goes on."""
_A_MOMENT: Final = 0.001
"""The least wait for what is due: the feed's clock and the loop's differ by a rounding, in which a loop could turn."""


class Deliveries:
    """What waits for handlers, up to `concurrency` of it at them.

    Args:
        handlers: The handlers, by their ids.
        given: What each is given beside its event and its context.
        exchange: The client.
        desk: Where deliveries are kept.
        ledger: Where their offers go.
        tally: Where they are counted.
        tasks: Where handlers run.
        stopping: Set when nothing more is to be claimed.
        concurrency: How many may be at their handlers at a time.
        scanned: When the service was last read whole, on the loop's clock.

    Attributes:
        waiting: How many were due and at no handler, when that was last looked at.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        given: Mapping[str, Mapping[str, object]],
        exchange: FreightExchange,
        desk: Desk,
        ledger: Ledger,
        tally: Tally,
        tasks: Tasks,
        stopping: Stopping,
        *,
        concurrency: int,
        scanned: Callable[[], float],
    ) -> None:
        self._handlers = handlers
        self._given = given
        self._exchange = exchange
        self._desk = desk
        self._ledger = ledger
        self._tally = tally
        self._tasks = tasks
        self._stopping = stopping
        self._concurrency = concurrency
        self._scanned = scanned
        self._troubled: dict[tuple[int, str], float] = {}
        self._serving = Serving()
        self._random = Random()
        self._running = 0
        self._suspects = 0
        self._news = anyio.Event()
        self._looked = -math.inf
        self.waiting = 0
        self._waiting_since: float | None = None
        self._orphans: set[str] = set()
        ledger.doubts.wake = self.wake

    @property
    def waited(self) -> float:
        """For how many seconds the first of those that wait has been due."""
        return 0.0 if self._waiting_since is None else max(0.0, self._desk.time() - self._waiting_since)

    async def recover(self) -> None:
        """Take back what the last run left at its handlers; one of them may have ended the process."""

        now = self._desk.time()

        def interrupted(store: WorkStore) -> None:
            claimed = store.deliveries(state="claimed", limit=EVERY)
            offering = {(entry.request, entry.handler) for entry in unsettled(store)}
            for delivery in claimed:
                delay = backoff(delivery.attempts, self._random)
                # Among several it is only suspected. Suspects are handed over one at a time: the next time it is known.
                # So it is where the process ended around its offer, which it may have to make again: that was not to be
                # its last attempt. Both hold for the first of several ends in a row. A handler that ends the process
                # each time it offers has every later attempt counted, and is dead in the end: it is called again only
                # when the doubt that it left is settled, and after four such sends only if a person says so.
                suspected = delivery.error != INTERRUPTED and (
                    len(claimed) > 1 or (delivery.index, delivery.handler) in offering
                )
                verdict = Verdict(ending="failed", state="ready", delay=delay, error=INTERRUPTED, forgive=suspected)
                _settle(store, delivery, verdict, now=now)

        await self._desk.write("recover", interrupted)

    def wake(self) -> None:
        """There may be something to claim."""
        self._news.set()

    async def run(self) -> None:
        """Claim and hand over, until the bot stops."""
        while not self._stopping:
            self._news = anyio.Event()
            free = self._concurrency - self._running
            # A look costs nothing; a claim, even of nothing, is a write.
            due = await self._desk.read(lambda store: store.next_due()) if free else None
            wait = math.inf if due is None else due - self._desk.time()
            if wait <= 0:
                await self._claim(free)
                continue
            # How many there are costs the more, the more there are. That there are none is found at once.
            if (free and self.waiting) or anyio.current_time() >= self._looked + _BETWEEN_LOOKS:
                await self._look()
            for stint in self._tally.at_work.late():
                _logger.critical("%s was cancelled when its time was over, and does not end", stint)
            wait = min(wait, self._tally.at_work.next_late(), _LONGEST_SLEEP)
            with anyio.move_on_after(max(wait, _A_MOMENT)):
                await self._news.wait()

    async def _look(self) -> None:
        now = self._desk.time()
        self.waiting, self._waiting_since = await self._desk.read(lambda store: store.overdue(now=now))
        self._looked = anyio.current_time()

    async def idle(self) -> None:
        """Wait until nothing is at a handler."""
        while self._running:
            self._news = anyio.Event()
            await self._news.wait()

    async def _claim(self, free: int) -> None:
        now = self._desk.time()
        suspects = self._suspects

        def claim(store: WorkStore) -> Sequence[Delivery]:
            claimed = store.claim(now=now, limit=free)
            # One of them may end the process: together, each would take the others with it, time after time. So all but
            # one are put back before anything is handed over.
            put_off = [delivery for delivery in claimed if delivery.error == INTERRUPTED][0 if suspects else 1 :]
            for place, delivery in enumerate(put_off, 1):
                later = Verdict(ending="released", state="ready", delay=place * _BETWEEN_SUSPECTS, forgive=True)
                _settle(store, delivery, later, now=now)
            return [delivery for delivery in claimed if delivery not in put_off]

        # A claim that is under way counts as well: a drain waits for it.
        self._running += 1
        try:
            for delivery in await self._desk.write("claim", claim):
                if self._stopping:
                    await self._release(delivery, 0.0)
                    continue
                self._running += 1
                self._suspects += delivery.error == INTERRUPTED
                self._tasks.start_soon(self._see_to, delivery)
        finally:
            self._running -= 1
            self._news.set()
        # They begin now, and with that it is known when they are late. Trio's tasks take turns in any order: at the
        # second checkpoint all of them have begun.
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()

    async def _see_to(self, delivery: Delivery) -> None:
        try:
            await self._hand_over(delivery)
        finally:
            self._suspects -= delivery.error == INTERRUPTED
            self._running -= 1
            self._news.set()

    async def _hand_over(self, delivery: Delivery) -> None:
        handler = self._handlers.get(delivery.handler)
        if handler is None:
            if delivery.handler not in self._orphans:
                self._orphans.add(delivery.handler)
                _logger.error(
                    "what waits for the handler %r is kept: this bot has none of that id any more", delivery.handler
                )
            await self._release(delivery, _WITHOUT_HANDLER)
            return
        if (doubt := self._doubt(delivery)) is not None:
            await self._release(delivery, doubt)
            return
        log = Log(
            _logger,
            {
                "event": delivery.kind,
                "handler": handler.id,
                "request": delivery.index,
                "attempt": delivery.attempts,
            },
        )
        if delivery.attempts > max(handler.retries, _LEAST_RETRIES) + 1:
            # It ended the process, or the process was ended around it, once too often to try again.
            verdict = Verdict(ending="dead", state="dead", error=delivery.error, forgive=True)
            _tell(log, handler, verdict, None)
            await self._conclude(delivery, verdict)
            return
        done_too: tuple[int, ...] = ()
        context: Context | None = None
        error: Exception | None = None
        before, stint = requested(), Stint.of(delivery, handler.timeout)
        try:
            with self._tally.at_work.on(stint):
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
                    await self._release(delivery, 0.0)
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
                await self._release(delivery, 0.0)
            raise

    def _judge(self, delivery: Delivery, handler: Handler, error: Exception | None, left: Exception | None) -> Verdict:
        key, now = (delivery.event, delivery.handler), anyio.current_time()
        since = self._troubled.get(key, now)
        served = self._scanned() > since + _BEFORE_GIVING_UP
        verdict = judge(delivery, handler, error, left=left, served=served, random=self._random, held=now - since)
        if verdict.ending == "trouble":
            self._troubled[key] = since
        else:
            self._troubled.pop(key, None)
        return verdict

    async def _call(self, handler: Handler, event: BotEvent, context: Context, *, number: int) -> None:
        # Asked again: the filter may have changed since, or have failed when the delivery was made.
        if not handler.wants(event):
            raise Drop("the handler's filter leaves it out")
        if isinstance(event, RequestEvent) and event.kind == "updated" and await self._ledger.echoes(event, number):
            raise Drop("the update shows what the own offer brought about")
        await handler.function(subject(event), context, **self._given[handler.id])

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
        behind = await self._desk.read(lambda store: store.behind(delivery.event, delivery.handler))
        numbers: list[int] = []
        for later in behind:
            update: Any = unpack(later.kind, later.payload)
            if later.kind != "updated":
                break
            numbers.append(later.event)
            event = _together(event, update)
        return event, tuple(numbers)

    async def _release(self, delivery: Delivery, delay: float) -> None:
        await self._conclude(delivery, Verdict(ending="released", state="ready", delay=delay, forgive=True))

    async def _conclude(self, delivery: Delivery, verdict: Verdict, done_too: tuple[int, ...] = ()) -> None:
        now = self._desk.time()
        await self._desk.write(
            "settle", partial(_settle, delivery=delivery, verdict=verdict, done_too=done_too, now=now)
        )
        self._tally.deliveries[delivery.handler, verdict.ending] += 1


def _settle(
    store: WorkStore, delivery: Delivery, verdict: Verdict, done_too: tuple[int, ...] = (), *, now: float
) -> None:
    store.settle(
        delivery.event,
        delivery.handler,
        state=verdict.state,
        not_before=now + verdict.delay,
        error=verdict.error,
        forgive=verdict.forgive,
        also=done_too,
        at=now,
    )


def _strayed(error: BaseException, stint: Stint) -> Exception:
    """What a handler failed by that was cancelled by something of its own; what is no cancellation ends the bot."""
    cancelled, others = split(error)
    if cancelled and all(isinstance(other, Exception) for other in others):
        return RuntimeError("the handler was cancelled by something of its own")
    _logger.critical("%s ends the bot by %s", stint, told(error))
    ends = next((other for other in others if isinstance(other, SystemExit | KeyboardInterrupt)), None)
    raise error if ends is None else ProcessEnd(ends) from error


def _together(earlier: RequestEvent, later: RequestEvent) -> RequestEvent:
    """Two updates as one."""
    return attrs.evolve(
        later,
        previous=earlier.previous,
        changed=tuple(dict.fromkeys((*earlier.changed, *later.changed))),
        observed_between=(earlier.observed_between[0], later.observed_between[1]),
    )


def _tell(log: Log, handler: Handler, verdict: Verdict, error: Exception | None) -> None:
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
