"""Tell an ignored page number from a repeated last page. Pure."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["OffsetProbe"]


class OffsetProbe:
    """Trial of a service whose second page equals the first.

    It asks, with one row a page, for the page of a row that differs from the first one. A service that ignores `offset`
    answers with the first row. Then it asks for the first page with one row: a row inserted meanwhile would look the
    same. A service that answers with more than one row has a page size of its own, or is not told which page it is
    asked for: its listing may have ended, and may not.

    Attributes:
        number: The page to ask for, with one row.
        ended: The trial has its result.
        offset_ignored: The service answers every page number with the first page.
        undecided: The service may do so, and may repeat its only page.
    """

    SIZE = 1

    def __init__(self, page: list[Hashable], other: int) -> None:
        self._page = page
        self.number = other
        self.ended = False
        self.offset_ignored = False
        self.undecided = False

    @classmethod
    def of(cls, page: list[Hashable]) -> OffsetProbe | None:
        """The trial for a listing with this first page; `None` where its rows cannot show a difference."""
        other = next((place for place, row in enumerate(page) if row != page[0]), None)
        return None if other is None else cls(page, other)

    def take(self, page: list[Hashable]) -> None:
        """Take in the page that was asked for."""
        if page != self._page[:1]:
            self.ended = True
            # More rows than one were never asked for.
            self.undecided = len(page) > self.SIZE
        elif self.number:
            self.number = 0
        else:
            self.offset_ignored = self.ended = True
