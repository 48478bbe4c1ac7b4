"""Requests to publish, in a CSV file: all rows are checked before the first is sent."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

import freight_exchange
from freight_exchange.cli.drafts import FIELDS, reject_past_arrival
from freight_exchange.errors import ValidationError
from freight_exchange.platform.text import clean

if TYPE_CHECKING:
    from freight_exchange import RateRequestDraft

__all__ = ["Row", "read_requests"]

_FIELDS: Final = {field.name: field for field in FIELDS["RateRequestDraft"]}
_FLAGS: Final = {"yes": True, "true": True, "no": False, "false": False}
_MAX_PROBLEMS: Final = 20


@attrs.frozen
class Row:
    """Row of the file.

    Attributes:
        line: Its line.
        key: Its identity in the journal: its content, and a number where rows are equal.
        draft: The request to publish.
    """

    line: int
    key: str
    draft: RateRequestDraft


def read_requests(path: Path, *, past: bool) -> list[Row]:
    """Read and check the file.

    Args:
        path: The file: UTF-8, with the names of the columns in the first line.
        past: Whether arrival dates in the past are accepted.

    Raises:
        UsageError: The file or some of its rows cannot be right; the message names each line and column.
    """
    try:
        # Spreadsheets begin UTF-8 with a byte order mark.
        with path.open(newline="", encoding="utf-8-sig") as lines:
            rows, problems = _read_rows(lines, past=past)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}; nothing was sent") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not in UTF-8: save it as CSV in UTF-8; nothing was sent") from None
    if problems:
        hidden = len(problems) - _MAX_PROBLEMS
        shown = [*map(clean, problems[:_MAX_PROBLEMS]), *([f"and {hidden} more"] if hidden > 0 else [])]
        raise click.UsageError("\n".join([f"{path} cannot be published; nothing was sent:", *shown]))
    if not rows:
        raise click.UsageError(f"{path} has no rows; nothing was sent")
    return rows


def _read_rows(lines: Iterable[str], *, past: bool) -> tuple[list[Row], list[str]]:
    table = csv.reader(lines, strict=True)
    columns: list[str] = []
    rows: list[Row] = []
    problems: list[str] = []
    seen: Counter[str] = Counter()
    try:
        for cells in table:
            if not any(cells):
                continue
            if not columns:
                columns = cells
                if problems := _check_columns(columns):
                    return [], [f"line {table.line_num}: {problem}" for problem in problems]
                continue
            if len(cells) != len(columns):
                problems.append(f"line {table.line_num}: {len(cells)} cells for {len(columns)} columns")
                continue
            filled = {column: cell.strip() for column, cell in zip(columns, cells, strict=True) if cell.strip()}
            draft, wrong = _build_draft(filled, past=past)
            problems += [f"line {table.line_num}, column {problem}" for problem in wrong]
            if draft is not None:
                content = repr(sorted(filled.items()))
                seen[content] += 1
                rows.append(Row(table.line_num, f"{content} #{seen[content]}", draft))
    except csv.Error as error:
        problems.append(f"line {table.line_num}: {error}")
    return rows, problems


def _check_columns(columns: Sequence[str]) -> list[str]:
    problems = [
        f"there is no column {field.name}" for field in _FIELDS.values() if field.required and field.name not in columns
    ]
    problems += [
        f"unknown column {name!r}; the columns are {', '.join(_FIELDS)}" for name in columns if name not in _FIELDS
    ]
    return problems + [f"column {name} is there {count} times" for name, count in Counter(columns).items() if count > 1]


def _build_draft(cells: Mapping[str, str], *, past: bool) -> tuple[RateRequestDraft | None, list[str]]:
    """Return the draft, or what is wrong, each beginning with the column."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, field in _FIELDS.items():
        if name not in cells:
            if field.required:
                problems.append(f"{name}: must not be empty")
            continue
        reader, expected = _READERS.get(name, (str, ""))
        try:
            values[name] = reader(cells[name])
        except (KeyError, ValueError):
            problems.append(f"{name}: must be {expected}, not {cells[name]!r}")
    if problems:
        return None, problems
    try:
        draft = freight_exchange.RateRequestDraft(**values)
        reject_past_arrival(draft.arrival, past=past)
    except ValidationError as error:
        return None, [f"{error.field}: {error}"]
    except click.UsageError as error:
        return None, [f"arrival: {error.message.removesuffix('; nothing was sent')}"]
    return draft, []


_READERS: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "arrival": (datetime.fromisoformat, "a date such as 2027-03-01"),
    "quantity": (int, "a whole number"),
    "hazardous": (lambda text: _FLAGS[text.casefold()], "yes or no"),
}
