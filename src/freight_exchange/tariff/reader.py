"""Reader of a tariff's CSV file, which checks all rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final

from freight_exchange.errors import ValidationError
from freight_exchange.models import validation
from freight_exchange.models.enums import RequestType
from freight_exchange.platform.csv_table import CsvRow, CsvTable, Parser, point, yes_or_no
from freight_exchange.platform.text import fold
from freight_exchange.tariff.rule import ANYWHERE, Rule, Unit

__all__ = ["COLUMNS", "contradictions", "read"]


def read(path: str | os.PathLike[str]) -> list[Rule]:
    """Read the rules of a file; `Tariff.read` describes the errors."""
    table = CsvTable(Path(path), COLUMNS, REQUIRED)
    rules = [_rule(row, table) for row in table.rows()]
    table.check()
    if problems := contradictions(rules) if rules else ["there is no row of rates"]:
        raise ValidationError(f"{Path(path).name}: {'; '.join(problems)}", field="path")
    return rules


def contradictions(rules: Sequence[Rule]) -> list[str]:
    """Describe each pair of rules that would both price the same charge of a request."""
    lanes: dict[tuple[RequestType, str, str, str], list[Rule]] = {}
    for rule in rules:
        for origin, destination in product(sorted(rule.origin), sorted(rule.destination)):
            lanes.setdefault((rule.type, fold(rule.charge), origin, destination), []).append(rule)
    # Rules with several places may meet on several lanes; each pair is described once.
    problems = {
        (first.line, second.line): _describe_contradiction(first, second, column)
        for lane in lanes.values()
        for first, second in combinations(lane, 2)
        if (column := first.contradicts(second)) is not None
    }
    return [problems[lines] for lines in sorted(problems)]


def _describe_contradiction(first: Rule, second: Rule, column: str) -> str:
    both = f"lines {first.line} and {second.line} both price {second.charge} on one lane and day"
    if column == "from":
        return f"{both} from the same break: change the break, the days or the lane of one"
    return f"{both} with different values of {column}"


def _rule(row: CsvRow, table: CsvTable) -> Rule:
    values = row.values
    fields: dict[str, Any] = {name: values[name] for name in _SAME_NAME}
    start = values["from"] or Decimal(0)
    rule = Rule(line=row.line, surcharge=values["kind"], start=start, rate=values["rate"], **fields)
    for column, problem in _unfit(rule):
        table.add_problem(row.line, column, problem)
    return rule


def _unfit(rule: Rule) -> Iterator[tuple[str, str]]:
    if rule.unit is Unit.CHARGEABLE_KG and rule.type not in (RequestType.AIR_FREIGHT, RequestType.TRUCKING):
        yield "unit", f"{rule.type} has no chargeable kg; use revenue ton, kg or m3"
    if rule.rate is not None and rule.rate <= 0 and not rule.surcharge:
        yield "rate", f"must be above zero for freight, not {rule.rate}"
    if rule.unit is Unit.PERCENT and not rule.surcharge:
        yield "unit", "only a surcharge can be a percentage, of the freight"
    if rule.unit in (Unit.PERCENT, Unit.SHIPMENT) and rule.start:
        yield "from", f"a rate per {rule.unit} has no breaks"
    if rule.valid_from is not None and rule.valid_until is not None and rule.valid_until < rule.valid_from:
        yield "valid_until", f"{rule.valid_until} is before valid_from, {rule.valid_from}"


def _type(cell: str, column: str) -> RequestType:
    return validation.enum_member(cell, RequestType, column)


def _places(cell: str, column: str) -> frozenset[str]:
    places = frozenset(fold(place) for place in cell.split("|"))
    if "" in places:
        raise ValidationError("has an empty place between two |", field=column)
    if ANYWHERE in places and len(places) > 1:
        raise ValidationError("has * beside other places", field=column)
    return places


def _currency(cell: str, column: str) -> str:
    if (code := validation.three_letters(cell)) is None:
        raise ValidationError(f"must be three letters such as USD, not {cell!r}", field=column)
    return code


def _kind(cell: str, column: str) -> bool:
    if fold(cell) not in ("freight", "surcharge"):
        raise ValidationError(f"must be freight or surcharge, not {cell!r}", field=column)
    return fold(cell) == "surcharge"


def _unit(cell: str, column: str) -> Unit:
    try:
        return Unit(fold(cell))
    except ValueError:
        raise ValidationError(f"must be one of {', '.join(Unit)}, not {cell!r}", field=column) from None


def _rate(cell: str, column: str) -> Decimal | None:
    return None if fold(cell) == "on request" else _number(cell, column)


def _minimum(cell: str, column: str) -> Decimal:
    _number(cell, column)
    return validation.amount(point(cell, column), column)


def _number(cell: str, column: str) -> Decimal:
    text = point(cell, column)
    try:
        return validation.number(text, column)
    except ValidationError:
        raise ValidationError(f"must be a number such as 1250.50, not {cell!r}", field=column) from None


def _break(cell: str, column: str) -> Decimal:
    start = _number(cell, column)
    if start < 0:
        raise ValidationError(f"must not be negative, not {cell!r}", field=column)
    return start


def _date(cell: str, column: str) -> date:
    try:
        return date.fromisoformat(cell)
    except ValueError:
        raise ValidationError(f"must be a date such as 2027-03-01, not {cell!r}", field=column) from None


def _text(cell: str, column: str) -> str:
    return validation.text(cell, column)


COLUMNS: Final[Mapping[str, Parser]] = {
    "type": _type,
    "origin": _places,
    "destination": _places,
    "currency": _currency,
    "kind": _kind,
    "charge": _text,
    "unit": _unit,
    "from": _break,
    "rate": _rate,
    "minimum": _minimum,
    "valid_from": _date,
    "valid_until": _date,
    "hazardous": yes_or_no,
    "terms": _text,
}
"""The columns of a tariff, with the parser of a cell."""

REQUIRED: Final = ("type", "origin", "destination", "currency", "kind", "charge", "unit", "rate")
_SAME_NAME: Final = tuple(name for name in COLUMNS if name not in ("kind", "from", "rate"))
