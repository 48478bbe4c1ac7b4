"""Reader of requests to publish from a CSV file. All rows are checked before the first is sent."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import attrs

from freight_exchange.errors import ValidationError
from freight_exchange.models import RateRequestDraft
from freight_exchange.platform.csv import CsvTable, Parser, point, yes_or_no

__all__ = ["Row", "read_requests"]


@attrs.frozen
class Row:
    """Row of a file of requests.

    Attributes:
        line: Its line in the file.
        key: Its identity in the journal: its content, with a number to distinguish equal rows.
        draft: The request to publish.
    """

    line: int
    key: str
    draft: RateRequestDraft


def read_requests(path: str | os.PathLike[str]) -> list[Row]:
    """Read and check the requests of a CSV file.

    The first line names the columns, which are the arguments of `RateRequestDraft`. Dates are written as `2027-03-01`,
    and `hazardous` as `yes` or `no`.

    Raises:
        ValidationError: Rows are wrong, or there are none; the message has each problem with its line and column.
        OSError: The file cannot be opened.
    """
    table = CsvTable(Path(path), _COLUMNS, _REQUIRED)
    rows: list[Row] = []
    seen: Counter[str] = Counter()
    for row in table.rows():
        content = repr(sorted(row.cells.items()))
        seen[content] += 1
        try:
            rows.append(Row(row.line, f"{content} #{seen[content]}", RateRequestDraft(**row.values)))
        except ValidationError as error:
            table.add_problem(row.line, error.field, error)
    table.check()
    if not rows:
        raise ValidationError(f"{Path(path).name} has no rows", field="path")
    return rows


def _text(cell: str, column: str) -> str:
    return cell


def _time(cell: str, column: str) -> datetime:
    try:
        return datetime.fromisoformat(cell)
    except ValueError:
        raise ValidationError(f"{column} must be a date such as 2027-03-01, not {cell!r}", field=column) from None


def _whole_number(cell: str, column: str) -> int:
    try:
        return int(cell)
    except ValueError:
        raise ValidationError(f"{column} must be a whole number, not {cell!r}", field=column) from None


_PARSERS: Final[Mapping[str, Parser]] = {
    "arrival": _time, "quantity": _whole_number, "hazardous": yes_or_no,
    **dict.fromkeys(("length", "width", "height", "weight"), point),
}  # fmt: skip
_PARAMETERS: Final = inspect.signature(RateRequestDraft).parameters
_COLUMNS: Final = {name: _PARSERS.get(name, _text) for name in _PARAMETERS}
_REQUIRED: Final = [name for name, parameter in _PARAMETERS.items() if parameter.default is inspect.Parameter.empty]
