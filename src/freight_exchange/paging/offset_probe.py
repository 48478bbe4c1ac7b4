"""Probe that distinguishes an ignored page number from a repeated last page. Pure."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["OffsetProbe"]


class OffsetProbe:
    """Probe of a service whose second page equals the first.

    It requests, with one row per page, the page of a row that differs from the first one. A service that ignores
    `offset` answers with the first row. Then it requests the first page with one row, because a row inserted meanwhile
    would look the same. A reply with several rows decides nothing: the service has a page size of its own, or a
    middlebox drops the page number.

    Attributes:
        number: The page to request, with one row.
        ended: The probe has its result.
        offset_ignored: The service answers every page number with the first page.
        undecided: The service may do so, or repeat its only page.
    """

    SIZE = 1

    def __init__(self, page: list[Hashable], other: int) -> None:
        self._page = page
        self.number = other
        self.ended = False
        self.offset_ignored = False
        self.undecided = False

    @classmethod
    def make(cls, page: list[Hashable]) -> OffsetProbe | None:
        """Make the probe for a listing with this first page; `None` if all its rows are equal."""
        other = next((place for place, row in enumerate(page) if row != page[0]), None)
        return None if other is None else cls(page, other)

    def take(self, page: list[Hashable]) -> None:
        """Process the requested page."""
        if page != self._page[:1]:
            self.ended = True
            # Only one row was requested.
            self.undecided = len(page) > self.SIZE
        elif self.number:
            self.number = 0
        else:
            self.offset_ignored = self.ended = True
