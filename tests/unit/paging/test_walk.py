"""One rule of the walk per test: which page is asked for next, what is handed out, where the listing ends."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.unit.paging.shelf import ENDS, End, Rows, Shelf, read, same

from freight_exchange.errors import BadRequestError, NotFoundError, ServerError
from freight_exchange.paging import PageSizes
from freight_exchange.paging.walk import MOST_ROUNDS, Walk


def learned(rows: int) -> PageSizes:
    """Sizes of a client that was once given a page of so many rows."""
    sizes = PageSizes()
    sizes.saw("operation", rows)
    return sizes


def test_an_unknown_clamp_is_probed_in_the_size_received() -> None:
    shelf = Shelf([*range(25)], clamp=10)
    assert read(shelf, page_size=100) == [*range(25)]
    assert shelf.asked == [(0, 100), (1, 10), (2, 10)]


def test_a_server_that_counts_pages_of_the_size_asked_for_loses_nothing() -> None:
    shelf = Shelf([*range(25)], clamp=10, stride="asked")
    assert read(shelf, page_size=100) == [*range(25)]


def test_a_learned_clamp_is_asked_for_from_the_second_page_on() -> None:
    sizes = PageSizes()
    read(Shelf([*range(25)], clamp=10), page_size=100, sizes=sizes)
    shelf = Shelf([*range(25)], clamp=10)
    assert read(shelf, page_size=100, sizes=sizes) == [*range(25)]
    assert shelf.asked == [(0, 100), (1, 10), (2, 10)]


def test_a_clamp_that_was_learned_wrongly_is_forgotten() -> None:
    """A row that is there at first, and another when the next page is asked for, pass for a clamp of one row."""
    sizes = PageSizes()
    read(Shelf([0]), page_size=100, sizes=sizes, meanwhile=[lambda rows: rows.append(1)])
    assert sizes.clamp("operation") == 1
    shelf = Shelf([*range(25)])
    assert read(shelf, page_size=100, sizes=sizes) == [*range(25)]
    assert shelf.asked == [(0, 100), (1, 25)]
    assert sizes.clamp("operation") is None


@pytest.mark.parametrize("stride", ["clamped", "asked"])
def test_whoever_leaves_a_sweep_can_go_on_behind_any_page_of_it(stride: Literal["clamped", "asked"]) -> None:
    walk = Walk("operation", PageSizes(), 100, same, sweep=True)
    shelf = Shelf([*range(35)], clamp=10, stride=stride)
    while not walk.ended:
        number = walk.number
        walk.take(shelf.page(number, walk.size))
        behind = read(Shelf([*range(35)], clamp=10, stride=stride), page_size=walk.fitting, start=number + 1)
        assert behind == [*range(35)][10 * (number + 1) :], (number, walk.fitting)


def test_a_sweep_makes_sure_that_a_clamp_is_one() -> None:
    sizes, shelf = PageSizes(), Shelf([0])
    found = read(shelf, page_size=100, sizes=sizes, sweep=True, meanwhile=[lambda rows: rows.extend(range(1, 40))])
    assert sorted(found) == [*range(40)]
    assert sizes.clamp("operation") is None
    assert len(shelf.asked) == 5


def test_a_reading_that_resumes_asks_for_the_pages_that_the_server_gives() -> None:
    sizes = PageSizes()
    read(Shelf([*range(25)], clamp=10), page_size=100, sizes=sizes)
    shelf = Shelf([*range(25)], clamp=10, stride="asked")
    assert read(shelf, page_size=100, sizes=sizes, start=1) == [*range(10, 25)]


def test_a_size_that_was_refused_is_not_asked_for_again() -> None:
    sizes = PageSizes()
    sizes.refused("operation", 50)
    assert (sizes.to_ask("operation", 100), sizes.to_ask("operation", 20), sizes.clamp("operation")) == (50, 20, 50)


def test_a_clamp_is_not_learned_from_a_row_that_came_late() -> None:
    sizes = PageSizes()
    shelf = Shelf([*range(5)])
    assert read(shelf, page_size=100, sizes=sizes, meanwhile=[lambda rows: rows.append(5)]) == [*range(6)]
    assert sizes.to_ask("operation", 100) == 100


def test_a_small_page_that_is_honoured_is_no_clamp() -> None:
    sizes = PageSizes()
    read(Shelf([*range(25)]), page_size=5, sizes=sizes)
    assert sizes.to_ask("operation", 100) == 100


def test_sizes_are_learned_per_operation() -> None:
    sizes = learned(50)
    assert (sizes.longest("operation"), sizes.longest("another")) == (50, 0)


def test_a_listing_shorter_than_the_longest_page_costs_one_request() -> None:
    shelf = Shelf([*range(29)])
    assert read(shelf, page_size=100, sizes=learned(30)) == [*range(29)]
    assert shelf.asked == [(0, 100)]


def test_a_listing_as_long_as_the_longest_page_is_probed() -> None:
    shelf = Shelf([*range(31)], clamp=30)
    assert read(shelf, page_size=100, sizes=learned(30)) == [*range(31)]
    assert shelf.asked == [(0, 100), (1, 30)]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 20, 25])
def test_every_habit_at_the_end_ends_the_listing(end: End, sweep: bool, length: int) -> None:
    shelf = Shelf([*range(length)], end=end)
    assert read(shelf, sweep=sweep) == [*range(length)]
    trial = sweep and end == "last page" and length in (9, 10)
    assert len(shelf.asked) <= (length // 10 + 2) * (2 if sweep else 1) + trial


def test_one_page_beyond_the_end_is_all_that_is_asked_for() -> None:
    for end in ENDS:
        shelf = Shelf([*range(20)], end=end)
        read(shelf)
        assert shelf.asked == [(0, 10), (1, 10), (2, 10)]


def test_a_row_inserted_before_the_first_makes_no_ignored_offset() -> None:
    """Asked for one row, the second page then begins with the row that was the first."""
    walk = Walk("operation", learned(10), 10, same, sweep=True)
    shelf = Shelf([*range(10)], end="last page")
    while not walk.ended:
        if walk.size == 1 and shelf.rows[0] != -1:
            shelf.rows.insert(0, -1)
        walk.take(shelf.page(walk.number, walk.size))
    assert not walk.offset_ignored
    assert (0, 1) in shelf.asked


@pytest.mark.parametrize("sweep", [False, True])
def test_an_ignored_offset_ends_the_listing(sweep: bool) -> None:
    shelf = Shelf([*range(25)], offset_ignored=True)
    assert read(shelf, sweep=sweep) == [*range(10)]
    assert len(shelf.asked) == (5 if sweep else 2)


def test_a_sweep_tells_an_ignored_offset_from_a_repeated_end() -> None:
    for ignored in (True, False):
        shelf = Shelf([*range(10)], offset_ignored=ignored, end="last page")
        walk = Walk("operation", PageSizes(), 10, lambda row: row, sweep=True)
        while not walk.ended:
            walk.take(shelf.page(walk.number, walk.size))
        assert walk.repeated
        assert walk.offset_ignored is ignored


@pytest.mark.parametrize("own", [3, 10, 25, 40])
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_server_with_a_page_size_of_its_own(own: int, sweep: bool, end: End) -> None:
    shelf = Shelf([*range(25)], own_page_size=own, end=end)
    assert read(shelf, page_size=5, sweep=sweep) == [*range(25)]
    assert len(shelf.asked) <= 25 // own * 2 + 5


def test_a_page_longer_than_asked_for_makes_a_short_one_the_end() -> None:
    shelf = Shelf([*range(17)], own_page_size=10)
    assert read(shelf, page_size=5) == [*range(17)]
    assert [number for number, _ in shelf.asked] == [0, 1]


def test_broken_rows_are_rows() -> None:
    shelf = Shelf([*range(25)], broken=lambda row: row in (3, 9, 10, 11))
    assert read(shelf) == [row for row in range(25) if row not in (3, 9, 10, 11)]
    assert shelf.asked == [(0, 10), (1, 10), (2, 10)]


def test_a_page_of_broken_rows_is_no_end() -> None:
    shelf = Shelf([*range(30)], broken=lambda row: 10 <= row < 20)
    assert read(shelf) == [*range(10), *range(20, 30)]


def test_broken_rows_that_are_alike_do_not_keep_a_sweep_going() -> None:
    shelf = Shelf([0, None, 1, None, 2, None, 3], broken=lambda row: row is None)
    assert read(shelf, page_size=2, sweep=True) == [0, 1, 2, 3]
    assert len(shelf.asked) == 7


def test_a_broken_row_whose_text_changes_from_page_to_page_is_known_by_its_index() -> None:
    def somebody_looks(rows: list[dict[str, int]]) -> None:
        rows[4] = {"index": 4, "views": rows[4]["views"] + 1}

    shelf = Shelf([{"index": row, "views": 0} for row in range(12)], broken=lambda row: row["index"] == 4)
    found = read(shelf, page_size=5, sweep=True, identity=lambda row: row["index"], meanwhile=[somebody_looks] * 100)
    assert [row["index"] for row in found] == [row for row in range(12) if row != 4]
    assert [number for number, _ in shelf.asked] == [0, 1, 2, 1, 0]


def test_rows_that_come_twice_are_handed_out_once() -> None:
    shelf = Shelf([*range(25)])
    found = read(shelf, meanwhile=[lambda rows: rows.insert(0, 100), lambda rows: rows.insert(0, 101)])
    assert found == [*range(25)]


def test_a_page_of_rows_all_seen_is_no_end_unless_it_is_the_one_before() -> None:
    def push(rows: list[int]) -> None:
        rows[:0] = range(100, 115)

    # The third page then holds rows 5 to 14, each of them seen, and rows 20 to 39 are still to come.
    assert read(Shelf([*range(40)]), meanwhile=[lambda _: None, push]) == [*range(40)]


def test_rows_all_seen_that_come_for_ever_end_the_listing() -> None:
    shelf = Shelf([*range(12)], offset_ignored=True)
    turn = [lambda rows: rows.append(rows.pop(0))] * 1000
    assert set(read(shelf, meanwhile=turn, most_pages=20)) == set(range(12))


def test_twins_are_both_listed() -> None:
    shelf = Shelf(["bid", "bid", "other", "bid", "other"])
    assert read(shelf, page_size=2, identity=None) == ["bid", "bid", "other", "bid", "other"]


@pytest.mark.parametrize("sweep", [False, True])
def test_a_page_of_twins_over_again_is_recognised_whole(sweep: bool) -> None:
    shelf = Shelf(["a", "a", "b", "c", "c", "d"], end="last page")
    assert read(shelf, page_size=3, identity=None, sweep=sweep) == ["a", "a", "b", "c", "c", "d"]
    shelf = Shelf(["a", "a", "b"], offset_ignored=True)
    assert read(shelf, page_size=3, identity=None, sweep=sweep) == ["a", "a", "b"]


def test_a_listing_without_pages_is_one_request() -> None:
    sizes = PageSizes()
    walk = Walk("operation", sizes, None, lambda row: row, sweep=True)
    assert walk.take(Rows((1, 2, 2))) == (1, 2)
    assert walk.ended


def test_it_begins_where_it_is_told() -> None:
    shelf = Shelf([*range(35)])
    assert read(shelf, start=2, sizes=learned(10)) == [*range(20, 35)]
    assert shelf.asked == [(2, 10), (3, 10)]


@pytest.mark.parametrize("end", ENDS[:3])
def test_it_begins_beyond_the_end(end: End) -> None:
    assert read(Shelf([*range(5)], end=end), start=4) == []


def test_a_first_page_cut_by_an_unknown_clamp_is_not_the_end_wherever_it_is() -> None:
    shelf = Shelf([*range(35)], clamp=10)
    assert read(shelf, start=1, page_size=100) == [*range(10, 35)]


def test_what_is_no_end_is_an_error() -> None:
    walk = Walk[int]("operation", PageSizes(), 1, None)
    assert not walk.beyond(NotFoundError(status=404))
    walk.take(Rows((1,)))
    assert not walk.beyond(ServerError(status=500))
    assert not walk.beyond(BadRequestError(status=422))
    assert walk.beyond(BadRequestError(status=400))


def test_a_still_listing_is_swept_up_and_down_once() -> None:
    shelf = Shelf([*range(25)])
    assert read(shelf, sweep=True) == [*range(25)]
    assert [number for number, _ in shelf.asked] == [0, 1, 2, 1, 0]


def test_a_single_page_needs_no_sweep() -> None:
    shelf = Shelf([*range(5)])
    assert read(shelf, sweep=True, sizes=learned(10)) == [*range(5)]
    assert len(shelf.asked) == 1


def test_a_full_page_and_nothing_after_it_is_swept() -> None:
    shelf = Shelf(["gone", "a", "slipped"])
    assert sorted(read(shelf, page_size=2, sweep=True, meanwhile=[lambda rows: rows.remove("gone")])) == [
        "a",
        "gone",
        "slipped",
    ]


def test_two_passes_that_agree_are_no_proof() -> None:
    shelf = Shelf(["c", "p", "b"])

    def still(_: list[str]) -> None: ...

    happenings = [
        lambda rows: rows.remove("c"),  # the climb sees c and b
        still,  # and the end; the descent sees b
        lambda rows: rows.insert(0, "a"),  # and a
        still,  # the next climb sees a
        lambda rows: rows.remove("a"),  # and b, just what the descent saw
    ]
    assert "p" in read(shelf, page_size=1, sweep=True, meanwhile=happenings)


def test_a_page_of_rows_inserted_does_not_pass_for_the_end_of_a_sweep() -> None:
    def push(rows: list[int]) -> None:
        rows[:0] = (100, 101)

    def pull(rows: list[int]) -> None:
        del rows[:2]

    shelf = Shelf([0, 1, 2, 3, 4])
    assert set(range(5)) <= set(read(shelf, page_size=2, sweep=True, meanwhile=[push, pull]))


def test_a_listing_that_holds_a_row_twice_is_swept_in_bounded_time() -> None:
    shelf = Shelf([0, 1, 2, 0, 3, 4])
    assert read(shelf, page_size=2, sweep=True) == [0, 1, 2, 3, 4]
    assert len(shelf.asked) <= 4 * 7


def test_a_listing_that_never_stands_still_is_given_up() -> None:
    shelf = Shelf([*range(20)])
    walk = Walk[int]("operation", PageSizes(), 10, lambda row: row, sweep=True)
    while not walk.restless:
        walk.take(shelf.page(walk.number, walk.size))
        shelf.rows.insert(0, 1000 + len(shelf.rows))
        assert not walk.ended
    assert len(shelf.asked) <= MOST_ROUNDS * 2 * (len(shelf.rows) // 10 + 2)
