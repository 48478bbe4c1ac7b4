"""Tests of a feed's walk through a window of requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from tests.unit.feed.paging_legacy.listing_server import Rows

from freight_exchange.feed.paging_legacy.page_sizes import PageSizes
from freight_exchange.feed.paging_legacy.window_walk import WindowWalk

CLAMP = 3


def walk(listing: range, page_of: Callable[[list[int], int], list[int]], shuffled: Random | None = None) -> set[int]:
    """Read the listing in pages of `CLAMP` rows, each changed by `page_of`, and return the rows that came."""
    walk: WindowWalk[int] = WindowWalk("operation", PageSizes(), 1000, lambda row: row)
    found: set[int] = set()
    while not walk.ended:
        rows = [*listing] if shuffled is None else shuffled.sample(listing, len(listing))
        size = min(walk.size, CLAMP)
        page = page_of(rows[walk.number * size :][:size], walk.number)
        found.update(page)
        walk.take(Rows(tuple(page)))
    return found


def with_one_twice(chance: Random, rows: list[int], _: int) -> list[int]:
    return [*rows, chance.choice(rows)] if rows else []


@pytest.mark.parametrize("doubled", [{0}, {1}, {0, 2}, {3}, {0, 1, 2, 3}])
@pytest.mark.parametrize("length", [3, 5, 9, 10, 11])
def test_repeated_rows_in_a_page_do_not_make_a_later_page_the_last(length: int, doubled: set[int]) -> None:
    assert walk(range(length), lambda rows, number: rows * (2 if number in doubled else 1)) == {*range(length)}


def test_a_listing_in_another_order_each_time_is_read_until_no_row_can_be_missing() -> None:
    """A row that comes twice in one page does not show that the listing moved: only rows of other pages do."""
    lost = 0
    for seed in range(200):
        chance = Random(seed)
        found = walk(range(8), partial(with_one_twice, chance), chance)
        lost += found != {*range(8)}
    assert lost == 0


@pytest.mark.parametrize(("length", "seed"), [(5, 2137), (8, 2339), (14, 538), (14, 1054), (14, 2055)])
def test_quiet_rounds_do_not_end_a_walk_that_has_fewer_rows_than_the_listing_was_long(length: int, seed: int) -> None:
    """If the order changes with each page, a row can be missing from several rounds in succession."""
    assert walk(range(length), lambda rows, _: rows, Random(seed)) == {*range(length)}


def test_walk_ends_if_a_row_is_listed_on_two_pages() -> None:
    listing = [0, 1, 2, 3, 4, 5, 0, 6]
    walk: WindowWalk[int] = WindowWalk("operation", PageSizes(), 1000, lambda row: row)
    found: set[int] = set()
    while not walk.ended and not walk.is_unstable:
        size = min(walk.size, CLAMP)
        page = listing[walk.number * size :][:size]
        found.update(page)
        walk.take(Rows(tuple(page)))
    assert found == {*listing}
    assert not walk.is_unstable


@pytest.mark.parametrize("longest", [0, 40])
@pytest.mark.parametrize("listing", [[0, 0], [0, 0, 1], [0, 1, 1, 2], [0, 0, 1, 1, 2, 2], [*range(5), *range(5)]])
def test_single_page_with_repeated_rows_costs_no_further_round(listing: list[int], longest: int) -> None:
    sizes = PageSizes()
    sizes.record_rows("operation", longest)
    walk: WindowWalk[int] = WindowWalk("operation", sizes, 1000, lambda row: row)
    requests = 0
    while not walk.ended:
        page = listing[walk.number * walk.size :][: walk.size]
        walk.take(Rows(tuple(page)))
        requests += 1
    assert requests <= 4


@pytest.mark.parametrize("stride", ["clamped", "asked"])
def test_cut_page_with_repeated_rows_is_not_the_last(stride: str) -> None:
    listing = [row for row in range(12) for _ in (0, 1)]
    walk: WindowWalk[int] = WindowWalk("operation", PageSizes(), 1000, lambda row: row)
    found: set[int] = set()
    while not walk.ended:
        size = min(walk.size, 10)
        start = walk.number * (size if stride == "clamped" else walk.size)
        page = listing[start:][:size]
        found.update(page)
        walk.take(Rows(tuple(page)))
    assert found == {*listing}
