"""A tariff's CSV file: its columns, and all that is wrong with its rows."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final

from freight_exchange.errors import ValidationError
from freight_exchange.models import validation
from freight_exchange.models.enums import RequestType
from freight_exchange.platform.text import fold
from freight_exchange.tariff.rule import ANYWHERE, Rule, Unit

__all__ = ["COLUMNS", "contradictions", "read"]

_MOST_PROBLEMS: Final = 20


def read(path: str | os.PathLike[str]) -> list[Rule]:
    """Read the rules of a file; `Tariff.read` describes the errors."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValidationError(f"{file.name} is not UTF-8 at byte {error.start + 1}", field="path") from None
    problems: list[str] = []
    rules = []
    line = 1
    try:
        for line, row in _rows(text, problems):
            found = len(problems)
            values = {name: _parse(line, name, cell, problems) for name, cell in row.items() if name in COLUMNS}
            if len(problems) == found:
                rules.append(_rule(line, values, problems))
    except csv.Error as error:
        problems.append(f"it is not CSV after line {line}: {error}")
    if not problems and not rules:
        problems.append("there is no row of rates")
    problems = problems or contradictions(rules)
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        shown = [*problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
        raise ValidationError(f"{file.name}: " + "; ".join(shown), field="path")
    return rules


def contradictions(rules: Sequence[Rule]) -> list[str]:
    """Describe each pair of rules that would both price the same charge of a request."""
    lanes: dict[tuple[RequestType, str, str, str], list[Rule]] = {}
    for rule in rules:
        for origin, destination in product(sorted(rule.origin), sorted(rule.destination)):
            lanes.setdefault((rule.type, fold(rule.charge), origin, destination), []).append(rule)
    # Rules that name several places may meet on several lanes; each pair is described once.
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


def _rows(text: str, problems: list[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each row with its line; a wrong header ends the file."""
    header = text.partition("\n")[0]
    delimiter = ";" if header.count(";") > header.count(",") else ","
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names = [fold(name) for name in next(rows, [])]
    missing = [name for name in REQUIRED if name not in names]
    unknown = [name for name in names if name not in COLUMNS and name != "comment"]
    repeated = {name for name in names if names.count(name) > 1}
    for problem, found in (("lacks", missing), ("has unknown", unknown), ("repeats", sorted(repeated))):
        if found:
            problems.append(
                f"line 1 {problem} column {', '.join(map(repr, found))}; the columns are {', '.join(COLUMNS)}"
            )
    if problems:
        return
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) > len(names):
            problems.append(f"line {rows.line_num} has {len(row)} cells for {len(names)} columns")
            continue
        cells = [*row, *[""] * (len(names) - len(row))]
        yield rows.line_num, dict(zip(names, (cell.strip() for cell in cells), strict=True))


def _parse(line: int, column: str, cell: str, problems: list[str]) -> Any:
    try:
        if not cell:
            if column in REQUIRED:
                raise ValidationError("is empty", field=column)
            return None
        return COLUMNS[column](cell, column)
    except ValidationError as error:
        problems.append(f"line {line}, column {column}: {error.message.removeprefix(f'{column} ')}")
        return None


def _rule(line: int, values: Mapping[str, Any], problems: list[str]) -> Rule:
    fields: dict[str, Any] = {name: values.get(name) for name in _SAME_NAME}
    start = values.get("from") or Decimal(0)
    rule = Rule(line=line, surcharge=values["kind"], start=start, rate=values["rate"], **fields)
    for column, problem in _unfit(rule):
        problems.append(f"line {line}, column {column}: {problem}")
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
    return None if fold(cell) == "on request" else validation.number(cell, column)


def _break(cell: str, column: str) -> Decimal:
    start = validation.number(cell, column)
    if start < 0:
        raise ValidationError(f"must not be negative, not {cell!r}", field=column)
    return start


def _date(cell: str, column: str) -> date:
    try:
        return date.fromisoformat(cell)
    except ValueError:
        raise ValidationError(f"must be a date such as 2027-03-01, not {cell!r}", field=column) from None


def _hazardous(cell: str, column: str) -> bool:
    if fold(cell) not in ("yes", "no"):
        raise ValidationError(f"must be yes, no, or empty for both, not {cell!r}", field=column)
    return fold(cell) == "yes"


def _text(cell: str, column: str) -> str:
    return validation.text(cell, column)


COLUMNS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "type": _type,
    "origin": _places,
    "destination": _places,
    "currency": _currency,
    "kind": _kind,
    "charge": _text,
    "unit": _unit,
    "from": _break,
    "rate": _rate,
    "minimum": validation.amount,
    "valid_from": _date,
    "valid_until": _date,
    "hazardous": _hazardous,
    "terms": _text,
}
"""The columns of a tariff, with the parser of a cell."""

REQUIRED: Final = ("type", "origin", "destination", "currency", "kind", "charge", "unit", "rate")
_SAME_NAME: Final = tuple(name for name in COLUMNS if name not in ("kind", "from", "rate"))
