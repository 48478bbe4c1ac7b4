"""Currencies (service document, 4.12)."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import anyio

from freight_exchange import wire
from freight_exchange.endpoints.service import Listed, index_of
from freight_exchange.errors import ValidationError
from freight_exchange.models import Currency

if TYPE_CHECKING:
    from freight_exchange.endpoints.service import Service
    from freight_exchange.paging import Paginator

__all__ = ["Currencies", "KnownCurrencies"]

_LISTED = Listed("currencies.list", "GET", "currency", paged=False)
_index = attrgetter("index")


class KnownCurrencies:
    """The service's currencies by their codes in upper case, fetched once for a client and all its views."""

    def __init__(self) -> None:
        self.by_code: dict[str, Currency] | None = None
        self.fetching: anyio.Lock | None = None


class Currencies:
    """`exchange.currencies`."""

    def __init__(self, service: Service, known: KnownCurrencies) -> None:
        self._service = service
        self._known = known

    def list(self) -> Paginator[Currency]:
        """Every currency; the service gives them in one page."""
        return self._service.listing(_LISTED, wire.CURRENCIES, _index, page_size=None, window=1, sweep=False)

    async def get(self, index: int) -> Currency:
        """The currency with this index.

        Raises:
            NotFoundError: There is none.
        """
        return await self._service.lookup(_LISTED, index, wire.CURRENCIES, _index)

    async def by_code(self, code: str) -> Currency:
        """The currency with this three-letter code, in any case; the list is fetched once.

        Raises:
            ValidationError: The service knows no such code.
        """
        if not isinstance(code, str) or not code.strip():
            raise ValidationError("currency must be a three-letter code such as USD", field="currency")
        known = await self._by_code()
        currency = known.get(code.strip().upper())
        if currency is None:
            codes = ", ".join(sorted(known)) or "none"
            raise ValidationError(f"currency {code!r} is unknown to the service, which has {codes}", field="currency")
        return currency

    async def index_of(self, currency: Currency | int | str) -> int:
        """The index of a currency given as the record, its index or its code."""
        if isinstance(currency, str):
            return (await self.by_code(currency)).index
        return index_of(currency, "currency", Currency)

    async def _by_code(self) -> dict[str, Currency]:
        if self._known.by_code is not None:
            return self._known.by_code
        if self._known.fetching is None:
            self._known.fetching = anyio.Lock()
        async with self._known.fetching:
            if self._known.by_code is None:
                listed = await self.list().collect()
                self._known.by_code = {item.code.upper(): item for item in listed if item.code}
            return self._known.by_code
