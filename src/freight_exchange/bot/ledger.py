"""The offer ledger: what is written down before an offer is sent, so that none is sent twice and none is forgotten.

    intent -> sending -> confirmed | rejected | unknown

Each step is durable before the next is taken. Who finds `sending` after a crash knows that the offer may have left.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs

from freight_exchange.bot.doubts import Doubts
from freight_exchange.bot.entry import Entry, is_entry, key_of
from freight_exchange.bot.own_bids import OwnBids
from freight_exchange.errors import (
    AlreadyOfferedError,
    BadRequestError,
    FreightExchangeError,
    OfferInDoubtError,
    OfferRejectedError,
    OutcomeUnknownError,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import TaskGroup

    from freight_exchange.bot.desk import Desk
    from freight_exchange.bot.entry import State
    from freight_exchange.bot.tally import Tally
    from freight_exchange.client import FreightExchange
    from freight_exchange.feed.events import RequestEvent
    from freight_exchange.models import Bid, RateRequest
    from freight_exchange.store.work import WorkStore

__all__ = ["Ledger"]

_logger = logging.getLogger("freight_exchange.bot")

_UNSETTLED: Final[tuple[State, ...]] = ("sending", "unknown")


class _Sending:
    """An offer on its way, and what comes of it."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.ended = anyio.Event()
        self.result: Bid | Exception | None = None

    async def answer(self) -> Bid:
        """What came of it. Leaving is free."""
        await self.ended.wait()
        if self.result is None:
            raise _in_doubt(self._entry)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class Ledger:
    """Every offer that a bot makes.

    Args:
        exchange: Where offers go.
        desk: Where they are written down.
        tasks: Where sending and looking go on, whatever becomes of the handler that asked.
        tally: Where they are counted.
        settle: How long the service may take to show an offer.
    """

    def __init__(
        self,
        exchange: FreightExchange,
        desk: Desk,
        tasks: TaskGroup,
        tally: Tally,
        *,
        settle: timedelta,
    ) -> None:
        self._exchange = exchange
        self._desk = desk
        self._tasks = tasks
        self._tally = tally
        self._own = OwnBids(exchange)
        self._turns: dict[str, anyio.Lock] = {}
        self._on_the_way: dict[str, _Sending] = {}
        self.doubts = Doubts(exchange, self.advance, tally, settle=settle)

    async def start(self) -> None:
        """Take up what an earlier run left behind, and begin to look for it."""

        def unsettled(store: WorkStore) -> Sequence[Entry]:
            return [Entry.of(effect) for effect in store.effects(*_UNSETTLED) if is_entry(effect)]

        def known(store: WorkStore) -> frozenset[int]:
            made = store.effects("confirmed", *_UNSETTLED)
            return frozenset(Entry.of(effect).request for effect in made if is_entry(effect))

        for entry in await self._desk.read(unsettled):
            if entry.state == "sending":
                _logger.warning("%s may have been sent before the last run ended: looking for it", entry)
                entry = await self.advance(entry, "unknown")
            self.doubts.take_up(entry)
            self._tasks.start_soon(self.doubts.resolve, entry)
        self._tasks.start_soon(self._own.learn, await self._desk.read(known))

    async def offer(self, asked: Entry, *, on: RateRequest | None, allow_existing: bool) -> Bid:
        """Make the offer, unless it was made before.

        Args:
            asked: The offer.
            on: The request as it was when the handler decided, where that is known.
            allow_existing: Whether other own bids may stand on the request.

        Raises:
            AlreadyOfferedError, OfferInDoubtError, OfferRejectedError: It is not sent, or not known to be.
            FreightExchangeError: It was not sent.
        """
        lock = self._turns.setdefault(asked.key, anyio.Lock())
        try:
            async with lock:
                known = await self._entry(asked.key)
                if known is not None and known.state != "intent":
                    return await self._stands(known, asked)
                await self._refuse_beside_others(asked, allow_existing=allow_existing)
                beside_others = allow_existing or asked.revision > 0
                entry = attrs.evolve(
                    asked,
                    baseline=await self._own.on(asked.request) if beside_others else (),
                    at=self._desk.time(),
                )
                await self._put("intent", entry, was=None if known is None else known.state)
                return await self._sent(entry, on)
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._turns.pop(asked.key, None)

    async def idle(self) -> None:
        """Wait until nothing is being sent."""
        while self._on_the_way:
            await next(iter(self._on_the_way.values())).ended.wait()

    async def knows(self, request: int) -> bool:
        """Whether an offer was made on the request, as far as is known."""
        revision = 0
        while (entry := await self._entry(key_of(request, revision))) is not None:
            if entry.state in ("confirmed", *_UNSETTLED):
                return True
            revision += 1
        return False

    async def echoes(self, event: RequestEvent) -> bool:
        """Whether an update shows nothing but what the answer to an own offer showed, and may be its doing.

        What goes back to how it was at the offer has changed all the same.
        """
        if not event.changed:
            return False
        revision = 0
        while (entry := await self._entry(key_of(event.request.index, revision))) is not None:
            if entry.turned and all(
                name in entry.turned and getattr(entry.bid, name) == getattr(event.request, name)
                for name in event.changed
            ):
                return True
            revision += 1
        return False

    async def advance(self, entry: Entry, state: State, *, step: str | None = None, **facts: Any) -> Entry:
        """Note that the entry has come to this state."""
        further = attrs.evolve(entry, state=state, at=self._desk.time(), **facts)
        await self._put(step or state, further, was=entry.state)
        return further

    # Before the send

    async def _stands(self, known: Entry, asked: Entry) -> Bid:
        """What became of an offer that is not to be sent any more."""
        if not known.offers_the_same(asked):
            _logger.warning(
                "%s was asked for again with another price or other terms, which are not sent: %s %s stands",
                known,
                known.amount,
                known.state,
                extra={"request": known.request, "asked": str(asked.amount), "stands": str(known.amount)},
            )
        if (sending := self._on_the_way.get(known.key)) is not None:
            # Who asked first has left; the offer goes on without him.
            return await sending.answer()
        match known.state:
            case "confirmed":
                assert known.bid is not None
                return known.bid
            case "rejected":
                raise _rejected(known)
            case _:
                raise _in_doubt(known)

    async def _refuse_beside_others(self, asked: Entry, *, allow_existing: bool) -> None:
        if not allow_existing and await self._own.unknown_on(asked.request):
            raise AlreadyOfferedError(
                f"an own offer stands on request {asked.request} that this bot's store does not know: a person or "
                "another bot made it, or the store was lost; allow_existing=True offers all the same",
                request=asked.request,
            )

    async def _entry(self, key: str) -> Entry | None:
        effect = await self._desk.read(lambda store: store.effect(key))
        return None if effect is None else Entry.of(effect)

    async def _put(self, step: str, entry: Entry, *, was: str | None) -> None:
        if not await self._desk.write(step, lambda store: store.put_effect(entry.effect(), was=was)):
            raise StoreError(f"{entry} is not {was or 'new'} any more: somebody else writes to this bot's store")

    # The send

    async def _sent(self, entry: Entry, on: RateRequest | None) -> Bid:
        """The answer to an offer that is sent in a task of its own: whoever leaves does not stop it half-way."""
        sending = self._on_the_way[entry.key] = _Sending(entry)

        async def send() -> None:
            try:
                sending.result = await self._send(entry, on)
            except Exception as error:
                sending.result = error
                if isinstance(error, StoreError):
                    raise
            finally:
                del self._on_the_way[entry.key]
                sending.ended.set()

        self._tasks.start_soon(send)
        return await sending.answer()

    async def _send(self, entry: Entry, on: RateRequest | None) -> Bid:
        entry = await self.advance(entry, "sending")
        self._desk.at("before send")
        try:
            bid = await self._exchange.bids.submit(
                entry.request, amount=entry.amount, currency=entry.currency, rates=entry.rates, terms=entry.terms
            )
        except OutcomeUnknownError as error:
            self._desk.at("after send")
            await self._doubt(entry, str(error))
            raise _in_doubt(entry) from error
        except BadRequestError as error:
            self._desk.at("after send")
            entry = await self.advance(entry, "rejected", refusal=error.message, status=error.status)
            self._tally.offers["rejected"] += 1
            raise _rejected(entry) from error
        except FreightExchangeError as error:
            self._desk.at("after send")
            if error.may_have_taken_effect:
                await self._doubt(entry, str(error))
                raise _in_doubt(entry) from error
            await self.advance(entry, "intent", step="withdrawn")
            raise
        except BaseException as error:
            # Cancelled, or a bug: whether the offer has left is not known here.
            with anyio.CancelScope(shield=True):
                await self._doubt(entry, type(error).__name__)
            raise
        self._desk.at("after send")
        await self.advance(entry, "confirmed", bid=bid, turned=_turned(bid, on))
        self._tally.offers["confirmed"] += 1
        _logger.info("%s was taken: %s", entry, entry.amount, extra={"request": entry.request})
        return bid

    async def _doubt(self, entry: Entry, why: str) -> None:
        doubtful = await self.advance(entry, "unknown")
        self._tally.offers["doubtful"] += 1
        _logger.warning("%s may or may not have been taken: %s", entry, why, extra={"request": entry.request})
        self.doubts.take_up(doubtful)
        self._tasks.start_soon(self.doubts.resolve, doubtful)


def _turned(bid: Bid, on: RateRequest | None) -> tuple[str, ...]:
    """The fields in which the answer shows the request otherwise than it was."""
    if on is None:
        return ()
    names = (field.name for field in attrs.fields(type(on)) if field.name != "extra")
    return tuple(name for name in names if getattr(bid, name) not in (None, getattr(on, name)))


def _in_doubt(entry: Entry) -> OfferInDoubtError:
    looked_for = "a person has to decide" if entry.parked else "it is being looked for"
    return OfferInDoubtError(
        f"{entry} may or may not have been taken: {looked_for}, and it is not sent again before that is known",
        request=entry.request,
    )


def _rejected(entry: Entry) -> OfferRejectedError:
    error = OfferRejectedError(
        f"{entry} was refused: {entry.refusal}; it is not sent again, but a revision may be", status=entry.status
    )
    error.request = entry.request
    return error
