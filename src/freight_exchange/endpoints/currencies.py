"""Currencies (service document, 4.12)."""

from __future__ import annotations

from operator import attrgetter

import anyio

from freight_exchange import wire
from freight_exchange.endpoints.shared.arguments import index_of
from freight_exchange.endpoints.shared.conventions import Listed
from freight_exchange.endpoints.shared.service import Service
from freight_exchange.errors import DeadlineExceededError, ValidationError
from freight_exchange.models import Currency
from freight_exchange.paging import Paginator

__all__ = ["Currencies", "KnownCurrencies", "index_of_currency"]

_LISTED = Listed("currencies.list", "GET", "currency", paged=False)
_index = attrgetter("index")

_GOOD_FOR = 60.0
"""Age of the list, in seconds, after which an unknown code causes another fetch."""


class KnownCurrencies:
    """Currencies of the service by their codes in upper case, fetched once for a client and all its views."""

    def __init__(self) -> None:
        self.by_code: dict[str, list[Currency]] = {}
        self.fetched = 0.0
        self.fetching: anyio.Lock | None = None

    def stale(self) -> bool:
        """Return whether the service may have added a currency since the list was fetched."""
        return not self.by_code or anyio.current_time() - self.fetched > _GOOD_FOR


class Currencies:
    """Currencies: `exchange.currencies`."""

    def __init__(self, service: Service, known: KnownCurrencies) -> None:
        self._service = service
        self._known = known

    def list(self) -> Paginator[Currency]:
        """List the currencies (service document, 4.12).

        It is one request, since the document shows no pages.

        Iteration raises `NotFoundError` if nothing is at that address, and `DecodeError` if the reply has no such list.
        """
        return self._service.listing(_LISTED, wire.CURRENCIES, _index, page_size=None, window=1, sweep=False)

    async def get(self, index: int) -> Currency:
        """Return the currency with this index (service document, 4.12).

        Raises:
            ValidationError: The index is not a positive integer.
            NotFoundError: There is no such currency.
            DecodeError: The currency cannot be read.
        """
        return await self._service.lookup(_LISTED, index, wire.CURRENCIES, _index)

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
        wanted = code.strip().upper()
        if wanted not in self._known.by_code and self._known.stale():
            await self._fetch_in_time()
        found = self._known.by_code.get(wanted, ())
        if not found:
            codes = ", ".join(sorted(self._known.by_code)) or "none"
            raise ValidationError(f"{field} {code!r} is unknown to the service, which has {codes}", field=field)
        if len(found) > 1:
            indexes = ", ".join(str(currency.index) for currency in found)
            raise ValidationError(
                f"{field} {code!r} stands for several currencies: give the index, one of {indexes}", field=field
            )
        return found[0]

    async def _fetch_in_time(self) -> None:
        """Fetch the list within the deadline of one call, for all callers that wait."""
        deadline = self._service.limits.deadline
        with anyio.move_on_after(deadline):
            await self._fetch()
            return
        raise DeadlineExceededError(
            f"the deadline of {deadline:g} s has passed; nothing took effect",
            method=_LISTED.method,
            path=_LISTED.path,
            elapsed=deadline,
        )

    async def _fetch(self) -> None:
        if self._known.fetching is None:
            self._known.fetching = anyio.Lock()
        held = self._known.by_code
        async with self._known.fetching:
            # Another caller has fetched the list meanwhile: callers that waited for it must not fetch it again.
            if self._known.by_code is not held:
                return
            began = anyio.current_time()
            by_code: dict[str, list[Currency]] = {}
            async for currency in self.list():
                if currency.code and (code := currency.code.strip().upper()):
                    by_code.setdefault(code, []).append(currency)
            self._known.by_code, self._known.fetched = by_code, began


async def index_of_currency(currencies: Currencies, currency: Currency | int | str) -> int:
    """Return the index of a currency, given as a record, an index, or a code of the service's list."""
    if isinstance(currency, str):
        return (await currencies._by_code(currency, "currency")).index
    return index_of(currency, "currency", Currency)
