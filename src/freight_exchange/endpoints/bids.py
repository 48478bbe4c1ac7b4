"""The bids of a forwarder (service document, 4.9 and 4.10)."""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from freight_exchange import validation, wire
from freight_exchange.endpoints.reference import Currencies, index_of_currency
from freight_exchange.endpoints.service import Listed, Service, index_of
from freight_exchange.models import Bid, BidsType, Currency, Listing, RateRequest, SubmitOffer
from freight_exchange.paging import Paginator
from freight_exchange.wire import encoder

_LIST = Listed("bids.list", "GET", "quote/bid", wire.BIDS)


class Bids:
    """The forwarder's own offers: `exchange.bids`."""

    def __init__(self, service: Service, currencies: Currencies) -> None:
        self._service = service
        self._currencies = currencies

    def list(
        self,
        *,
        type: BidsType | str | None = None,
        page_size: int | None = None,
        window: int = 1,
        sweep: bool = False,
    ) -> Paginator[Bid]:
        """List the forwarder's offers with their requests (service document, 4.9).

        Listed bids have no identifier; two equal ones are both listed.

        Args:
            type: `active`, `sel` (selected), `nsel` (not selected) or `offers`; default: the service's own choice.
            page_size, window, sweep: As `Paginator` has them.
        """
        word = None if type is None else validation.member_of(BidsType)(type, "type")
        listed = _LIST._replace(parameters=wire.encode_list_parameters(type=word))
        return self._service.listing(listed, page_size, window, sweep)

    async def submit(
        self,
        request: RateRequest | Listing | int,
        *,
        amount: validation.Number,
        currency: Currency | int | str,
        rates: Mapping[str, validation.Number] | None = None,
        terms: str | None = None,
    ) -> Bid:
        """Submit an offer on a request (service document, 4.10). It is sent at most once.

        Args:
            amount: The total, more than 0: a `Decimal`, an `int`, a numeric string, or a `float`, read as it prints.
            currency: The currency, its index, or its three-letter code, resolved through the service's own list.
            rates: Amounts by fee name. Their sum need not be the total.

        Raises:
            ValidationError: An argument is invalid; nothing was sent.
            OutcomeUnknownError: The offer may or may not have been submitted; `reconcile()` finds out.
            BadRequestError: The service found the offer invalid.
        """
        index = index_of(request, "request", RateRequest, Listing)
        total = validation.amount(amount, "amount")
        fees = None if rates is None else validation.rates(rates)
        words = None if terms is None else validation.text(terms, "terms", allow_empty=True)
        started = anyio.current_time()
        write = SubmitOffer(index, total, await index_of_currency(self._currencies, currency), fees, words)
        body = encoder.encode_offer(write, self._service.conventions.currency_field)
        address = self._service.conventions.addresses["submit"]
        return await self._service.write(write, "POST", address, body, wire.decode_one, wire.BID, started=started)
