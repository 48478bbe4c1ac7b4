"""Listing on a server with quirks, and a reader of its pages without I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Literal, TypeVar

import attrs

from freight_exchange.errors import APIStatusError, BadRequestError, DecodeError, NotFoundError, ServerError
from freight_exchange.paging import PageSizes
from freight_exchange.paging.core.page_sizes import WantedSize
from freight_exchange.paging.core.seen_rows import SeenRows
from freight_exchange.paging.core.single_pass import SinglePass
from freight_exchange.paging.core.sweep import Sweep

T = TypeVar("T")

End = Literal["empty", "400", "404", "416", "422", "500", "last page"]
ENDS: tuple[End, ...] = ("empty", "400", "404", "416", "422", "500", "last page")


def unreadable(row: object) -> DecodeError:
    return DecodeError("the row is not a record", path="rows.0", raw=row)


@attrs.frozen
class Rows(Generic[T]):
    records: tuple[T, ...]
    broken: tuple[DecodeError, ...] = ()


@attrs.define
class ListingServer(Generic[T]):
    """Server of a listing. `broken` contains the rows that cannot be read."""

    rows: list[T]
    clamp: int | None = None
    stride: Literal["clamped", "asked"] = "clamped"
    end: End = "empty"
    offset_ignored: bool = False
    own_page_size: int | None = None
    broken: Callable[[T], bool] = lambda _: False
    hidden: Callable[[T], bool] = lambda _: False
    """Rows that the user may not see, which are removed after the page was cut."""
    most_rows: int | None = None
    """Rows of a page above which the server refuses it."""
    clamps: Callable[[int], int | None] | None = None
    """Clamp of a request, by the number of requests before it."""
    requests: list[tuple[int, int]] = attrs.Factory(list)
    last_page: list[T] = attrs.Factory(list)
    most_again: int = 0
    """Longest row of pages inside the listing that repeated the page before them."""
    _again: int = 0

    def page(self, number: int, size: int) -> Rows[T]:
        self.requests.append((number, size))
        if self.clamps is not None:
            self.clamp = self.clamps(len(self.requests) - 1)
        if self.most_rows is not None and size > self.most_rows:
            raise BadRequestError("rowsperpage is too large", status=400)
        size = self.own_page_size or size
        most = size if self.clamp is None else min(size, self.clamp)
        start = 0 if self.offset_ignored else number * (most if self.stride == "clamped" else size)
        if number and start >= len(self.rows):
            return self._beyond_end(most)
        page = self.rows[start : start + most]
        follows = len(self.requests) > 1 and number == self.requests[-2][0] + 1
        alike = sorted(map(repr, page)) == sorted(map(repr, self.last_page))
        self._again = self._again + 1 if follows and alike else 0
        self.most_again = max(self.most_again, self._again)
        self.last_page = page
        return self._read(page)

    def _read(self, page: list[T]) -> Rows[T]:
        page = [row for row in page if not self.hidden(row)]
        return Rows(
            tuple(row for row in page if not self.broken(row)),
            tuple(unreadable(row) for row in page if self.broken(row)),
        )

    def _beyond_end(self, most: int) -> Rows[T]:
        match self.end:
            case "400":
                raise BadRequestError("there is no such page", status=400)
            case "404":
                raise NotFoundError("No records found.", status=404)
            case "416" | "422":
                raise APIStatusError("there is no such page", status=int(self.end))
            case "500":
                raise ServerError("the service failed", status=500)
            case "last page" if self.rows:
                last = (len(self.rows) - 1) // most * most
                return self._read(self.rows[last:])
            case _:
                return Rows(())


def same(record: Hashable) -> Hashable:
    return record


def read(
    server: ListingServer[T],
    *,
    page_size: int = 10,
    sizes: PageSizes | None = None,
    identity: Callable[[T], Hashable] | None = same,
    start: int = 0,
    sweep: bool = False,
    meanwhile: Sequence[Callable[[list[T]], None]] = (),
    most_pages: int = 2000,
) -> list[T]:
    """Read the whole listing; apply the next change of `meanwhile` between two pages."""
    walk = reader(page_size, sizes, identity, start=start, sweep=sweep)
    happenings = deque(meanwhile)
    found: list[T] = []
    for _ in range(most_pages):
        try:
            page = server.page(walk.number, walk.size)
        except APIStatusError as error:
            if not walk.fail(error):
                raise
        else:
            found += walk.take(page)
        if walk.ended:
            if isinstance(walk, Sweep):
                found += walk.rest()
                if not walk.complete:
                    raise IncompleteError(found)
            return found
        assert not (isinstance(walk, Sweep) and walk.is_unstable), "the walk gave up"
        if happenings:
            happenings.popleft()(server.rows)
    raise AssertionError(f"the walk did not end within {most_pages} pages")


class IncompleteError(Exception):
    """Error of a sweep that ended without proof; the argument is the rows it found."""


def reader(
    page_size: int,
    sizes: PageSizes | None = None,
    identity: Callable[[T], Hashable] | None = same,
    *,
    start: int = 0,
    sweep: bool = False,
    probes_offset: bool = False,
) -> SinglePass[T] | Sweep[T]:
    """Return a reader of the listing."""
    sizes = sizes or PageSizes()
    if sweep:
        return Sweep("operation", sizes, page_size, identity, start=start)
    return SinglePass(
        WantedSize("operation", sizes, page_size, start), SeenRows(identity), start=start, probes_offset=probes_offset
    )


def learned(rows: int) -> PageSizes:
    """Return the sizes of a client that once received a page of this many rows."""
    sizes = PageSizes()
    sizes.record_rows("operation", rows)
    return sizes
