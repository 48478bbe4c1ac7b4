"""Exact prices for rate requests, from a tariff in a CSV file.

`Tariff.read(path, weight_per=...)` checks the whole file, and `tariff.quote(request)` returns a `Quote` or a `NoQuote`
with its reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, ROUND_UP, Decimal
from enum import StrEnum
from functools import partial, reduce
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final, get_args

import attrs

from freight_exchange import cargo, validation
from freight_exchange.base import EXACT, FrozenMapping, Serializable, ValidationError
from freight_exchange.models import Shipment
from freight_exchange.platform.csv import Parser, parser, point, read_csv, yes_or_no
from freight_exchange.platform.text import fold
from freight_exchange.words import RequestType

__all__ = ["NoQuote", "Quote", "Rule", "Tariff", "Unit"]

ANYWHERE: Final = "*"
"""Place of a rule that applies to all origins or destinations."""


class Unit(StrEnum):
    """The measure that a rate is charged by."""

    REVENUE_TON = "revenue ton"
    CHARGEABLE_KG = "chargeable kg"
    KG = "kg"
    M3 = "m3"
    PACKAGE = "package"
    SHIPMENT = "shipment"
    PERCENT = "percent"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Rule(Serializable):
    """A row of a tariff: a rate for a charge on a lane, from a break on.

    Attributes:
        origin, destination: The places, folded for comparison; `*` is every place.
        charge: The name of the fee in an offer's `rates`.
        surcharge: True for a charge that is added to freight and makes no offer alone.
        start: The break: the least measure for this rate. The rate applies to the whole measure.
        rate: The amount per unit, or the percentage of the freight; `None` refuses a quote from this break on.
        valid_from, valid_until: The first and the last day; `None` for no limit.
        hazardous: `True` for dangerous goods only, `False` for other goods only, `None` for both.
    """

    line: int
    type: RequestType
    origin: frozenset[str]
    destination: frozenset[str]
    currency: str
    charge: str
    surcharge: bool = False
    unit: Unit
    start: Decimal = Decimal(0)
    rate: Decimal | None
    minimum: Decimal | None = None
    valid_from: date | None = None
    valid_until: date | None = None
    hazardous: bool | None = None
    terms: str | None = None

    def serves(self, request: Shipment, on: date) -> bool:
        """Return whether the rule is for the request's mode and lane on that day, without regard to `hazardous`."""
        lane = (self.origin, request.origin), (self.destination, request.destination)
        return (
            request.type == self.type
            and all(ANYWHERE in places or fold(place or "") in places for places, place in lane)
            and (self.valid_from or date.min) <= on <= (self.valid_until or date.max)
        )

    def contradiction(self, other: Rule) -> str:
        """Describe the column in which two rules for one charge on one lane contradict; empty if both may stand."""
        first = max(self.valid_from or date.min, other.valid_from or date.min)
        last = min(self.valid_until or date.max, other.valid_until or date.max)
        if first > last or {self.hazardous, other.hazardous} == {True, False}:
            return ""
        both = f"lines {self.line} and {other.line} both price {other.charge} on one lane and day"
        for column, field in (("kind", "surcharge"), ("currency", "currency"), ("unit", "unit")):
            if getattr(self, field) != getattr(other, field):
                return f"{both} with different values of {column}"
        is_equal = self.start == other.start
        return f"{both} from the same break: change the break, the days or the lane of one" if is_equal else ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Quote(Serializable):
    """A price for a request; its fields are arguments of `ctx.offer` and `exchange.bids.submit`.

    `amount` is the total of `rates`, the charges by name, each rounded to the currency's smallest unit.
    """

    amount: Decimal
    currency: str
    rates: Mapping[str, Decimal] = attrs.field(converter=FrozenMapping[Decimal])
    terms: str | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NoQuote(Serializable):
    """The reason why the tariff has no price for a request."""

    reason: str


class Tariff:
    """Prices of a forwarder by mode, lane, break and day.

    Args:
        rules: The rules, as `Tariff.read` reads them from a file.
        weight_per: Meaning of a request's `weight`: `"unit"` or `"total"`, as `cargo` explains it.

    Raises:
        ValidationError: Two rules would apply to one request, or `weight_per` is neither word.
    """

    def __init__(self, rules: Iterable[Rule], *, weight_per: cargo.Per) -> None:
        if weight_per not in get_args(cargo.Per):
            raise ValidationError(f"weight_per must be 'unit' or 'total', not {weight_per!r}", field="weight_per")
        self.rules = tuple(rules)
        self.weight_per: cargo.Per = weight_per
        if problems := _contradictions(self.rules):
            raise ValidationError("; ".join(problems), field="rules")

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, weight_per: cargo.Per) -> Tariff:
        """Read a tariff from a CSV file; `docs/tariff.md` lists its columns.

        Raises:
            ValidationError: Rows are wrong; the message names each by its line and column.
            OSError: The file cannot be opened.
        """
        rules = read_csv(Path(path), _COLUMNS, _REQUIRED, _rule)
        if problems := _contradictions(rules) if rules else ["there is no row of rates"]:
            raise ValidationError(f"{Path(path).name}: {'; '.join(problems)}", field="path")
        return cls(rules, weight_per=weight_per)

    def quote(self, request: Shipment, *, on: date | None = None) -> Quote | NoQuote:
        """Price a request with the rules that are valid `on` a day, by default today in the system's zone.

        The most precise rules about the lane price a charge: first those that name both places, then those that name
        the origin, then those that name the destination. The rate of the highest break that the request reaches applies
        to the whole request. Nothing is guessed: a missing measure, an implausible density, a request below the lowest
        break or charges in two currencies make a `NoQuote`.
        """
        day = date.today() if on is None else on
        try:
            charges = _choose(request, [rule for rule in self.rules if rule.serves(request, day)])
            return _price(request, charges, self.weight_per)
        except ValidationError as error:
            return NoQuote(reason=error.message)


# Prices: a charge that cannot be priced is a `ValidationError`, whose message is the reason


_SMALLEST_UNIT: Final = {
    **dict.fromkeys(("CLP", "ISK", "JPY", "KRW", "PYG", "UGX", "VND", "XAF", "XOF", "XPF"), Decimal(1)),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), Decimal("0.001")),
}
_NAMES: Final = {Unit.PACKAGE: "packages", Unit.REVENUE_TON: "revenue tons"}


def _choose(request: Shipment, serving: Sequence[Rule]) -> Mapping[str, Sequence[Rule]]:
    """Return the most precise rules of each charge, freight first."""
    if request.hazardous is None and any(rule.hazardous is not None for rule in serving):
        raise ValidationError(
            "the request does not state whether the goods are hazardous, and the tariff depends on it"
        )
    charges: dict[str, list[Rule]] = {}
    for rule in sorted(serving, key=lambda rule: (rule.surcharge, rule.line)):
        if rule.hazardous is None or rule.hazardous == request.hazardous:
            charges.setdefault(fold(rule.charge), []).append(rule)
    if not any(not rule.surcharge for rules in charges.values() for rule in rules):
        lane = f"from {request.origin or 'nowhere'} to {request.destination or 'nowhere'}"
        raise ValidationError(f"there is no freight rate for {request.type or 'a request without a type'} {lane}")
    return {
        rules[0].charge: [rule for rule in rules if _precision(rule) == max(map(_precision, rules))]
        for rules in charges.values()
    }


def _precision(rule: Rule) -> tuple[bool, bool]:
    return ANYWHERE not in rule.origin, ANYWHERE not in rule.destination


def _price(request: Shipment, charges: Mapping[str, Sequence[Rule]], weight_per: cargo.Per) -> Quote:
    currency, *others = {rule.currency: None for rules in charges.values() for rule in rules}
    if others:
        raise ValidationError(
            f"the charges are in {currency} and {' and '.join(others)}, and an offer has one currency"
        )
    rates: dict[str, Decimal] = {}
    terms: dict[str, None] = {}
    freight = Decimal(0)
    for charge, rules in charges.items():
        rule, measure = _break(request, charge, rules, weight_per)
        rates[charge] = _charge(rule, measure, freight)
        if not rule.surcharge:
            freight = EXACT.add(freight, rates[charge])
        if rule.terms is not None:
            terms[rule.terms] = None
    amount = reduce(EXACT.add, rates.values())
    if amount <= 0:
        raise ValidationError(f"the charges come to {amount} {currency}, and an offer must be above zero")
    return Quote(amount=amount, currency=currency, rates=rates, terms="; ".join(terms) or None)


def _break(request: Shipment, charge: str, rules: Sequence[Rule], weight_per: cargo.Per) -> tuple[Rule, Decimal]:
    """Return the rule of the highest break that the request's measure reaches, and the measure."""
    measure, unit = _measure(request, rules[0].unit, weight_per), _NAMES.get(rules[0].unit, rules[0].unit)
    amount = f"{measure.normalize(EXACT):f} {unit}"
    rule = max((rule for rule in rules if rule.start <= measure), key=lambda rule: rule.start, default=None)
    if rule is None:
        least = min(rule.start for rule in rules)
        raise ValidationError(f"{charge} has no rate below {least} {unit}; the request has {amount}")
    if rule.rate is None:
        raise ValidationError(f"{charge} is on request from {rule.start} {unit}; it has {amount}")
    return rule, measure


def _charge(rule: Rule, measure: Decimal, freight: Decimal) -> Decimal:
    assert rule.rate is not None
    base = EXACT.scaleb(freight, -2) if rule.unit is Unit.PERCENT else measure
    smallest = _SMALLEST_UNIT.get(rule.currency, Decimal("0.01"))
    amount = EXACT.multiply(rule.rate, base).quantize(smallest, ROUND_HALF_UP, context=EXACT)
    return amount if rule.minimum is None else max(amount, rule.minimum.quantize(smallest, ROUND_UP, context=EXACT))


def _measure(request: Shipment, unit: Unit, weight_per: cargo.Per) -> Decimal:
    match unit:
        case Unit.REVENUE_TON:
            sea = cargo.revenue_tons(request, per=weight_per)
            gross, measure = sea.gross, sea.tons
        case Unit.CHARGEABLE_KG:
            by_road = request.type == RequestType.TRUCKING
            weigh = cargo.road_chargeable_weight if by_road else cargo.air_chargeable_weight
            charged = weigh(request, per=weight_per)
            gross, measure = charged.gross, charged.kilograms
        case Unit.KG:
            gross = cargo.gross_weight(request, per=weight_per)
            measure = gross.kilograms
        case Unit.M3:
            return cargo.volume(request)
        case Unit.PACKAGE:
            if request.quantity is None:
                raise ValidationError("quantity is missing, and a rate per package needs it")
            return Decimal(request.quantity)
        case _:
            return Decimal(1)
    if gross.warning is not None:
        raise ValidationError(f"the weight is implausible: {gross.warning.message}")
    return measure


# Rows of the file


def _contradictions(rules: Sequence[Rule]) -> list[str]:
    lanes: dict[tuple[RequestType, str, str, str], list[Rule]] = {}
    for rule in rules:
        for origin, destination in product(sorted(rule.origin), sorted(rule.destination)):
            lanes.setdefault((rule.type, fold(rule.charge), origin, destination), []).append(rule)
    # Rules with several places may meet on several lanes; each pair is described once.
    problems = {
        (first.line, second.line): problem
        for lane in lanes.values()
        for first, second in combinations(lane, 2)
        if (problem := first.contradiction(second))
    }
    return [problems[lines] for lines in sorted(problems)]


def _rule(line: int, fields: dict[str, Any]) -> Rule:
    rule = Rule(line=line, surcharge=fields.pop("kind"), start=fields.pop("from") or Decimal(0), **fields)
    if rule.unit is Unit.CHARGEABLE_KG and rule.type not in (RequestType.AIR_FREIGHT, RequestType.TRUCKING):
        raise ValidationError(f"{rule.type} has no chargeable kg; use revenue ton, kg or m3", field="unit")
    if rule.rate is not None and rule.rate <= 0 and not rule.surcharge:
        raise ValidationError(f"must be above zero for freight, not {rule.rate}", field="rate")
    if rule.unit is Unit.PERCENT and not rule.surcharge:
        raise ValidationError("only a surcharge can be a percentage, of the freight", field="unit")
    if rule.unit in (Unit.PERCENT, Unit.SHIPMENT) and rule.start:
        raise ValidationError(f"a rate per {rule.unit} has no breaks", field="from")
    if rule.valid_from is not None and rule.valid_until is not None and rule.valid_until < rule.valid_from:
        raise ValidationError(f"{rule.valid_until} is before valid_from, {rule.valid_from}", field="valid_until")
    return rule


def _places(cell: str, column: str) -> frozenset[str]:
    places = frozenset(fold(place) for place in cell.split("|"))
    if "" in places:
        raise ValidationError("has an empty place between two |", field=column)
    if ANYWHERE in places and len(places) > 1:
        raise ValidationError("has * beside other places", field=column)
    return places


def _number(cell: str, column: str) -> Decimal:
    return validation.number(point(cell, column), column)


def _rate(cell: str, column: str) -> Decimal | None:
    return None if fold(cell) == "on request" else _number(cell, column)


def _start(cell: str, column: str) -> Decimal:
    start = _number(cell, column)
    if start < 0:
        raise ValidationError(f"must not be negative, not {cell!r}", field=column)
    return start


_COLUMNS: Final[Mapping[str, Parser]] = {
    "type": partial(validation.member, RequestType),
    "origin": _places,
    "destination": _places,
    "currency": validation.currency_code,
    "kind": parser(lambda cell: {"freight": False, "surcharge": True}[fold(cell)], "freight or surcharge"),
    "charge": validation.text,
    "unit": parser(lambda cell: Unit(fold(cell)), f"one of {', '.join(Unit)}"),
    "from": _start,
    "rate": _rate,
    "minimum": lambda cell, column: validation.amount(_number(cell, column), column),
    "valid_from": parser(date.fromisoformat, "a date such as 2027-03-01"),
    "valid_until": parser(date.fromisoformat, "a date such as 2027-03-01"),
    "hazardous": yes_or_no,
    "terms": validation.text,
}
"""The columns of a tariff, with the parser of a cell."""

_REQUIRED: Final = ("type", "origin", "destination", "currency", "kind", "charge", "unit", "rate")
