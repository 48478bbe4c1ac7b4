"""What is printed: tables for people, and for programs one JSON object a line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

import attrs
import click

from freight_exchange import wire
from freight_exchange.cli.exit_status import NotPrintedError, cannot_be_printed
from freight_exchange.cli.render.text import escaped_json, fitted, width
from freight_exchange.cli.warn import aside
from freight_exchange.platform.text import clean

__all__ = ["Column", "instant", "plain", "said", "show_details", "show_json", "show_table", "tell"]

T = TypeVar("T")

_BETWEEN: Final = 2
"""Blanks between two columns."""

_FOLDED: Final = 16
"""What a text that may be folded needs at the most: in less it cannot be read."""


@attrs.frozen
class Column(Generic[T]):
    """A column of a table: its title, and what it says of a record.

    Attributes:
        title: In upper case, as a heading.
        of: The value of a record; `None` is an empty cell.
        right: Whether it is set to the right, as numbers are.
        spare: Where a terminal has no room for all columns, those above 0 give way, the highest first.
        folds: Whether it goes on in the next line before another column gives way.
    """

    title: str
    of: Callable[[T], object]
    right: bool = False
    spare: int = 0
    folds: bool = False


def show_table(records: Sequence[T], columns: Sequence[Column[T]], *, nothing: str) -> None:
    """A table of the records; without any, the sentence that says so, on standard error."""
    if not records:
        aside(nothing)
        return
    rows = [[said(column.of(record)) for column in columns] for record in records]
    titles = [column.title for column in columns]
    widths = [max(width(row[at]) for row in [titles, *rows]) for at in range(len(columns))]
    if sys.stdout.isatty():
        _show_richly(columns, rows, widths)
        return
    for row in [titles, *rows]:
        cells = zip(row, widths, columns, strict=True)
        click.echo(
            (" " * _BETWEEN).join(fitted(cell, wide, right=column.right) for cell, wide, column in cells).rstrip()
        )


def _show_richly(columns: Sequence[Column[Any]], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    needs = [_least(column, wide) for column, wide in zip(columns, widths, strict=True)]
    shown = _with_room(columns, needs, console.width)
    # Cut, a number would be another one.
    fits = _together(needs, shown) <= console.width
    table = Table(box=None, pad_edge=False, padding=(0, _BETWEEN, 0, 0), header_style="bold")
    for at in shown:
        column = columns[at]
        # A text that has no room goes on in the next line; a number does not.
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=column.right and fits,
            overflow="fold",
        )
    for row in rows:
        # As texts, and not as markup: a commodity may be called [bold].
        table.add_row(*(Text(row[at]) for at in shown))
    console.print(table)
    if left_out := [column.title for at, column in enumerate(columns) if at not in shown]:
        aside(f"The terminal has no room for {', '.join(left_out)}.")


def _least(column: Column[Any], wide: int) -> int:
    """The columns of the terminal that it cannot do without."""
    return min(wide, max(_FOLDED, width(column.title))) if column.folds else wide


def _together(needs: Sequence[int], shown: Sequence[int]) -> int:
    return sum(needs[at] + _BETWEEN for at in shown) - _BETWEEN


def _with_room(columns: Sequence[Column[Any]], needs: Sequence[int], room: int) -> list[int]:
    """The columns to show, by their places: those that are needed, and of the others those that there is room for."""
    shown = [at for at, column in enumerate(columns) if not column.spare]
    for at in sorted((at for at, column in enumerate(columns) if column.spare), key=lambda at: columns[at].spare):
        if _together(needs, [*shown, at]) <= room:
            shown.append(at)
    return sorted(shown)


def show_details(pairs: Iterable[tuple[str, object]], *, err: bool = False) -> None:
    """What is known of one record, a line for each thing; what is not known is left out. `err`: on standard error."""
    known = [(name, said(value)) for name, value in pairs if value not in (None, "")]
    indent = max((width(name) for name, _ in known), default=0)
    for name, value in known:
        (aside if err else click.echo)(f"{fitted(name, indent)}  {value}")


def tell(sentence: str, facts: Mapping[str, object], *, as_json: bool) -> None:
    """What was done: a sentence, or the same as a JSON object.

    Raises:
        NotPrintedError: It cannot be printed.
    """
    try:
        if as_json:
            show_json(facts)
        else:
            click.echo(sentence)
    except OSError as error:
        if not cannot_be_printed(error):
            raise
        raise NotPrintedError(error) from None


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


def instant(moment: datetime) -> str:
    """A moment as JSON has it, to the second."""
    return moment.isoformat(" ", "seconds")


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
