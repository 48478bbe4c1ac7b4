"""Context: a handler's second argument."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

import anyio

from freight_exchange import validation
from freight_exchange.bot.answers.ledger import AnswerLedger
from freight_exchange.bot.answers.record import AnswerRecord
from freight_exchange.bot.handlers.handler import BotEvent
from freight_exchange.bot.offers.ledger import OfferLedger
from freight_exchange.bot.offers.record import OfferRecord, check_revision
from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.client import FreightExchange
from freight_exchange.endpoints.reference import index_of_currency
from freight_exchange.endpoints.service import index_of
from freight_exchange.errors import ConfigurationError, OfferInDoubtError, ValidationError
from freight_exchange.feed.events import RequestEvent
from freight_exchange.models import Bid, Currency, Listing, Offer
from freight_exchange.offer_feed.events import OfferEvent

__all__ = ["Context", "Log", "Stopping"]


class Stopping:
    """Flag that is true once the bot stops. `await stopping.wait()` waits for it."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def is_set(self) -> bool:
        """Return whether the bot is stopping."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the bot is stopping."""
        await self._event.wait()

    def begin(self) -> None:
        """Set the flag."""
        self._event.set()


class Log(logging.LoggerAdapter[logging.Logger]):
    """Logger that adds the fields of a delivery to each record, beside a handler's own `extra=`."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


class Context:
    """Second argument of a handler.

    Attributes:
        event: The event: `ctx.event.changed` and `.previous` of an update, `.observed_between`.
        attempt: Number of this attempt, from 1.
        stopping: True once the bot drains. A long handler can then end early; otherwise it is cancelled at the end of
            the drain, and called again later.
        exchange: The client.
        log: Logger whose records name the event, the handler and the request.
    """

    def __init__(
        self,
        *,
        event: BotEvent,
        number: int,
        index: int | None,
        handler: str,
        attempt: int,
        stopping: Stopping,
        exchange: FreightExchange,
        ledger: OfferLedger,
        answers: AnswerLedger,
        log: Log,
    ) -> None:
        self.event = event
        self.attempt = attempt
        self.stopping = stopping
        self.exchange = exchange
        self.log = log
        self._number = number
        self._index = index
        self._handler = handler
        self._ledger = ledger
        self._answers = answers
        self._is_closed = False
        self._unanswered: dict[int, Exception | None] = {}
        """Offers, by revision, whose result the handler has not seen, and the error that it got instead."""
        self._answer_error: OfferInDoubtError | RetryLater | None = None

    async def offer(
        self,
        *,
        amount: validation.Number,
        currency: Currency | int | str,
        rates: Mapping[str, validation.Number] | None = None,
        terms: str | None = None,
        revision: int = 0,
        allow_existing: bool = False,
    ) -> Bid:
        """Offer on the event's request (service document, 4.10), at most once, even through crashes.

        A second call, from any handler, returns the first bid and sends nothing; another amount is logged and not
        sent. To quote again, pass `revision=1`, then 2, and so on. After a later revision was taken, an earlier one
        that was not sent is never sent: a call for it returns the later bid.

        Args:
            amount: Total, more than 0; a `Decimal`, an `int`, a numeric string, or a `float` as it prints.
            currency: The currency, its index, or its three-letter code.
            rates: Amounts by fee name. Their sum need not be the total.
            terms: Terms and conditions.
            revision: Number of this price on the request, from 0.
            allow_existing: Offer even if this account has a bid on the request that this bot did not make.

        Returns:
            The bid as the service answered, or as it was found if no reply came.

        Raises:
            ValidationError: An argument is invalid; nothing was sent.
            AlreadyOfferedError: This account has a bid that this bot did not make. Do not catch it: the event then
                counts as handled.
            OfferInDoubtError: It is not known whether the offer was taken. Do not catch it: the handler is called again
                once it is known.
            OfferRejectedError: The service refused it, now or before.
            RetryLater: The account's bids cannot be read at present. Do not catch it.
            ConfigurationError: The event is about no request, or its handler has ended; nothing was sent.
            FreightExchangeError: It was not sent; the handler is called again if it does not catch this.
        """
        self._check_open()
        if self._index is None:
            raise ConfigurationError(f"there is no request to offer on: the event is of the kind {self.event.kind!r}")
        if not isinstance(allow_existing, bool):
            raise ValidationError(
                f"allow_existing must be True or False, not {allow_existing!r}", field="allow_existing"
            )
        revision = check_revision(revision)
        checked_amount = validation.amount(amount, "amount")
        checked_rates = None if rates is None else validation.rates(rates)
        checked_terms = None if terms is None else validation.text(terms, "terms", allow_empty=True)
        # The offer is unanswered until the handler sees a result: a cancelled handler sees none. An error of the
        # look-up is a result.
        is_first = revision not in self._unanswered
        self._unanswered.setdefault(revision, None)
        try:
            currency_index = await index_of_currency(self.exchange.currencies, currency)
        except Exception:
            if is_first:
                self._unanswered.pop(revision, None)
            raise
        self._check_open()
        draft = OfferRecord(
            request=self._index,
            revision=revision,
            handler=self._handler,
            event=self._number,
            amount=checked_amount,
            rates=checked_rates,
            terms=checked_terms,
            currency=currency_index,
        )
        event = self.event if isinstance(self.event, RequestEvent) else None
        self._unanswered[revision] = None
        try:
            bid = await self._ledger.offer(draft, event=event, allow_existing=allow_existing, check=self._check_open)
        except (OfferInDoubtError, RetryLater) as error:
            self._unanswered[revision] = error
            raise
        except Exception:
            self._unanswered.pop(revision, None)
            raise
        self._unanswered.pop(revision, None)
        return bid

    async def approve(self, offer: Offer | int) -> Listing:
        """Approve an offer on the event's request (service document, 4.8): at most one, even through crashes.

        The request is read before the approval is sent. A second call for the same offer, from any handler, returns the
        first result and sends nothing.

        Args:
            offer: The offer as the handler saw it, of `ctx.event.listing.offers` or `ctx.event.offer`. An identifier
                alone approves the offer at its present price.

        Returns:
            The request, with the forwarder's contact and company.

        Raises:
            AlreadyApprovedError: Another offer on the request is approved; nothing was sent. Do not catch it: the event
                then counts as handled.
            OfferChangedError: The offer has another price or other terms than the handler saw, was declined, or is
                gone; nothing was sent. Do not catch it: another event follows.
            OfferInDoubtError: It is not known whether an answer on the request was carried out. Do not catch it: the
                handler is called again.
            OfferRejectedError: The service refused it, now or before.
            RetryLater: The store was restored from a backup a short time ago. Do not catch it.
            ConfigurationError: The event is about no offer, or its handler has ended; nothing was sent.
            FreightExchangeError: It was not sent; the handler is called again if it does not catch this.
        """
        listing = await self._answer(offer, approved=True)
        assert listing is not None
        return listing

    async def decline(self, offer: Offer | int) -> Listing | None:
        """Decline an offer on the event's request (service document, 4.8), as `approve` does.

        Returns:
            The request as the reply showed it, or `None` without one: the document does not show the outcome of a
            decline (section 3).

        Raises:
            AlreadyApprovedError: That offer is approved; nothing was sent.
            OfferChangedError, OfferInDoubtError, OfferRejectedError, RetryLater, ConfigurationError,
                FreightExchangeError: As for `approve`.
        """
        return await self._answer(offer, approved=False)

    async def _answer(self, offer: Offer | int, *, approved: bool) -> Listing | None:
        self._check_open()
        if not isinstance(self.event, OfferEvent):
            raise ConfigurationError(f"there is no offer to answer: the event is of the kind {self.event.kind!r}")
        draft = AnswerRecord(
            request=self.event.request,
            offer=index_of(offer, "offer", Offer),
            approved=approved,
            handler=self._handler,
            event=self._number,
        )
        seen = offer if isinstance(offer, Offer) else None
        # Stays until the handler sees a result: a cancelled handler sees none.
        self._answer_error = OfferInDoubtError("the handler ended before its answer's result", request=draft.request)
        try:
            listing = await self._answers.answer(draft, seen=seen, check=self._check_open)
        except (OfferInDoubtError, RetryLater) as error:
            self._answer_error = error
            raise
        except Exception:
            self._answer_error = None
            raise
        self._answer_error = None
        return listing

    def close(self) -> None:
        """End the context with its handler. Tasks that outlive the handler cannot offer: no delivery waits for them."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigurationError(
                f"the handler {self._handler!r} has ended, and its context with it: await each call inside the handler"
            )

    async def offer_error(self) -> Exception | None:
        """Return the error of an offer or an answer whose result the handler has not seen, a doubt first.

        Waits for an offer that is being sent: only its reply decides the delivery.
        """
        found: list[Exception] = [] if self._answer_error is None else [self._answer_error]
        for revision, error in [*self._unanswered.items()]:
            assert self._index is not None
            found.append(error or await self._ledger.abandoned_error(self._index, revision))
        doubts = [error for error in found if isinstance(error, OfferInDoubtError)]
        return next(iter(doubts or found), None)
