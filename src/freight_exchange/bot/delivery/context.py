"""What a handler is given beside its event."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import anyio

from freight_exchange.bot.offers.record import OfferRecord, revision_of
from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.endpoints.currencies import index_of_currency
from freight_exchange.errors import ConfigurationError, OfferInDoubtError, ValidationError
from freight_exchange.feed.events import RequestEvent
from freight_exchange.models import validation

if TYPE_CHECKING:
    from freight_exchange.bot.offers.ledger import Ledger
    from freight_exchange.bot.router import BotEvent
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Bid, Currency

__all__ = ["Context", "Log", "Stopping"]


class Stopping:
    """Whether the bot is stopping: true as soon as it drains. `await stopping.wait()` waits for that."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def is_set(self) -> bool:
        """Whether the bot is stopping."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the bot is stopping."""
        await self._event.wait()

    def begin(self) -> None:
        """Stop."""
        self._event.set()


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records carry what they are about, beside what the handler adds as `extra=`."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


class Context:
    """What a handler is given beside its event.

    Attributes:
        event: The whole event: `ctx.event.changed` and `.previous` of an update, `.observed_between`.
        attempt: Which attempt this is, from 1.
        stopping: True once the bot drains: a long handler ends early, or is cut off and comes again.
        exchange: The client.
        log: A logger whose records name the event, the handler and the request.
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
        ledger: Ledger,
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
        self._is_closed = False
        self._open: dict[int, Exception | None] = {}
        """The offers, by revision, of which the handler has not heard what came, and what it was told instead."""

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
        """Offer on the event's request (service document, 4.10), at most once, through crashes too.

        Asked again, by whichever handler, it gives the first bid and sends nothing; another amount is logged and not
        sent. A deliberate second price is `revision=1`, the third 2, and so on. Once one stands, an earlier one that
        was not sent is not sent any more: asking for it gives the later bid.

        Args:
            amount: The total, more than 0; a `Decimal`, an `int`, a numeric string, or a `float` as it prints.
            currency: The currency, its index, or its three-letter code.
            rates: Amounts by fee name. Their sum need not be the total.
            terms: Terms and conditions.
            revision: Which price on this request it is, from 0.
            allow_existing: Offer although an own bid stands on the request that this bot did not make.

        Returns:
            The bid as the service answered, or as it was found where no answer came.

        Raises:
            ValidationError: An argument cannot be right; nothing was sent.
            AlreadyOfferedError: An own bid stands on the request that this bot did not make; let it pass, and the
                event counts as handled.
            OfferInDoubtError: It may or may not have been taken; let it pass, and the handler is called again once
                that is known.
            OfferRejectedError: The service refused it, now or before.
            RetryLater: Whether an own bid stands on the request cannot be read at present; let it pass.
            ConfigurationError: The event is about no request, or its handler has ended; nothing was sent.
            FreightExchangeError: It was not sent; the handler is called again if it lets this pass.
        """
        self._check_open()
        if self._index is None:
            raise ConfigurationError(f"there is no request to offer on: the event is of the kind {self.event.kind!r}")
        if not isinstance(allow_existing, bool):
            raise ValidationError(
                f"allow_existing must be True or False, not {allow_existing!r}", field="allow_existing"
            )
        revision = revision_of(revision)
        price = validation.amount(amount, "amount")
        rated = None if rates is None else validation.rates(rates)
        said = None if terms is None else validation.text(terms, "terms", allow_empty=True)
        # Until there is an answer: whoever leaves the look-up has left his offer. An answer that says no is for the
        # handler to act on; the rest is nothing to end by.
        is_first = revision not in self._open
        self._open.setdefault(revision, None)
        try:
            index = await index_of_currency(self.exchange.currencies, currency)
        except Exception:
            if is_first:
                self._open.pop(revision, None)
            raise
        self._check_open()
        asked = OfferRecord(
            request=self._index,
            revision=revision,
            handler=self._handler,
            event=self._number,
            amount=price,
            rates=rated,
            terms=said,
            currency=index,
        )
        about = self.event if isinstance(self.event, RequestEvent) else None
        self._open[revision] = None
        try:
            bid = await self._ledger.offer(asked, about=about, allow_existing=allow_existing, check=self._check_open)
        except (OfferInDoubtError, RetryLater) as error:
            self._open[revision] = error
            raise
        except Exception:
            self._open.pop(revision, None)
            raise
        self._open.pop(revision, None)
        return bid

    def close(self) -> None:
        """The handler has ended: what it left running can make no offer any more, since no delivery would guard it."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigurationError(
                f"the handler {self._handler!r} has ended, and so has its ctx.offer: a handler awaits what it begins"
            )

    async def unanswered(self) -> Exception | None:
        """What the handler should have let pass, if it left an offer behind of which it does not know what came.

        An offer that is on its way is waited for: before its answer nobody can tell what is to become of the delivery.
        """
        found: list[Exception] = []
        for revision, error in [*self._open.items()]:
            assert self._index is not None
            found.append(error or await self._ledger.left(self._index, revision))
        doubts = [error for error in found if isinstance(error, OfferInDoubtError)]
        return next(iter(doubts or found), None)
