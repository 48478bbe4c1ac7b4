"""Errors of a listing that have been reported, so that none is reported twice and not too many are. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError

__all__ = ["MOST_TOLD", "ReportedErrors"]

MOST_TOLD: Final = 100
"""Errors that one reading of a listing reports one by one; the others it counts."""


class ReportedErrors:
    """What one reading of a listing has reported: the last page may come again, and a sweep sees every row twice."""

    def __init__(self) -> None:
        self._most: Counter[tuple[str, str]] = Counter()
        self._left = MOST_TOLD

    def news(self, errors: tuple[DecodeError, ...]) -> tuple[list[DecodeError], int]:
        """The errors of one page without those of earlier pages, and how many more there are than are reported.

        Of rows that are alike, those that are more than before count.
        """
        here: Counter[tuple[str, str]] = Counter()
        news: list[DecodeError] = []
        for number, error in enumerate(errors):
            if not self._left:
                return news, len(errors) - number
            # By the row itself: its place, which the path names, changes as rows move.
            row = (error.message, repr(error.raw))
            here[row] += 1
            if here[row] > self._most[row]:
                news.append(error)
                self._left -= 1
        self._most |= here
        return news, 0
