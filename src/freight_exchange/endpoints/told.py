"""What a reader of a listing has been told of, so that nothing is told twice. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError

__all__ = ["Told"]


class Told:
    """What one reading of a listing has told of: the last page may come again, and a sweep sees every row twice."""

    def __init__(self) -> None:
        self._most: Counter[tuple[str, str]] = Counter()

    def news(self, errors: tuple[DecodeError, ...]) -> list[DecodeError]:
        """The errors of one page without those of earlier pages; of rows that are alike, those that are more."""
        here: Counter[tuple[str, str]] = Counter()
        news: list[DecodeError] = []
        for error in errors:
            # By the row itself: its place, which the path names, changes as rows move.
            row = (error.message, repr(error.raw))
            here[row] += 1
            if here[row] > self._most[row]:
                news.append(error)
        self._most |= here
        return news
