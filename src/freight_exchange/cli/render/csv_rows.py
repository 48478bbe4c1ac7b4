"""Records as CSV: one row each, fields of nested records in columns such as `offer.amount`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any, Final, get_args

import attrs
import click

from freight_exchange.base import Serializable
from freight_exchange.platform.text import clean
from freight_exchange.validation import NUMERAL

__all__ = ["csv_columns", "print_csv_header", "print_csv_row"]

_FORMULA: Final = ("=", "+", "-", "@")
"""First characters of a formula in a spreadsheet."""


def csv_columns(cls: Any, *, exclude: Collection[str] = (), prefix: str = "") -> list[str]:
    """Return the columns of a class of records. The columns of a nested record replace that of its field.

    Args:
        cls: The class.
        exclude: Names of fields to leave out.
        prefix: Prefix of each column.
    """
    columns: list[str] = []
    for field in attrs.fields(attrs.resolve_types(cls)):
        if field.name in exclude:
            continue
        nested = _nested_class(field.type)
        if nested is None:
            columns.append(f"{prefix}{field.name}")
        else:
            columns += csv_columns(nested, prefix=f"{prefix}{field.name}.")
    return columns


def print_csv_header(columns: Sequence[str]) -> None:
    """Print the first line."""
    # Names of fees come from the service.
    _print_line([_format_cell(column) for column in columns])


def print_csv_row(columns: Sequence[str], record: Mapping[str, Any]) -> None:
    """Print a record that is already converted to JSON types."""
    _print_line([_format_cell(_find(record, column.split("."))) for column in columns])


def _nested_class(kind: Any) -> type[Serializable] | None:
    kinds = [part for part in get_args(kind) or (kind,) if part is not NoneType]
    is_record = len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], Serializable)
    return kinds[0] if is_record else None


def _find(record: Any, path: Sequence[str]) -> object:
    for name in path:
        record = record.get(name) if isinstance(record, Mapping) else None
    return record


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, list, Mapping)):
        return json.dumps(value) if value != {} else ""
    text = clean(str(value))
    # A text of the service must not become a formula of a spreadsheet; numbers stay as they are.
    return f"'{text}" if text.lstrip().startswith(_FORMULA) and not NUMERAL.fullmatch(text) else text


def _print_line(cells: Sequence[str]) -> None:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    click.echo(line.getvalue())
