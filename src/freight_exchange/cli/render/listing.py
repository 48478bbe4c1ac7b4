"""How a listing is read and shown: as lines while it comes, or whole as a table, with its progress on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from freight_exchange.cli.render.tables import Column, show_json, show_table

if TYPE_CHECKING:
    from freight_exchange import Paginator

__all__ = ["progress", "read", "show_listing"]

T = TypeVar("T")


def _nobody(_: object) -> None:
    """Told of a record when nobody asks."""


async def show_listing(
    listing: Paginator[T],
    columns: Sequence[Column[T]],
    *,
    as_json: bool,
    nothing: str,
    limit: int | None = None,
    wanted: Callable[[T], bool] = lambda _: True,
    as_object: Callable[[T], object] = lambda record: record,
) -> list[T]:
    """Read a listing and show it; what was shown.

    Args:
        listing: The listing.
        columns: What the table says of each record.
        as_json: Whether each record is a JSON object on a line instead, as soon as it has come.
        nothing: The sentence for a listing that holds nothing.
        limit: How many to show at the most.
        wanted: Which records to show.
        as_object: What the JSON object says of a record.
    """

    def show(record: T) -> None:
        show_json(as_object(record))

    shown = await read(listing, limit=limit, wanted=wanted, each=show if as_json else _nobody)
    if not as_json:
        show_table(shown, columns, nothing=nothing)
    return shown


async def read(
    listing: Paginator[T],
    *,
    limit: int | None = None,
    wanted: Callable[[T], bool] = lambda _: True,
    each: Callable[[T], None] = _nobody,
) -> list[T]:
    """The records of a listing, with the progress of it.

    Args:
        listing: The listing.
        limit: How many to read at the most.
        wanted: Which records.
        each: Told of each, as soon as it has come.
    """
    found: list[T] = []
    pages = listing.pages()
    with progress("reading") as advance:
        try:
            async for page in pages:
                fresh = [record for record in page if wanted(record)][: None if limit is None else limit - len(found)]
                found += fresh
                advance(len(page))
                for record in fresh:
                    each(record)
                if len(found) == limit:
                    break
        finally:
            await pages.aclose()
    return found


@contextlib.contextmanager
def progress(what: str, unit: str = "records") -> Iterator[Callable[[int], None]]:
    """Shows on a terminal how much has come; gives what to tell of more. Nothing of it stays."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"{{task.description}} {{task.completed:.0f}} {unit}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda count: bar.update(task, advance=count)
