"""What is printed: tables for people, and for programs one JSON object a line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

import attrs
import click

from freight_exchange import wire
from freight_exchange.cli.text import clean, escaped_json, fitted, width

__all__ = ["Column", "plain", "said", "show_details", "show_json", "show_table"]

T = TypeVar("T")


@attrs.frozen
class Column(Generic[T]):
    """A column of a table: its title, and what it says of a record.

    Attributes:
        title: In upper case, as a heading.
        of: The value of a record; `None` is an empty cell.
        right: Whether it is set to the right, as numbers are.
    """

    title: str
    of: Callable[[T], object]
    right: bool = False


def show_table(records: Sequence[T], columns: Sequence[Column[T]], *, nothing: str) -> None:
    """A table of the records; without any, the sentence that says so, on standard error."""
    if not records:
        click.echo(nothing, err=True)
        return
    rows = [[said(column.of(record)) for column in columns] for record in records]
    if sys.stdout.isatty():
        _show_richly(columns, rows)
        return
    titles = [column.title for column in columns]
    widths = [max(width(row[at]) for row in [titles, *rows]) for at in range(len(columns))]
    for row in [titles, *rows]:
        cells = (
            fitted(cell, columns_, right=column.right)
            for cell, columns_, column in zip(row, widths, columns, strict=True)
        )
        click.echo("  ".join(cells).rstrip())


def _show_richly(columns: Sequence[Column[Any]], rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(column.title), justify="right" if column.right else "left", no_wrap=column.right)
    for row in rows:
        # As texts, and not as markup: a commodity may be called [bold].
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def show_details(pairs: Iterable[tuple[str, object]]) -> None:
    """What is known of one record, a line for each thing; what is not known is left out."""
    known = [(name, said(value)) for name, value in pairs if value not in (None, "")]
    indent = max((width(name) for name, _ in known), default=0)
    for name, value in known:
        click.echo(f"{fitted(name, indent)}  {value}")


def show_json(value: object) -> None:
    """One JSON object on a line of its own. Numbers are as the service wrote them, digit by digit."""
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    click.echo(escaped_json(wire.dump(plain(value)).decode(), ascii_only=ascii_only))


def said(value: object) -> str:
    """A value as people read it, fit for a terminal."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Decimal():
            return f"{value:f}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}" + ("" if value.tzinfo is None else f" {clean(str(value.tzname()))}")
        case date():
            return value.isoformat()
        case _:
            return clean(str(value))


def plain(value: object) -> Any:
    """A record as JSON has it: its fields by their names in this package, dates as the service writes them."""
    kind: Any = type(value)
    match value:
        case _ if attrs.has(kind):
            return {field.name: plain(getattr(value, field.name)) for field in attrs.fields(kind)}
        case datetime():
            return value.isoformat(" ")
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value
