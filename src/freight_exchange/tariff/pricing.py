"""Arithmetic of a tariff: computes a quote for a request from the rules, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, ROUND_UP, Decimal
from functools import reduce
from typing import Final

import attrs

from freight_exchange import cargo
from freight_exchange.base import EXACT, FrozenMapping, Serializable
from freight_exchange.errors import ValidationError
from freight_exchange.models import Shipment
from freight_exchange.platform.text import fold
from freight_exchange.tariff.rule import Rule, Unit
from freight_exchange.words import RequestType

__all__ = ["NoQuote", "Quote", "quote"]


@attrs.frozen(kw_only=True, repr=False)
class Quote(Serializable):
    """A price for a request; its fields are arguments of `ctx.offer` and `exchange.bids.submit`.

    Attributes:
        amount: The total of `rates`.
        currency: The three-letter code.
        rates: The charges by name, each rounded to the currency's smallest unit.
        terms: The terms and conditions of the rules that apply, or `None`.
    """

    amount: Decimal
    currency: str
    rates: Mapping[str, Decimal] = attrs.field(converter=FrozenMapping[Decimal])
    terms: str | None = None


@attrs.frozen(kw_only=True, repr=False)
class NoQuote(Serializable):
    """The reason why the tariff has no price for a request."""

    reason: str


class _NoQuoteError(Exception):
    """A charge cannot be priced; the message is the reason."""


_SMALLEST_UNITS: Final = {
    Decimal(1): ("CLP", "ISK", "JPY", "KRW", "PYG", "UGX", "VND", "XAF", "XOF", "XPF"),
    Decimal("0.001"): ("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"),
}
_SMALLEST_UNIT: Final = {code: unit for unit, codes in _SMALLEST_UNITS.items() for code in codes}

_NAMES: Final = {Unit.M3: "m3", Unit.PACKAGE: "packages", Unit.REVENUE_TON: "revenue tons"}


def quote(request: Shipment, rules: Iterable[Rule], *, weight_per: cargo.Per, on: date) -> Quote | NoQuote:
    """Price a request by the rules of a tariff."""
    serving = [rule for rule in rules if rule.serves(request, on)]
    try:
        return _quote(request, _choose(request, serving), weight_per)
    except _NoQuoteError as error:
        return NoQuote(reason=str(error))


def _choose(request: Shipment, serving: Sequence[Rule]) -> Mapping[str, Sequence[Rule]]:
    """Return the most precise rules of each charge, freight first."""
    if request.hazardous is None and any(rule.hazardous is not None for rule in serving):
        raise _NoQuoteError("the request does not state whether the goods are hazardous, and the tariff depends on it")
    charges: dict[str, list[Rule]] = {}
    for rule in sorted(serving, key=lambda rule: (rule.surcharge, rule.line)):
        if rule.hazardous is None or rule.hazardous == request.hazardous:
            charges.setdefault(fold(rule.charge), []).append(rule)
    if not any(not rule.surcharge for rules in charges.values() for rule in rules):
        lane = f"from {request.origin or 'nowhere'} to {request.destination or 'nowhere'}"
        raise _NoQuoteError(f"there is no freight rate for {request.type or 'a request without a type'} {lane}")
    chosen = {}
    for rules in charges.values():
        best = max(rule.precision for rule in rules)
        chosen[rules[0].charge] = [rule for rule in rules if rule.precision == best]
    return chosen


def _quote(request: Shipment, charges: Mapping[str, Sequence[Rule]], weight_per: cargo.Per) -> Quote:
    currency, *others = {rule.currency: None for rules in charges.values() for rule in rules}
    if others:
        raise _NoQuoteError(f"the charges are in {currency} and {' and '.join(others)}, and an offer has one currency")
    rates: dict[str, Decimal] = {}
    terms: dict[str, None] = {}
    freight = Decimal(0)
    for charge, rules in charges.items():
        rule, measure = _break(request, charge, rules, weight_per)
        rates[charge] = _price(rule, measure, freight)
        if not rule.surcharge:
            freight = EXACT.add(freight, rates[charge])
        if rule.terms is not None:
            terms[rule.terms] = None
    amount = reduce(EXACT.add, rates.values())
    if amount <= 0:
        raise _NoQuoteError(f"the charges come to {amount} {currency}, and an offer must be above zero")
    return Quote(amount=amount, currency=currency, rates=rates, terms="; ".join(terms) or None)


def _break(request: Shipment, charge: str, rules: Sequence[Rule], weight_per: cargo.Per) -> tuple[Rule, Decimal]:
    """Return the rule of the highest break that the request's measure reaches, and the measure."""
    unit = rules[0].unit
    measure = _measure(request, unit, weight_per)
    reached = [rule for rule in rules if rule.start <= measure]
    amount = f"{measure.normalize(EXACT):f} {_NAMES.get(unit, unit)}"
    if not reached:
        least = min(rule.start for rule in rules)
        raise _NoQuoteError(f"{charge} has no rate below {least} {_NAMES.get(unit, unit)}; the request has {amount}")
    rule = max(reached, key=lambda rule: rule.start)
    if rule.rate is None:
        raise _NoQuoteError(f"{charge} is on request from {rule.start} {_NAMES.get(unit, unit)}; it has {amount}")
    return rule, measure


def _price(rule: Rule, measure: Decimal, freight: Decimal) -> Decimal:
    assert rule.rate is not None
    base = EXACT.scaleb(freight, -2) if rule.unit is Unit.PERCENT else measure
    smallest = _SMALLEST_UNIT.get(rule.currency, Decimal("0.01"))
    amount = EXACT.multiply(rule.rate, base).quantize(smallest, ROUND_HALF_UP, context=EXACT)
    return amount if rule.minimum is None else max(amount, rule.minimum.quantize(smallest, ROUND_UP, context=EXACT))


def _measure(request: Shipment, unit: Unit, weight_per: cargo.Per) -> Decimal:
    try:
        return _MEASURES[unit](request, weight_per)
    except ValidationError as error:
        raise _NoQuoteError(error.message) from None


def _revenue_tons(request: Shipment, weight_per: cargo.Per) -> Decimal:
    charged = cargo.revenue_tons(request, per=weight_per)
    _refuse_implausible(charged.gross)
    return charged.tons


def _chargeable_weight(request: Shipment, weight_per: cargo.Per) -> Decimal:
    by_road = request.type == RequestType.TRUCKING
    charged = (cargo.road_chargeable_weight if by_road else cargo.air_chargeable_weight)(request, per=weight_per)
    _refuse_implausible(charged.gross)
    return charged.kilograms


def _gross_weight(request: Shipment, weight_per: cargo.Per) -> Decimal:
    gross = cargo.gross_weight(request, per=weight_per)
    _refuse_implausible(gross)
    return gross.kilograms


def _refuse_implausible(gross: cargo.GrossWeight) -> None:
    if gross.warning is not None:
        raise _NoQuoteError(f"the weight is implausible: {gross.warning.message}")


def _packages(request: Shipment, _: cargo.Per) -> Decimal:
    if request.quantity is None:
        raise ValidationError("quantity is missing, and a rate per package needs it", field="quantity")
    return Decimal(request.quantity)


_MEASURES: Final[Mapping[Unit, Callable[[Shipment, cargo.Per], Decimal]]] = {
    Unit.REVENUE_TON: _revenue_tons,
    Unit.CHARGEABLE_KG: _chargeable_weight,
    Unit.KG: _gross_weight,
    Unit.M3: lambda request, _: cargo.volume(request),
    Unit.PACKAGE: _packages,
    Unit.SHIPMENT: lambda request, _: Decimal(1),
    Unit.PERCENT: lambda request, _: Decimal(1),
}
