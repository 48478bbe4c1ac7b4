"""Listings: JSON lines or CSV while they arrive, or a table, with progress on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from freight_exchange.cli.render.csv_rows import print_csv_header, print_csv_row
from freight_exchange.cli.render.record import print_json, to_json
from freight_exchange.cli.render.table import Column, print_table

if TYPE_CHECKING:
    from freight_exchange import Paginator
    from freight_exchange.cli.output import Output

__all__ = ["collect", "print_listing", "print_records", "show_progress", "start_output"]

T = TypeVar("T")


async def print_listing(
    listing: Paginator[T],
    columns: Sequence[Column[T]],
    *,
    output: Output,
    empty_message: str,
    csv_columns: Sequence[str],
    limit: int | None = None,
    is_included: Callable[[T], bool] = lambda _: True,
    convert: Callable[[T], Mapping[str, Any]] = to_json,
) -> list[T]:
    """Read a listing, print it, and return the printed records.

    Args:
        listing: The listing.
        columns: The columns of the table.
        output: The format. JSON and CSV are printed as the records arrive.
        empty_message: The message for an empty table.
        csv_columns: The columns of CSV.
        limit: The maximum number of records.
        is_included: The filter.
        convert: Converts a record for JSON and CSV.
    """
    if output is None:
        records = await collect(listing, limit=limit, is_included=is_included)
        print_table(records, columns, empty_message=empty_message)
        return records
    print_converted = start_output(output, csv_columns)
    return await collect(
        listing, limit=limit, is_included=is_included, on_record=lambda record: print_converted(convert(record))
    )


def print_records(
    records: Sequence[T],
    columns: Sequence[Column[T]],
    *,
    output: Output,
    empty_message: str,
    csv_columns: Sequence[str],
) -> None:
    """Print a list of records in the format of `print_listing`."""
    if output is None:
        print_table(records, columns, empty_message=empty_message)
        return
    print_converted = start_output(output, csv_columns)
    for record in records:
        print_converted(to_json(record))


def start_output(output: Literal["json", "csv"], csv_columns: Sequence[str]) -> Callable[[Mapping[str, Any]], None]:
    """Print the header of CSV; return the function that prints a converted record."""
    if output == "json":
        return print_json
    print_csv_header(csv_columns)
    return partial(print_csv_row, csv_columns)


async def collect(
    listing: Paginator[T],
    *,
    limit: int | None = None,
    is_included: Callable[[T], bool] = lambda _: True,
    on_record: Callable[[T], None] = lambda _: None,
) -> list[T]:
    """Read the records of a listing, with progress.

    Args:
        listing: The listing.
        limit: The maximum number of records.
        is_included: The filter.
        on_record: Called with each record as soon as it arrives.
    """
    records: list[T] = []
    pages = listing.pages()
    with show_progress("records read:") as advance:
        try:
            async for page in pages:
                room = None if limit is None else limit - len(records)
                included = [record for record in page if is_included(record)][:room]
                records += included
                advance(len(page))
                for record in included:
                    on_record(record)
                if len(records) == limit:
                    break
        finally:
            await pages.aclose()
    return records


@contextlib.contextmanager
def show_progress(description: str) -> Iterator[Callable[[int], None]]:
    """Show a description and a transient counter on a terminal; yield the function that advances the counter."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda count: bar.update(task, advance=count)
