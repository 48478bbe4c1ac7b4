"""Tables for people, fitted to the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs
import click
from rich.cells import cell_len

from freight_exchange.cli.render.record import format_value
from freight_exchange.cli.terminal import warn

__all__ = ["Column", "print_table"]

T = TypeVar("T")

_GAP: Final = 2
"""Blanks between two columns."""

_MIN_WRAPPED_WIDTH: Final = 16
"""Minimum width of a column that wraps; a narrower one is unreadable."""


@attrs.frozen
class Column(Generic[T]):
    """Column of a table.

    Attributes:
        title: The heading, in upper case.
        value: Reads the value from a record; `None` is an empty cell.
        align_right: Whether to align to the right, as numbers are.
        drop_order: Columns above 0 are dropped on a narrow terminal, the highest first.
        wraps: Whether the text wraps before another column is dropped.
    """

    title: str
    value: Callable[[T], object]
    align_right: bool = False
    drop_order: int = 0
    wraps: bool = False


def print_table(records: Sequence[T], columns: Sequence[Column[T]], *, empty_message: str) -> None:
    """Print a table of the records, or `empty_message` to standard error if there are none."""
    if not records:
        warn(empty_message)
        return
    rows = [[format_value(column.value(record)) for column in columns] for record in records]
    titles = [column.title for column in columns]
    widths = [max(map(cell_len, cells)) for cells in zip(titles, *rows, strict=True)]
    if sys.stdout.isatty():
        _print_to_terminal(columns, rows, widths)
        return
    for row in [titles, *rows]:
        cells = zip(row, widths, columns, strict=True)
        line = (" " * _GAP).join(_pad(cell, width, align_right=column.align_right) for cell, width, column in cells)
        click.echo(line.rstrip())


def _pad(text: str, width: int, *, align_right: bool) -> str:
    padding = " " * (width - cell_len(text))
    return padding + text if align_right else text + padding


def _print_to_terminal(columns: Sequence[Column[Any]], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    min_widths = [_min_width(column, width) for column, width in zip(columns, widths, strict=True)]
    visible = _select_columns(columns, min_widths, console.width)
    fits = _total_width(min_widths, visible) <= console.width
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for index in visible:
        column = columns[index]
        # Texts wrap. A number stays on its line, but is never cut: that would make another number of it.
        table.add_column(
            Text(column.title),
            justify="right" if column.align_right else "left",
            no_wrap=column.align_right and fits,
            overflow="fold",
        )
    for row in rows:
        # `Text`, since a string would be read as markup: a commodity may be called [bold].
        table.add_row(*(Text(row[index]) for index in visible))
    console.print(table)
    if dropped := [column.title for index, column in enumerate(columns) if index not in visible]:
        warn(f"The terminal has no room for {', '.join(dropped)}.")


def _min_width(column: Column[Any], width: int) -> int:
    return min(width, max(_MIN_WRAPPED_WIDTH, cell_len(column.title))) if column.wraps else width


def _total_width(min_widths: Sequence[int], visible: Sequence[int]) -> int:
    return sum(min_widths[index] + _GAP for index in visible) - _GAP


def _select_columns(columns: Sequence[Column[Any]], min_widths: Sequence[int], width: int) -> list[int]:
    """Return the indexes of the required columns, and of the other columns that fit."""
    visible = [index for index, column in enumerate(columns) if not column.drop_order]
    optional = (index for index, column in enumerate(columns) if column.drop_order)
    for index in sorted(optional, key=lambda index: columns[index].drop_order):
        if _total_width(min_widths, [*visible, index]) <= width:
            visible.append(index)
    return sorted(visible)
