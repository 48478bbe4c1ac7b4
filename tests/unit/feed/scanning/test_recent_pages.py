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
        if not found or pages.is_exhausted:
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
    assert pages.number == min(2 * -(-length // CLAMP), -(-length // CLAMP) + 3)


@pytest.mark.parametrize(("clamp", "size"), [(4, 4), (1000, 5)])
def test_later_pages_are_requested_in_the_size_that_the_first_one_had(clamp: int, size: int) -> None:
    """A service may count the offset in the size that was asked for, and return fewer rows."""
    pages = RecentPages()
    assert pages.size_to_request(1000) == 1000
    assert pages.add(frozenset(range(5)[:clamp])).size_to_request(1000) == size
    assert pages.add(frozenset()).size_to_request(1000) == 1000
