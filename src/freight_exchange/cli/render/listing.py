"""Listings: JSON lines while they arrive, or a table, with progress on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from freight_exchange.cli.render.record import print_json
from freight_exchange.cli.render.table import Column, print_table

if TYPE_CHECKING:
    from freight_exchange import Paginator

__all__ = ["collect", "print_listing", "show_progress"]

T = TypeVar("T")


async def print_listing(
    listing: Paginator[T],
    columns: Sequence[Column[T]],
    *,
    as_json: bool,
    empty_message: str,
    limit: int | None = None,
    is_included: Callable[[T], bool] = lambda _: True,
    to_json: Callable[[T], object] = lambda record: record,
) -> list[T]:
    """Read a listing, print it, and return the printed records.

    Args:
        listing: The listing.
        columns: The columns of the table.
        as_json: Whether to print each record as JSON as soon as it arrives, instead of a table.
        empty_message: The message for an empty table.
        limit: The maximum number of records.
        is_included: The filter.
        to_json: Converts a record for JSON.
    """

    def print_record(record: T) -> None:
        if as_json:
            print_json(to_json(record))

    records = await collect(listing, limit=limit, is_included=is_included, on_record=print_record)
    if not as_json:
        print_table(records, columns, empty_message=empty_message)
    return records


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
    with show_progress("reading") as advance:
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
def show_progress(description: str, unit: str = "records") -> Iterator[Callable[[int], None]]:
    """Show a transient counter on a terminal; yield the function that advances it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"{{task.description}} {{task.completed:.0f}} {unit}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda count: bar.update(task, advance=count)
