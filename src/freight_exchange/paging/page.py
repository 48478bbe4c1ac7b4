"""One page: its request, its content as received, and its records for the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar, overload

import attrs

from freight_exchange.models._base import Serializable

__all__ = ["Page", "PageRequest", "RawPage", "Step"]

T_co = TypeVar("T_co", covariant=True)

Step = Literal["first", "second", "page", "last row", "alive", "probe"]
"""Role of a requested page.

- `first`: the first page.
- `second`: the second page, in the size of a short first one.
- `page`: any other page.
- `last row`: the last row that a short page would have if it were full; requested if rows follow the short page.
- `alive`: the first page again, to see whether the service answers at all.
- `probe`: a page of an offset probe.
"""


class PageRequest(NamedTuple):
    """Next page to request."""

    number: int
    size: int
    step: Step


class RawPage(Protocol[T_co]):
    """Page as received: its records, and its unreadable rows, which count as rows."""

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
        page_size: Rows to request in the next page; less than requested if the service cuts pages. To continue later
            with `pages(start=number + 1)`, use this `page_size`. 0 if the listing has no pages.
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
