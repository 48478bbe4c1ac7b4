"""Context: a handler's second argument."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import attrs

from freight_exchange import validation
from freight_exchange.bot.handler import BotEvent, Delivery
from freight_exchange.bot.writes import AnswerWrite, OfferWrite
from freight_exchange.endpoints.resources import index_of_currency
from freight_exchange.endpoints.service import index_of
from freight_exchange.errors import ConfigurationError, DeadlineExceededError, ValidationError
from freight_exchange.feed.events import BidSelected, OfferEvent, RequestEvent
from freight_exchange.models import Bid, Currency, Listing, Offer
from freight_exchange.validation import Number

if TYPE_CHECKING:
    from freight_exchange.bot.run import Run
else:
    # For `get_type_hints`: a run makes contexts, and is above this module.
    Run = Any

_logger = logging.getLogger("freight_exchange.bot")


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

    `RequestContext`, `OfferContext` and `SelectedContext` are contexts whose `event` has a known type.

    Attributes:
        attempt: Number of this attempt, from 1.
        stopping: True once the bot drains. A long handler can then end early; otherwise it is cancelled at the end of
            the drain, and called again later.
        exchange: The client.
        log: Logger whose records name the event, the handler and the request.
        has_written: Whether the handler has called `offer`, `approve` or `decline`.
    """

    def __init__(self, delivery: Delivery, run: Run) -> None:
        self.attempt = delivery.attempts
        self.stopping = run.stopping
        self.exchange = run.exchange
        self.log = Log(_logger, delivery.log_fields)
        self._event = delivery.event
        self._delivery = delivery
        self._ledger = run.ledger
        self._is_closed = self._has_left_a_call = False
        self.has_written = False

    @property
    def event(self) -> BotEvent:
        """The event: `ctx.event.changed` and `.previous` of an update, `.observed_between`."""
        return self._event

    async def offer(
        self,
        *,
        amount: Number,
        currency: Currency | int | str,
        rates: Mapping[str, Number] | None = None,
        terms: str | None = None,
        revision: int | None = None,
        allow_existing: bool = False,
    ) -> Bid:
        """Offer on the event's request (service document, 4.10), at most once, even through crashes.

        A second call for the same event, from any handler, returns the first bid and sends nothing; another amount is
        logged and not sent. A later event, such as an update, may have another price: it is sent if amount, currency,
        rates or terms differ from what was sent last, and never after the price of a newer event.

        Args:
            amount: Total, more than 0; a `Decimal`, an `int`, a numeric string, or a `float` as it prints.
            currency: The currency, its index, or its three-letter code.
            rates: Amounts by fee name. Their sum need not be the total.
            terms: Terms and conditions.
            revision: Number of this price on the request, from 0, instead of the event's order. After a later revision
                was taken, an earlier one that was not sent is never sent: a call for it returns the later bid.
            allow_existing: Offer even if this account has a bid on the request that this bot did not make.

        Returns:
            The bid as the service answered, or as it was found if no reply came.

        Raises:
            ValidationError: An argument is invalid; nothing was sent.
            AlreadyOfferedError: This account has a bid that this bot did not make, or a newer event has its price. Do
                not catch it: the event then counts as handled.
            OfferInDoubtError: It is not known whether the offer was taken. Do not catch it: the handler is called again
                once it is known.
            OfferRejectedError: The service refused it, now or before.
            RetryLater: The account's bids cannot be read at present. Do not catch it.
            ConfigurationError: The event is about no request, or its handler has ended; nothing was sent.
            FreightExchangeError: It was not sent; the handler is called again if it does not catch this.
        """
        self._check_open()
        request = self._delivery.subject
        if request is None:
            raise ConfigurationError(f"there is no request to offer on: the event is of the kind {self.event.kind!r}")
        if revision is not None and (isinstance(revision, bool) or not isinstance(revision, int) or revision < 0):
            raise ValidationError(f"revision must be a whole number from 0, not {revision!r}", field="revision")
        if not isinstance(allow_existing, bool):
            raise ValidationError(
                f"allow_existing must be True or False, not {allow_existing!r}", field="allow_existing"
            )
        write = OfferWrite(
            request=request,
            amount=validation.amount(amount, "amount"),
            currency=0,
            rates=None if rates is None else validation.rates(rates),
            terms=None if terms is None else validation.text(terms, "terms", allow_empty=True),
            revision=revision,
            allow_existing=allow_existing,
            currency_code=currency.upper() if isinstance(currency, str) else None,
        )
        with self._awaited():
            index = await index_of_currency(self.exchange.currencies, currency)
            return cast(Bid, await self._once(attrs.evolve(write, currency=index)))

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
            OfferInDoubtError, OfferRejectedError, RetryLater, ConfigurationError, FreightExchangeError: As for `offer`.
        """
        return cast(Listing, await self._answer(offer, approved=True))

    async def decline(self, offer: Offer | int) -> Listing | None:
        """Decline an offer on the event's request (service document, 4.8), as `approve` does.

        Returns:
            The request as the reply showed it, or `None` without one: the document does not show the outcome of a
            decline (section 3).

        Raises:
            AlreadyApprovedError: That offer is approved; nothing was sent.
            FreightExchangeError: As for `approve`.
        """
        return await self._answer(offer, approved=False)

    async def _answer(self, offer: Offer | int, *, approved: bool) -> Listing | None:
        self._check_open()
        if not isinstance(self._event, OfferEvent):
            raise ConfigurationError(f"there is no offer to answer: the event is of the kind {self.event.kind!r}")
        write = AnswerWrite(
            request=self._event.request,
            offer=index_of(offer, "offer", Offer),
            approved=approved,
            seen=offer if isinstance(offer, Offer) else None,
        )
        with self._awaited():
            return cast("Listing | None", await self._once(write))

    async def _once(self, write: OfferWrite | AnswerWrite) -> Any:
        self._check_open()
        self.has_written = True
        return await self._ledger.once(write, self._delivery)

    @contextmanager
    def _awaited(self) -> Iterator[None]:
        """Note if the handler leaves a call without its result: the delivery is then not done."""
        try:
            yield
        except anyio.get_cancelled_exc_class():
            self._has_left_a_call = True
            raise

    def close(self) -> None:
        """End the context with its handler. Tasks that outlive the handler cannot offer: no delivery waits for them."""
        self._is_closed = True

    def check_answered(self) -> None:
        """Raise an error if the handler has left a call before its result, as a time limit of its own does."""
        if self._has_left_a_call:
            raise DeadlineExceededError("the handler left ctx.offer, ctx.approve or ctx.decline before its result")

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigurationError(
                f"the handler {self._delivery.name!r} has ended, and its context with it: await each call inside the "
                "handler"
            )


class RequestContext(Context):
    """Context of `on_new`, `on_updated` and `on_withdrawn`."""

    @property
    def event(self) -> RequestEvent:
        """The event: `ctx.event.changed` and `.previous` of an update, `.observed_between`."""
        return cast(RequestEvent, self._event)


class OfferContext(Context):
    """Context of `on_offer` and its kin."""

    @property
    def event(self) -> OfferEvent:
        """The event: `ctx.event.listing` is the request with all offers on it."""
        return cast(OfferEvent, self._event)


class SelectedContext(Context):
    """Context of `on_selected`."""

    @property
    def event(self) -> BidSelected:
        """The event: `ctx.event.bid` and `.observed`."""
        return cast(BidSelected, self._event)


_CONTEXTS: Final = {RequestEvent: RequestContext, OfferEvent: OfferContext, BidSelected: SelectedContext}


def make_context(delivery: Delivery, run: Run) -> Context:
    """Make the context of an event's type."""
    return _CONTEXTS.get(type(delivery.event), Context)(delivery, run)
