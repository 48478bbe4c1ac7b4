"""Tests of a feed's walk through a listing that grows by pages while the walk pauses."""

from __future__ import annotations

import itertools

import pytest
from tests.unit.feed.paging_legacy.listing_server import ListingServer, same

from freight_exchange.feed.paging_legacy.page_sizes import PageSizes
from freight_exchange.feed.paging_legacy.window_walk import WindowWalk

CLAMP = 10
MOST_PAGES = 1500


def read_growing(server: ListingServer[int], *, rows: int, pages: int) -> WindowWalk[int]:
    """Read the listing while `rows` are inserted after every `pages` pages, all of them recent."""
    walk: WindowWalk[int] = WindowWalk("operation", PageSizes(), 100, same)
    inserted: set[int] = set()
    numbers = itertools.count(-1, -1)
    for taken in range(1, MOST_PAGES):
        walk.take(server.page(walk.number, walk.size))
        walk.excuse(inserted)
        if walk.ended or walk.is_unstable:
            break
        if taken % pages == 0:
            news = [next(numbers) for _ in range(rows)]
            inserted.update(news)
            server.rows[:0] = news
    return walk


@pytest.mark.parametrize("pages", [2, 3, 5, 7, 10, 40])
@pytest.mark.parametrize("rows", [9, 10, 11, 19, 20, 21, 31, 45, 80])
@pytest.mark.parametrize("length", [25, 100, 300])
def test_walk_does_not_end_before_the_rows_that_the_growth_moved_down(length: int, rows: int, pages: int) -> None:
    walk = read_growing(ListingServer([*range(length)], clamp=CLAMP), rows=rows, pages=pages)
    assert not walk.ended or walk._known >= {*range(length)}


@pytest.mark.parametrize(("rows", "pages"), [(9, 3), (19, 10), (21, 10), (31, 10), (45, 40)])
def test_walk_ends_if_the_listing_grows_slower_than_it_is_read(rows: int, pages: int) -> None:
    walk = read_growing(ListingServer([*range(300)], clamp=CLAMP), rows=rows, pages=pages)
    assert walk.ended


@pytest.mark.parametrize("length", [90, 95])
def test_service_that_restarts_after_its_last_page_costs_at_most_two_listings(length: int) -> None:
    listing = [*range(length)]
    walk: WindowWalk[int] = WindowWalk("operation", PageSizes(), CLAMP, same)
    highest = 0
    while not walk.ended:
        start = walk.number * CLAMP
        highest = max(highest, walk.number)
        walk.take(ListingServer([listing[place % length] for place in range(start, start + CLAMP)]).page(0, CLAMP))
    assert walk._known == {*listing}
    assert highest <= 2 * length // CLAMP + 1
