"""The offer ledger: what is written down before an offer is sent, so that none is sent twice and none is forgotten.

    intent -> sending -> confirmed | rejected | unknown

Each step is durable before the next is taken. Who finds `sending` after a crash knows that the offer may have left.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from freight_exchange.bot.offers.existing_bids import ExistingBids
from freight_exchange.bot.offers.in_doubt import InDoubtResolver
from freight_exchange.bot.offers.own_updates import may_be_turned, shown, shows_answer, turned_alone
from freight_exchange.bot.offers.record import UNSETTLED, OfferRecord, decision, key_of, later_price, revision_of
from freight_exchange.bot.offers.repository import OfferRepository
from freight_exchange.bot.offers.sender import OfferSender, Sending, in_doubt, rejected
from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.errors import (
    AlreadyOfferedError,
    ConfigurationError,
    DeadlineExceededError,
    OfferInDoubtError,
    StoreError,
)
from freight_exchange.models import validation

if TYPE_CHECKING:
    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.shutdown import Tasks
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.feed.events import RequestEvent
    from freight_exchange.models import Bid

__all__ = ["Ledger"]

_logger = logging.getLogger("freight_exchange.bot")

_BEFORE_AN_ECHO_IS_NEWS: Final = 600.0


class Ledger:
    """Every offer that a bot makes.

    Args:
        exchange: Where offers go.
        unit_of_work: Where they are written down.
        tasks: Where sending, looking and deciding go on, whatever becomes of whoever asked.
        metrics: Where they are counted.
        handlers: The ids of the handlers that may ask for one.
        settle: How long the service may take to show an offer.
    """

    def __init__(
        self,
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        tasks: Tasks,
        metrics: Metrics,
        *,
        handlers: Collection[str],
        settle: timedelta,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._tasks = tasks
        self._metrics = metrics
        self._settle = settle
        self._entries = OfferRepository(unit_of_work, handlers)
        self._own = ExistingBids(exchange, self._entries.made_on)
        self._turns: dict[int, anyio.Lock] = {}
        self.doubts = InDoubtResolver(exchange, self._entries, metrics, settle=settle)
        self._sends = OfferSender(exchange, unit_of_work, self._entries, self.doubts, tasks, metrics)

    async def start(self) -> None:
        """Take up what an earlier run left behind, and begin to look for it."""
        for entry in await self._entries.open():
            if entry.state == "sending":
                _logger.warning(
                    "%s may have been sent before the last run ended: looking for it",
                    entry,
                    extra={"request": entry.request},
                )
                entry = await self._entries.advance(entry, "unknown", since=entry.at)
            self._sends.look_for(entry)
        self._tasks.start_soon(self._learn)

    async def offer(
        self, asked: OfferRecord, *, about: RequestEvent | None, allow_existing: bool, check: Callable[[], None]
    ) -> Bid:
        """Make the offer, unless it was made before.

        Args:
            asked: The offer.
            about: What the handler heard of the request, where that is why it offers.
            allow_existing: Whether other own bids may stand on the request.
            check: Called before it is written down, and again before it is sent; raises if it may not be made.

        Raises:
            AlreadyOfferedError, OfferInDoubtError, OfferRejectedError: It is not sent, or not known to be.
            FreightExchangeError: It was not sent.
        """
        try:
            return await self._offer(asked, about, allow_existing=allow_existing, check=check)
        except OfferInDoubtError:
            if self.doubts.pause(asked.request) is not None:
                self._entries.wait(asked)
            raise

    async def _offer(
        self, asked: OfferRecord, about: RequestEvent | None, *, allow_existing: bool, check: Callable[[], None]
    ) -> Bid:
        async with self._turn(asked.request):
            sending = self._sends.on(asked.request)
            if sending is not None and sending.key != asked.key:
                await sending.ended.wait()
                sending = None
            made = await self._entries.on(asked.request)
            known = next((entry for entry in made if entry.key == asked.key), None)
            if known is not None and (sending is not None or known.state != "intent"):
                return await self._stands(known, asked, sending)
            if (later := later_price(asked, made)) is not None:
                about_it = {"request": asked.request, "asked": str(asked.amount), "stands": str(later.amount)}
                _logger.warning("%s comes after %s, which stands: it is not sent", asked, later, extra=about_it)
                assert later.bid is not None
                return later.bid
            await self._refuse_beside_others(asked, made, about, allow_existing=allow_existing)
            beside_others = allow_existing or asked.revision > 0
            entry = attrs.evolve(
                asked,
                shown=None if about is None else shown(about.request),
                baseline=await self._own.on(asked.request) if beside_others else (),
                resent=0 if known is None else known.resent,
                at=self._unit_of_work.time(),
            )
            check()
            await self._entries.begin(entry, was=None if known is None else known.state)
            # The disk may have taken its time. What is left then is an intent, as after a crash: it was not sent.
            check()
            return await self._sends.send(entry)

    async def left(self, request: int, revision: int) -> Exception:
        """What to tell of an offer that whoever asked for it has left before there was an answer: an
        `OfferInDoubtError` if he is to ask again, and anything else if it was not sent.

        Waits for the offer on the request that is on its way.
        """
        if (sending := self._sends.on(request)) is not None:
            await sending.ended.wait()
        made = await self._entries.on(request)
        if (doubtful := next((entry for entry in made if entry.state in UNSETTLED), None)) is not None:
            return in_doubt(doubtful)
        left = f"the handler has left its offer on request {request} before"
        state = next((entry.state for entry in made if entry.revision == revision), "intent")
        if state == "intent":
            return DeadlineExceededError(f"{left} it was sent")
        return OfferInDoubtError(f"{left} it was answered", request=request)

    async def resolve(self, request: int, revision: int, *, taken: bool) -> None:
        """End a doubt, or undo a refusal, as a person says. Leaving is free: it is done all the same.

        Raises:
            ValidationError: There is neither, or what is said cannot be right.
            ConfigurationError: The bot has ended before it was done.
        """
        key = key_of(validation.identifier(request, "request"), revision_of(revision))
        ended, outcome = anyio.Event(), list[Exception | None]()

        async def see_to() -> None:
            try:
                await self._resolve(request, key, taken=taken)
                outcome.append(None)
            except Exception as error:
                outcome.append(error)
                if isinstance(error, StoreError):
                    raise
            finally:
                ended.set()
                self.doubts.wake()

        # In a task of its own: a write that its caller leaves may be made all the same, and nobody would know.
        self._tasks.start_soon(see_to)
        await ended.wait()
        if not outcome:
            raise ConfigurationError("this bot has ended meanwhile: ask it while it runs")
        if (error := outcome[0]) is not None:
            raise error

    async def _resolve(self, request: int, key: str, *, taken: bool) -> None:
        await self.doubts.noted(key)
        for entry in self.doubts.entries():
            if entry.key == key:
                if taken is False:
                    self._own.allow(request)
                await self.doubts.decide(entry, taken=taken)
                return
        async with self._turn(request):
            refused = {entry.key: entry for entry in await self._entries.on(request) if entry.state == "rejected"}
            facts = decision(refused.get(key), taken=taken)
            if taken is False:
                self._own.allow(request)
            await self._entries.advance(refused[key], step="resolved", **facts)
            self._metrics.offers["confirmed" if taken else "not taken"] += 1

    async def idle(self) -> None:
        """Wait until nothing is being sent."""
        await self._sends.idle()

    async def echoes(self, event: RequestEvent, number: int) -> bool:
        """Whether an update shows nothing but what the answer to an own offer showed, and may be its doing.

        The first update that shows it is the echo, and the only one: the request may turn away, and back, by others.

        Args:
            event: The update.
            number: The event's; of several that wait together, the last one's.

        Raises:
            RetryLater: It may be an offer's doing of which it is not known yet whether the service took it.
        """
        if not event.changed:
            return False
        echoes = False
        for entry in await self._entries.on(event.request.index):
            if may_be_turned(event.changed) and self._is_looked_for(entry):
                pause = self.doubts.pause(entry.request) or 0.0
                raise RetryLater(pause, f"{entry} is in doubt, and the update may be its doing")
            if shows_answer(entry, event.request) and entry.echo in (None, number):
                echoes = echoes or turned_alone(entry, event.changed)
                if entry.echo is None:
                    await self._entries.remark(entry, echo=number)
        return echoes

    def _is_looked_for(self, entry: OfferRecord) -> bool:
        """Whether it is in doubt, and that will end soon. News does not wait for a person, nor for a listing."""
        since = self._unit_of_work.time() - entry.doubtful_since
        return entry.state in UNSETTLED and not entry.parked and since < _BEFORE_AN_ECHO_IS_NEWS

    @asynccontextmanager
    async def _turn(self, request: int) -> AsyncIterator[None]:
        """One at a time about a request: while an offer on it is not settled, no other can be told from it."""
        lock = self._turns.setdefault(request, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._turns.pop(request, None)

    async def _learn(self) -> None:
        settle = 0.0 if await self._entries.bids_are_known() else self._settle.total_seconds()
        await self._own.learn(settle=settle)
        await self._entries.note_bids_known()

    async def _stands(self, known: OfferRecord, asked: OfferRecord, sending: Sending | None) -> Bid:
        """What became of an offer that is not to be sent any more."""
        if not known.offers_the_same(asked):
            _logger.warning(
                "%s was asked for again with another price or other terms, which are not sent: %s %s stands",
                known,
                known.amount,
                known.state,
                extra={"request": known.request, "asked": str(asked.amount), "stands": str(known.amount)},
            )
        if sending is not None:
            # Who asked first has left; the offer goes on without him.
            return await sending.answer()
        match known.state:
            case "confirmed":
                assert known.bid is not None
                return known.bid
            case "rejected":
                raise rejected(known)
            case _:
                raise in_doubt(known)

    async def _refuse_beside_others(
        self, asked: OfferRecord, made: Sequence[OfferRecord], about: RequestEvent | None, *, allow_existing: bool
    ) -> None:
        for other in made:
            if other.state in UNSETTLED:
                raise in_doubt(other)
        # It is in no scan before the one that found it, all of which this store has seen.
        younger = about is not None and about.kind == "new" and about.observed_between[0] is not None
        stands = any(other.state == "confirmed" for other in made)
        if not allow_existing and await self._own.unknown_on(asked.request, younger=younger, stands=stands):
            raise AlreadyOfferedError(
                f"an own offer stands on request {asked.request} that this bot's store does not know: a person or "
                "another bot made it, or the store was lost; allow_existing=True offers all the same",
                request=asked.request,
            )
