"""Order of the records in a listing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from freight_exchange.sandbox.model.state import Offer, Request

__all__ = ["Sorter"]

_T = TypeVar("_T")
_WORD = 2**64 - 1


class Sorter:
    """Order of the listings. After `reorder` it is random, and the order of the profile has no effect."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._shuffled = False

    def reorder(self) -> None:
        self._seed += 1
        self._shuffled = True

    def requests(self, order: str, records: list[Request]) -> list[Request]:
        return self._sort(order, records, lambda r: (r.created, r.index), lambda r: (r.updated, r.index))

    def offers(self, order: str, records: list[Offer]) -> list[Offer]:
        return self._sort(order, records, lambda o: (o.created, o.index), lambda o: (o.created, o.index))

    def plain(self, order: str, records: list[_T], index: Callable[[_T], int]) -> list[_T]:
        """Sort records without times."""
        return self._sort(order, records, lambda r: (0.0, index(r)), lambda r: (0.0, index(r)))

    def _sort(
        self,
        order: str,
        records: list[_T],
        created: Callable[[_T], tuple[float, int]],
        updated: Callable[[_T], tuple[float, int]],
    ) -> list[_T]:
        if self._shuffled or order == "random":
            records.sort(key=lambda record: _mix(self._seed, created(record)[1]))
        elif order == "updated":
            records.sort(key=updated, reverse=True)
        elif order == "index":
            records.sort(key=lambda record: created(record)[1])
        else:
            records.sort(key=created, reverse=order == "newest")
        return records


def _mix(seed: int, index: int) -> int:
    """Hash a seed and an index (finalizer of splitmix64)."""
    mixed = (index * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03) & _WORD
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _WORD
    return mixed ^ (mixed >> 31)
