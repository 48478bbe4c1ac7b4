"""Probe that tells a service that ignores page numbers from one that repeats its last page. Pure."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["OffsetProbe"]


class OffsetProbe:
    """Probe of a service whose second page equals the first.

    The probe takes a row that differs from the first one, and requests its page with one row per page. A service that
    ignores `offset` answers with the first row. So does another service if a row was inserted meanwhile: the probe
    then requests the first page with one row too. A reply with several rows decides nothing: the service has a fixed
    page size, or a middlebox drops the page number.

    Attributes:
        number: The page to request, with one row.
        ended: The probe has its result.
        offset_ignored: The service answers each page number with the first page.
        undecided: The service may ignore page numbers, or repeat its only page.
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
