"""Comparison of the offers on a request, in one currency.

    comparison = await quotes.compare(listing, to="USD", rates={"EUR": "1.08"}, currencies=exchange.currencies.list())
    best = comparison.best

The caller gives exchange rates, since the service has none. Offers in different currencies are never compared without
a rate for each of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from decimal import Decimal
from typing import TypeAlias

import attrs

from freight_exchange import validation
from freight_exchange.base import EXACT, FrozenMapping, Serializable
from freight_exchange.errors import ValidationError
from freight_exchange.models import Currency, Listing, Offer
from freight_exchange.platform.text import fold
from freight_exchange.validation import Number
from freight_exchange.words import OfferStatus

__all__ = ["ComparedOffer", "Comparison", "Rates", "compare"]

Rates: TypeAlias = Mapping[str, Number] | Callable[[str, str], Awaitable[Number]]
"""Exchange rates by currency code: units of the target for one unit. Or a function: `await rates(code, target)`."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ComparedOffer(Serializable):
    """An offer with its figures in the currency of the comparison. No figure is rounded.

    Attributes:
        rank: 1 for the lowest total; offers with equal totals share a rank.
        currency: The code of the offer's own currency.
        exchange_rate: Units of the comparison's currency for one unit of the offer's.
        fees: The itemised fees by name.
        own_terms: The clauses of its terms that are not common to all compared offers.
    """

    offer: Offer
    rank: int
    currency: str
    exchange_rate: Decimal
    total: Decimal
    fees: Mapping[str, Decimal] = attrs.field(converter=FrozenMapping[Decimal])
    own_terms: tuple[str, ...]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Comparison(Serializable):
    """The offers on a request, the lowest total first, with all figures in `currency`.

    `common_terms` are the clauses that every compared offer has. `unpriced` offers have no amount above zero, and no
    rank.
    """

    currency: str
    offers: tuple[ComparedOffer, ...]
    common_terms: tuple[str, ...] = ()
    unpriced: tuple[Offer, ...] = ()

    @property
    def best(self) -> ComparedOffer | None:
        """The pending offer with the lowest total, and of several the first listed; `None` if none is pending."""
        return next((compared for compared in self.offers if compared.offer.status == OfferStatus.PENDING), None)

    @property
    def fee_names(self) -> tuple[str, ...]:
        """The names of all fees, as first written. Names that differ only in case or spaces are the same."""
        names: dict[str, str] = {}
        for name in (name for compared in self.offers for name in compared.fees):
            names.setdefault(fold(name), name)
        return tuple(names.values())

    def by_fee(self, name: str) -> tuple[tuple[ComparedOffer, Decimal], ...]:
        """Return the offers that itemise a fee, each with the amount of the fee, the lowest first."""
        fees = [(compared, *fee) for compared in self.offers for fee in compared.fees.items()]
        found = [(compared, figure) for compared, fee, figure in fees if fold(fee) == fold(name)]
        return tuple(sorted(found, key=lambda pair: pair[1]))


async def compare(
    listing: Listing | Iterable[Offer],
    *,
    to: str,
    currencies: Iterable[Currency] | AsyncIterable[Currency],
    rates: Rates | None = None,
) -> Comparison:
    """Rank the offers of a listing in one currency.

    Args:
        listing: A `Listing` with its offers, or the offers.
        to: The three-letter code of the currency to compare in.
        currencies: The service's currencies, such as `exchange.currencies.list()`: offers name theirs by its index.
        rates: A mapping such as `{"EUR": Decimal("1.08")}`, 1.08 of `to` for one euro, or an async function of two
            codes, asked once for each currency.

    Raises:
        ValidationError: A currency of an offer has no rate, two rates, or is unknown, or a rate is not above zero.
    """
    target = validation.currency_code(to, "to")
    offers = listing.offers if isinstance(listing, Listing) else tuple(listing)
    # An offer of zero or less is a mistake, and must not be approved as the cheapest.
    priced = [(offer, offer.amount) for offer in offers if offer.amount is not None and offer.amount > 0]
    codes: dict[int | None, str] = {}
    if priced:
        records = [one async for one in currencies] if isinstance(currencies, AsyncIterable) else [*currencies]
        codes = {record.index: record.code.strip().upper() for record in records if record.code}
    factors: dict[str, Decimal] = {target: Decimal(1)}
    converted: list[tuple[Offer, str, Decimal]] = []
    for offer, amount in priced:
        if (code := codes.get(offer.currency)) is None:
            problem = f"offer {offer.id} is in currency {offer.currency}, which the list of currencies does not name"
            raise ValidationError(problem, field="currencies")
        if code not in factors:
            factors[code] = await _rate(rates, code, target)
        converted.append((offer, code, EXACT.multiply(amount, factors[code])))
    converted.sort(key=lambda row: row[2])
    clauses = [_clauses(offer.terms) for offer, _, _ in converted]
    common = set.intersection(*map(set, clauses)) if clauses else set()
    totals = [total for _, _, total in converted]
    return Comparison(
        currency=target,
        offers=tuple(
            ComparedOffer(
                offer=offer,
                rank=totals.index(total) + 1,
                currency=code,
                exchange_rate=factors[code],
                total=total,
                fees={name: EXACT.multiply(fee, factors[code]) for name, fee in (offer.rates or {}).items()},
                own_terms=tuple(text for key, text in own.items() if key not in common),
            )
            for (offer, code, total), own in zip(converted, clauses, strict=True)
        ),
        common_terms=tuple(text for key, text in clauses[0].items() if key in common) if clauses else (),
        unpriced=tuple(offer for offer in offers if offer.amount is None or offer.amount <= 0),
    )


async def _rate(rates: Rates | None, code: str, target: str) -> Decimal:
    if isinstance(rates, Mapping | None):
        given = {name: rate for name, rate in (rates or {}).items() if validation.currency_code(name, "rates") == code}
        found = {validation.amount(rate, f"rates[{name!r}]") for name, rate in given.items()}
        if not found:
            raise ValidationError(f"an offer is in {code}: give the exchange rate of {code} to {target}", field="rates")
        if len(found) > 1:
            raise ValidationError(f"rates has several rates of {code}", field="rates")
        return found.pop()
    answer: object = rates(code, target) if callable(rates) else rates
    if not inspect.isawaitable(answer):
        raise ValidationError("rates must be a mapping or an async function", field="rates")
    return validation.amount(await answer, f"the rate of {code}")


def _clauses(terms: str | None) -> dict[str, str]:
    """Return the clauses of terms, by the form in which they are compared."""
    texts = (clause.strip(" ,.") for clause in re.split(r"[;\n]|\.(?=\s|$)", terms or ""))
    return {fold(text): text for text in texts if text}
