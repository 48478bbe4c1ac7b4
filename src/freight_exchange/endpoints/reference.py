"""Reference lists: carriers and currencies (service document, 4.11 and 4.12)."""

from __future__ import annotations

import anyio

from freight_exchange import wire
from freight_exchange.endpoints.service import Listed, Service, index_of
from freight_exchange.errors import DeadlineExceededError, ValidationError
from freight_exchange.models import Carrier, Currency
from freight_exchange.paging import Paginator

__all__ = ["Carriers", "Currencies", "CurrencyCodes", "index_of_currency"]

_CARRIERS = Listed("carriers.list", "GET", "carrier", wire.CARRIERS, paged=False)
_CURRENCIES = Listed("currencies.list", "GET", "currency", wire.CURRENCIES, paged=False)

_ByCode = dict[str, list[Currency]]

_GOOD_FOR = 60.0
"""Age of the list of currencies, in seconds, after which an unknown code causes another fetch."""


class Carriers:
    """Carriers: `exchange.carriers`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list(self) -> Paginator[Carrier]:
        """List the carriers (service document, 4.11). It is one request, without pages."""
        return self._service.listing(_CARRIERS)

    async def get(self, index: int) -> Carrier:
        """Return the carrier with this index (service document, 4.11); raise `NotFoundError` without one."""
        return await self._service.lookup(_CARRIERS, index)


class CurrencyCodes:
    """Currencies of the service by their codes in upper case, fetched once for a client and all its views."""

    def __init__(self) -> None:
        self.by_code: _ByCode = {}
        self.fetched = 0.0
        self.lock = anyio.Lock()


class Currencies:
    """Currencies: `exchange.currencies`."""

    def __init__(self, service: Service, codes: CurrencyCodes) -> None:
        self._service = service
        self._codes = codes

    def list(self) -> Paginator[Currency]:
        """List the currencies (service document, 4.12). It is one request, without pages."""
        return self._service.listing(_CURRENCIES)

    async def get(self, index: int) -> Currency:
        """Return the currency with this index (service document, 4.12); raise `NotFoundError` without one."""
        return await self._service.lookup(_CURRENCIES, index)

    async def by_code(self, code: str) -> Currency:
        """Return the currency with this three-letter code, in any case (service document, 4.12).

        The list is fetched once. If it lacks the code and is older than a minute, it is fetched again.

        Raises:
            ValidationError: The service has no such code, or several currencies with it.
        """
        return await self._by_code(code, "code")

    async def _by_code(self, code: str, field: str) -> Currency:
        if not isinstance(code, str) or not code.strip():
            raise ValidationError(f"{field} must be a three-letter code such as USD", field=field)
        wanted, known = code.strip().upper(), self._codes.by_code
        if wanted not in known and (not known or anyio.current_time() - self._codes.fetched > _GOOD_FOR):
            known = await self._fetched(known)
        found = known.get(wanted, ())
        if not found:
            codes = ", ".join(sorted(known)) or "none"
            raise ValidationError(f"{field} {code!r} is unknown to the service, which has {codes}", field=field)
        if len(found) > 1:
            indexes = ", ".join(str(currency.index) for currency in found)
            raise ValidationError(
                f"{field} {code!r} stands for several currencies: give the index, one of {indexes}", field=field
            )
        return found[0]

    async def _fetched(self, held: _ByCode) -> _ByCode:
        """Return a newer list than `held`, fetched once for all callers that wait, within the deadline of one call."""
        codes, deadline = self._codes, self._service.limits.deadline
        with anyio.move_on_after(deadline):
            async with codes.lock:
                if codes.by_code is held:
                    began = anyio.current_time()
                    by_code: _ByCode = {}
                    async for currency in self.list():
                        if currency.code and (code := currency.code.strip().upper()):
                            by_code.setdefault(code, []).append(currency)
                    codes.by_code, codes.fetched = by_code, began
                return codes.by_code
        raise DeadlineExceededError(
            f"the deadline of {deadline:g} s has passed; nothing took effect",
            method=_CURRENCIES.method,
            path=_CURRENCIES.path,
            elapsed=deadline,
        )


async def index_of_currency(currencies: Currencies, currency: Currency | int | str) -> int:
    """Return the index of a currency, given as a record, an index, or a code of the service's list."""
    if isinstance(currency, str):
        return (await currencies._by_code(currency, "currency")).index
    return index_of(currency, "currency", Currency)
