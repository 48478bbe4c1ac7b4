"""One page: as it came, and as it is handed out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar, overload

import attrs

__all__ = ["Page", "RawPage"]

T_co = TypeVar("T_co", covariant=True)


class RawPage(Protocol[T_co]):
    """One page as it came: records, and rows that could not be read but count as rows."""

    @property
    def records(self) -> Sequence[T_co]: ...
    @property
    def broken(self) -> Sequence[Exception]: ...


@attrs.frozen
class Page(Sequence[T_co]):
    """The records that one page added to a listing.

    Attributes:
        records: They, without those that earlier pages brought.
        number: The page's number, from 0: the service's `offset` (service document, 4).
        page_size: The rows to ask for in the next page. A later `pages(start=number + 1)` finds its place only with
            this `page_size`: it can be less than what was asked for, where the service cuts pages. 0 where the
            listing has no pages.
    """

    records: tuple[T_co, ...]
    number: int
    page_size: int

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        return self.records[index]

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.records)
