"""One page: its request, its content as received, and its records for the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar, overload

import attrs

from freight_exchange.models._base import Serializable

__all__ = ["Page", "PageRequest", "RawPage", "Step"]

T_co = TypeVar("T_co", covariant=True)

Step = Literal["first", "second", "page", "last row", "alive", "probe"]
"""Role of the page requested: the first one; the second in the size of a short first one; any other; the last row of a
short page that rows follow; the first one again, to show that the service answers; or a page of an offset probe."""


class PageRequest(NamedTuple):
    """Page that a pass requests next."""

    number: int
    size: int
    step: Step


class RawPage(Protocol[T_co]):
    """Page as received: records, and unreadable rows, which count as rows."""

    @property
    def records(self) -> Sequence[T_co]: ...
    @property
    def broken(self) -> Sequence[Exception]: ...


@attrs.frozen
class Page(Serializable, Sequence[T_co], Generic[T_co]):
    """Records that one page added to a listing.

    Attributes:
        records: The records, without those of earlier pages.
        number: The page's number, from 0: the service's `offset` (service document, 4).
        page_size: Rows to request in the next page. A later `pages(start=number + 1)` finds its position only with
            this `page_size`: it is less than requested if the service cuts pages. 0 if the listing has no pages.
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
