"""Listing on a server with quirks."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Literal, TypeVar

import attrs

from freight_exchange.errors import APIStatusError, BadRequestError, DecodeError, NotFoundError, ServerError

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
