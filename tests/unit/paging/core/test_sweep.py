"""Tests of sweeps, which miss no row that is present throughout."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.paging.listing_server import IncompleteError, ListingServer, Rows, learned, read, reader, same

from freight_exchange.paging.core.end_signs import pages_past_end
from freight_exchange.paging.core.reread import PAGES_PAST_END, Reread
from freight_exchange.paging.core.seen_rows import SeenRows
from freight_exchange.paging.core.single_pass import SinglePass
from freight_exchange.paging.core.sweep import MAX_ROUNDS, Sweep


@pytest.mark.parametrize("identity", [same, None])
@pytest.mark.parametrize("pages", range(1, PAGES_PAST_END + 1))
def test_a_sweep_looks_past_wholly_hidden_pages(pages: int, identity: None) -> None:
    server = ListingServer([*range(650)], hidden=lambda row: 100 <= row < 100 + 100 * pages)
    assert read(server, page_size=100, sweep=True, identity=identity) == [
        *range(100),
        *range(100 + 100 * pages, 650),
    ]


def test_sweep_of_a_moving_list_returns_a_single_bid_once() -> None:
    """Nothing distinguishes two equal rows from one row that moved to the next page."""
    server = ListingServer([*range(25)])
    found = read(server, sweep=True, identity=None, meanwhile=[lambda rows: rows.insert(0, 100)])
    assert sorted(found) == [*range(25), 100]


def test_a_sweep_of_pages_that_are_all_one_row_proves_nothing() -> None:
    """A service that repeats its last page looks like one that lists more equal rows."""
    with pytest.raises(IncompleteError):
        read(ListingServer(["bid"] * 5, clamp=2, end="last page"), identity=None, sweep=True)
    assert read(ListingServer(["bid"] * 5, clamp=7), identity=None, sweep=True) == ["bid"] * 5


def test_a_sweep_distinguishes_an_ignored_offset_from_a_repeated_end() -> None:
    for ignored in (True, False):
        server = ListingServer([*range(10)], offset_ignored=ignored, end="last page")
        walk: SinglePass[int] | Sweep[int] = reader(10, sweep=True)
        while not walk.ended:
            walk.take(server.page(walk.number, walk.size))
        assert walk.repeated
        assert walk.offset_ignored is ignored


def test_broken_rows_that_are_alike_do_not_keep_a_sweep_going() -> None:
    server = ListingServer([0, None, 1, None, 2, None, 3], broken=lambda row: row is None)
    assert read(server, page_size=2, sweep=True) == [0, 1, 2, 3]
    assert len(server.requests) <= 3 * (5 + 2 * PAGES_PAST_END + 8)


def test_sweep_returns_both_equal_rows_after_a_hidden_row() -> None:
    server = ListingServer([*"cbb.ca"], hidden=lambda row: row == ".")
    assert read(server, page_size=3, identity=None, sweep=True) == [*"cbbca"]


def test_sweep_of_an_unchanging_listing_is_one_pass_up_and_one_down() -> None:
    server = ListingServer([*range(25)])
    assert read(server, sweep=True) == [*range(25)]
    up, down = (
        [(number, 10) for number in range(4 + pages_past_end(PAGES_PAST_END, 10))],
        [(number, 9) for number in range(6, -1, -1)],
    )
    assert server.requests == up + down


def test_sweep_repeats_a_single_page_in_a_size_that_is_not_cut() -> None:
    server = ListingServer([*range(5)])
    assert read(server, sweep=True, sizes=learned(10)) == [*range(5)]
    further = pages_past_end(PAGES_PAST_END, 10)
    up, again = [(number, 10) for number in range(1, further + 1)], [(n, 5) for n in range(PAGES_PAST_END + 1)]
    assert server.requests == [(0, 10), (1, 5), *up, *again]


def test_sweep_repeats_an_empty_listing_in_the_minimum_size() -> None:
    """Rows 20 to 99 are out of reach in pages of 100, and all rows of the first page are hidden."""
    server = ListingServer([*range(30)], clamp=20, stride="asked", hidden=lambda row: row < 20)
    assert read(server, page_size=100, sweep=True) == [*range(20, 30)]


def test_listing_of_one_full_page_is_swept() -> None:
    server = ListingServer(["gone", "a", "slipped"])
    assert sorted(read(server, page_size=2, sweep=True, meanwhile=[lambda rows: rows.remove("gone")])) == [
        "a",
        "gone",
        "slipped",
    ]


def test_two_passes_that_agree_prove_nothing() -> None:
    server = ListingServer(["c", "p", "b"])

    def still(_: list[str]) -> None: ...

    happenings = [
        lambda rows: rows.remove("c"),  # the climb sees c and b
        still,  # and the end; the descent sees b
        lambda rows: rows.insert(0, "a"),  # and a
        still,  # the next climb sees a
        lambda rows: rows.remove("a"),  # and b, just what the descent saw
    ]
    assert "p" in read(server, page_size=1, sweep=True, meanwhile=happenings)


def test_inserted_page_of_rows_is_not_taken_for_the_end_of_a_sweep() -> None:
    def push(rows: list[int]) -> None:
        rows[:0] = (100, 101)

    def pull(rows: list[int]) -> None:
        del rows[:2]

    server = ListingServer([0, 1, 2, 3, 4])
    assert set(range(5)) <= set(read(server, page_size=2, sweep=True, meanwhile=[push, pull]))


def test_a_listing_that_holds_a_row_twice_is_swept_in_bounded_time() -> None:
    server = ListingServer([0, 1, 2, 0, 3, 4])
    assert read(server, page_size=2, sweep=True) == [0, 1, 2, 3, 4]
    assert len(server.requests) <= 4 * (8 + PAGES_PAST_END + 6)


def test_sweep_gives_up_on_a_listing_that_keeps_changing() -> None:
    server = ListingServer([*range(20)])
    walk: SinglePass[int] | Sweep[int] = reader(10, sweep=True)
    assert isinstance(walk, Sweep)
    while not walk.is_unstable:
        walk.take(server.page(walk.number, walk.size))
        server.rows.insert(0, 1000 + len(server.rows))
        assert not walk.ended
    assert len(server.requests) <= MAX_ROUNDS * 3 * (len(server.rows) // 10 + 2)


def test_restarted_sweep_checks_again_whether_the_offset_is_ignored() -> None:
    """Each page is the first one, which had a different clamp for a moment."""
    clamps = {5: 2, 6: 2}
    server = ListingServer([*range(30)], own_page_size=10, offset_ignored=True, clamps=clamps.get)
    with pytest.raises(IncompleteError):
        read(server, sweep=True)


def test_second_pass_counts_hidden_and_repeated_pages_separately() -> None:
    """A row that comes again in the next page was shifted by an inserted row."""
    rereading = Reread(range(20), 1, SeenRows[int](same), Counter([3]))
    for page in ([], [], [3], [3], [], []):
        rereading.take(Rows(tuple(page)))
    assert not rereading.ended
    rereading.take(Rows(()))
    assert rereading.ended
