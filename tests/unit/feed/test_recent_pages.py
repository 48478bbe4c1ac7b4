"""Pages of the requests updated since a scan began: their end, if updates come between two of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from freight_exchange.feed.core.planning.active_scan import RecentPages

CLAMP = 10


def read(page: Callable[[int], list[int]]) -> RecentPages:
    pages = RecentPages()
    while True:
        found = frozenset(page(pages.number))
        pages = pages.add(found)
        if not found or pages.have_ended:
            return pages


@pytest.mark.parametrize("rows", [10, 15, 20])
def test_pages_of_known_rows_are_followed_by_others_if_updates_came_meanwhile(rows: int) -> None:
    listing = [*range(50)]

    def page(number: int) -> list[int]:
        if number == 3:
            listing[:0] = range(1000, 1000 + rows)
        return listing[number * CLAMP :][:CLAMP]

    assert read(page).indexes >= {*range(50)}


@pytest.mark.parametrize("length", [1, 4, 10, 11, 35])
def test_last_page_that_is_repeated_is_the_end(length: int) -> None:
    listing = [*range(length)]
    pages = read(lambda number: listing[number * CLAMP :][:CLAMP] or listing[-3:])
    assert pages.indexes == {*listing}
    assert pages.number == 2 * -(-length // CLAMP)
