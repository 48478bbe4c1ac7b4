"""Offers on their way: sent in tasks of their own, so that whoever asked may leave, and settled by what is answered."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import anyio

from freight_exchange.bot.offers.own_updates import turned
from freight_exchange.errors import (
    BadRequestError,
    FreightExchangeError,
    OfferInDoubtError,
    OfferRejectedError,
    OutcomeUnknownError,
    StoreError,
)
from freight_exchange.errors.transient import is_from_login

if TYPE_CHECKING:
    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.offers.in_doubt import InDoubtResolver
    from freight_exchange.bot.offers.record import OfferRecord
    from freight_exchange.bot.offers.repository import OfferRepository
    from freight_exchange.bot.shutdown import Tasks
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Bid

__all__ = ["OfferSender", "Sending", "in_doubt", "rejected"]

_logger = logging.getLogger("freight_exchange.bot")


class Sending:
    """An offer on its way, and what comes of it."""

    def __init__(self, entry: OfferRecord) -> None:
        self.key = entry.key
        self._entry = entry
        self.ended = anyio.Event()
        self.result: Bid | Exception | None = None

    async def answer(self) -> Bid:
        """What came of it. Leaving is free."""
        await self.ended.wait()
        if self.result is None:
            raise in_doubt(self._entry)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class OfferSender:
    """The offers that are on their way, one on a request at most.

    Args:
        exchange: Where they go.
        unit_of_work: Told when they go, and when they are answered.
        entries: Where what comes of them is written down.
        doubts: Where those go of which that is not known.
        tasks: Where sending and looking go on, whatever becomes of the handler that asked.
        metrics: Where they are counted.
    """

    def __init__(
        self,
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        entries: OfferRepository,
        doubts: InDoubtResolver,
        tasks: Tasks,
        metrics: Metrics,
    ) -> None:
        self._exchange = exchange
        self._unit_of_work = unit_of_work
        self._entries = entries
        self._doubts = doubts
        self._tasks = tasks
        self._metrics = metrics
        self._under_way: dict[int, Sending] = {}

    def on(self, request: int) -> Sending | None:
        """The offer on the request that is on its way."""
        return self._under_way.get(request)

    async def idle(self) -> None:
        """Wait until nothing is being sent."""
        while self._under_way:
            await next(iter(self._under_way.values())).ended.wait()

    async def send(self, entry: OfferRecord) -> Bid:
        """The answer to an offer that is sent in a task of its own: whoever leaves does not stop it half-way."""
        sending = self._under_way[entry.request] = Sending(entry)

        async def see_to() -> None:
            try:
                sending.result = await self._send(entry)
            except Exception as error:
                sending.result = error
                if isinstance(error, StoreError):
                    raise
            finally:
                del self._under_way[entry.request]
                sending.ended.set()

        self._tasks.start_soon(see_to)
        return await sending.answer()

    async def _send(self, entry: OfferRecord) -> Bid:
        entry = await self._entries.advance(entry, "sending")
        self._unit_of_work.at("before send")
        try:
            bid = await self._exchange.bids.submit(
                entry.request, amount=entry.amount, currency=entry.currency, rates=entry.rates, terms=entry.terms
            )
        except OutcomeUnknownError as error:
            self._unit_of_work.at("after send")
            await self._doubt(entry, str(error))
            raise in_doubt(entry) from error
        except BadRequestError as error:
            self._unit_of_work.at("after send")
            if is_from_login(error):
                await self._withdraw(entry, error)
                raise
            if not _is_the_services(error):
                await self._doubt(entry, str(error))
                raise in_doubt(entry) from error
            entry = await self._entries.advance(entry, "rejected", refusal=error.message, status=error.status)
            self._metrics.offers["rejected"] += 1
            raise rejected(entry) from error
        except FreightExchangeError as error:
            self._unit_of_work.at("after send")
            if error.may_have_taken_effect:
                await self._doubt(entry, str(error))
                raise in_doubt(entry) from error
            await self._withdraw(entry, error)
            raise
        except BaseException as error:
            # Cancelled, or a bug: whether the offer has left is not known here.
            with anyio.CancelScope(shield=True):
                await self._doubt(entry, type(error).__name__)
            raise
        self._unit_of_work.at("after send")
        await self._entries.advance(entry, "confirmed", bid=bid, turned=turned(bid, entry.shown))
        self._metrics.offers["confirmed"] += 1
        _logger.info("%s was taken: %s", entry, entry.amount, extra={"request": entry.request})
        return bid

    async def _withdraw(self, entry: OfferRecord, error: FreightExchangeError) -> None:
        await self._entries.advance(entry, "intent", step="withdrawn")
        # Whoever asked may have left.
        _logger.warning("%s was not sent: %s", entry, error, extra={"request": entry.request})

    async def _doubt(self, entry: OfferRecord, why: str) -> None:
        doubtful = await self._entries.advance(entry, "unknown", since=self._unit_of_work.time())
        self._metrics.offers["doubtful"] += 1
        _logger.warning("%s may or may not have been taken: %s", entry, why, extra={"request": entry.request})
        self.look_for(doubtful)

    def look_for(self, doubtful: OfferRecord) -> None:
        """Begin to look for an offer that is in doubt."""
        self._doubts.take_up(doubtful)
        self._tasks.start_soon(self._doubts.resolve, doubtful)


def _is_the_services(refusal: BadRequestError) -> bool:
    """Whether the service has refused, or something before it: all that the service says is JSON."""
    return isinstance(refusal.body, Mapping | Sequence) and not isinstance(refusal.body, str)


def in_doubt(entry: OfferRecord) -> OfferInDoubtError:
    """What says so to the handler."""
    looked_for = "a person has to decide" if entry.parked else "it is being looked for"
    return OfferInDoubtError(
        f"{entry} may or may not have been taken: {looked_for}, and it is not sent again before that is known",
        request=entry.request,
    )


def rejected(entry: OfferRecord) -> OfferRejectedError:
    """What says so to the handler."""
    error = OfferRejectedError(
        f"{entry} was refused: {entry.refusal}; it is not sent again, but a revision may be", status=entry.status
    )
    error.request = entry.request
    return error
