"""One rule of a reading per test: which page is asked for next, what is handed out, where the listing ends."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest
from tests.unit.paging.shelf import ENDS, End, IncompleteError, Rows, Shelf, read, reader, same

from freight_exchange.errors import (
    APIStatusError,
    BadRequestError,
    FreightExchangeError,
    NotFoundError,
    ServerError,
    TransportError,
)
from freight_exchange.paging import PageSizes
from freight_exchange.paging.reread import LOOK_FURTHER, Reread
from freight_exchange.paging.seen_rows import SeenRows
from freight_exchange.paging.single_pass import SinglePass
from freight_exchange.paging.sweep import MOST_ROUNDS, Sweep
from freight_exchange.paging.unpaged import UnpagedListing


def learned(rows: int) -> PageSizes:
    """Sizes of a client that was once given a page of so many rows."""
    sizes = PageSizes()
    sizes.saw("operation", rows)
    return sizes


def test_an_unknown_clamp_is_probed_in_the_size_received() -> None:
    shelf = Shelf([*range(25)], clamp=10)
    assert read(shelf, page_size=100) == [*range(25)]
    assert shelf.asked == [(0, 100), (1, 10), (2, 10), (3, 10)]


def test_a_server_that_counts_pages_of_the_size_asked_for_loses_nothing() -> None:
    shelf = Shelf([*range(25)], clamp=10, stride="asked")
    assert read(shelf, page_size=100) == [*range(25)]


def test_a_learned_clamp_is_asked_for_from_the_second_page_on() -> None:
    sizes = PageSizes()
    read(Shelf([*range(25)], clamp=10), page_size=100, sizes=sizes)
    shelf = Shelf([*range(25)], clamp=10)
    assert read(shelf, page_size=100, sizes=sizes) == [*range(25)]
    assert shelf.asked == [(0, 100), (1, 10), (2, 10), (3, 10)]


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
    walk: SinglePass[int] | Sweep[int] = reader(100, sweep=True)
    shelf = Shelf([*range(35)], clamp=10, stride=stride)
    while not walk.ended:
        number = walk.number
        walk.take(shelf.page(number, walk.size))
        behind = read(Shelf([*range(35)], clamp=10, stride=stride), page_size=walk.fitting, start=number + 1)
        assert behind == [*range(35)][walk.fitting * (number + 1) :], (number, walk.fitting)


def test_a_sweep_makes_sure_that_a_clamp_is_one() -> None:
    sizes, shelf = PageSizes(), Shelf([0])
    found = read(shelf, page_size=100, sizes=sizes, sweep=True, meanwhile=[lambda rows: rows.extend(range(1, 40))])
    assert sorted(found) == [*range(40)]
    assert sizes.clamp("operation") is None
    assert shelf.asked[:4] == [(0, 100), (1, 1), (0, 100), (1, 40)]


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


def test_a_listing_shorter_than_the_longest_page_is_looked_past_once() -> None:
    shelf = Shelf([*range(29)])
    assert read(shelf, page_size=100, sizes=learned(30)) == [*range(29)]
    assert shelf.asked == [(0, 100), (1, 29)]


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("stride", ["clamped", "asked"])
def test_a_clamp_lowered_after_longer_pages_were_seen_cuts_nothing(
    sweep: bool, stride: Literal["clamped", "asked"]
) -> None:
    shelf = Shelf([*range(450)], clamp=50, stride=stride)
    assert read(shelf, page_size=100, sizes=learned(100), sweep=sweep) == [*range(450)]


@pytest.mark.parametrize("stride", ["clamped", "asked"])
@pytest.mark.parametrize("change", range(1, 12))
@pytest.mark.parametrize("clamps", [(100, 50), (50, 100), (100, 30), (20, 70)])
def test_a_clamp_that_changes_in_the_middle_of_a_sweep_skips_nothing(
    stride: Literal["clamped", "asked"], change: int, clamps: tuple[int, int]
) -> None:
    shelf = Shelf([*range(450)], stride=stride, clamps=lambda before: clamps[before >= change])
    assert sorted(read(shelf, page_size=100, sweep=True)) == [*range(450)]


@pytest.mark.parametrize("identity", [same, None])
@pytest.mark.parametrize("change", range(1, 6))
def test_a_clamp_lowered_for_the_end_of_a_listing_is_noticed_by_a_sweep(change: int, identity: None) -> None:
    """It is back when the pages are read again: only the size of that reading shows the rows that were cut."""
    shelf = Shelf([*range(115)], stride="asked", clamps=lambda before: 10 if change <= before < change + 5 else 100)
    assert sorted(read(shelf, page_size=100, sweep=True, identity=identity)) == [*range(115)]


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("identity", [same, None])
@pytest.mark.parametrize("share", [2, 3, 20])
def test_rows_hidden_from_every_page_end_nothing(sweep: bool, identity: None, share: int) -> None:
    shelf = Shelf([*range(310)], hidden=lambda row: row % share == 1)
    assert read(shelf, page_size=100, sweep=sweep, identity=identity) == [n for n in range(310) if n % share != 1]


@pytest.mark.parametrize("sweep", [False, True])
def test_a_first_page_of_one_row_does_not_make_every_page_one_of_one_row(sweep: bool) -> None:
    shelf = Shelf([*range(2000)], hidden=lambda row: 1 < row < 100)
    found = read(shelf, page_size=100, sweep=sweep)
    assert found == [0, 1, *range(100, 2000)] or not sweep
    assert len(shelf.asked) < 60


@pytest.mark.parametrize("identity", [same, None])
@pytest.mark.parametrize("pages", range(1, LOOK_FURTHER + 1))
def test_a_sweep_looks_past_wholly_hidden_pages(pages: int, identity: None) -> None:
    shelf = Shelf([*range(650)], hidden=lambda row: 100 <= row < 100 + 100 * pages)
    assert read(shelf, page_size=100, sweep=True, identity=identity) == [
        *range(100),
        *range(100 + 100 * pages, 650),
    ]


def test_an_empty_page_ends_a_plain_reading() -> None:
    shelf = Shelf([*range(350)], hidden=lambda row: 100 <= row < 200)
    assert read(shelf, page_size=100) == [*range(100)]
    assert shelf.asked == [(0, 100), (1, 100)]


def test_a_bid_that_stands_once_is_swept_once_though_the_list_moves() -> None:
    """Two rows that are alike cannot be told from one that moved to the next page."""
    shelf = Shelf([*range(25)])
    found = read(shelf, sweep=True, identity=None, meanwhile=[lambda rows: rows.insert(0, 100)])
    assert sorted(found) == [*range(25), 100]


@pytest.mark.parametrize("most_rows", [10, 20, 99, 100])
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("wanted", [1000, 500, 100])
def test_a_size_that_is_refused_is_stepped_down_and_remembered(most_rows: int, sweep: bool, wanted: int) -> None:
    sizes, rows = PageSizes(), [*range(115)]
    assert read(Shelf(rows, most_rows=most_rows), page_size=wanted, sizes=sizes, sweep=sweep) == rows
    taken = max(size for size in (wanted, 100, 20, 10) if size <= most_rows)
    shelf = Shelf(rows, most_rows=most_rows)
    assert read(shelf, page_size=wanted, sizes=sizes, sweep=sweep) == rows
    assert shelf.asked[0] == (0, taken)


@pytest.mark.parametrize("error", [TransportError("reset"), ServerError(status=503)])
def test_an_outage_at_the_first_page_is_met_with_a_modest_size(error: FreightExchangeError) -> None:
    walk: SinglePass[int] | Sweep[int] = reader(1000)
    assert walk.fail(error)
    assert (walk.number, walk.size) == (0, 100)
    assert not walk.fail(error)


@pytest.mark.parametrize("sweep", [False, True])
def test_a_failure_over_a_page_size_is_stepped_down_to_the_least(sweep: bool) -> None:
    walk: SinglePass[int] | Sweep[int] = reader(1000, sweep=sweep)
    for size in (100, 20, 10):
        assert walk.fail(ServerError(status=500))
        assert (walk.number, walk.size) == (0, size)
    assert not walk.fail(ServerError(status=500))


def test_what_is_refused_in_every_size_is_an_error() -> None:
    walk: SinglePass[int] | Sweep[int] = reader(1000)
    for size in (100, 20, 10):
        assert walk.fail(BadRequestError(status=400))
        assert walk.size == size
    assert not walk.fail(BadRequestError(status=400))


@pytest.mark.parametrize("status", [400, 404, 416, 422])
def test_every_refusal_past_the_first_page_ends_the_listing(status: int) -> None:
    walk: SinglePass[int] | Sweep[int] = reader(2)
    walk.take(Rows((1, 2)))
    assert walk.fail(APIStatusError(status=status))
    assert walk.ended


def test_a_failure_past_the_first_page_is_the_end_only_if_the_first_page_still_comes() -> None:
    walk: SinglePass[int] | Sweep[int] = reader(2)
    walk.take(Rows((1, 2)))
    assert walk.fail(ServerError(status=500))
    assert walk.number == 0
    assert not walk.fail(ServerError(status=500))
    assert walk.take(Rows((1, 2))) == ()
    assert walk.number == 1
    assert walk.fail(ServerError(status=500))
    assert walk.ended


def test_a_failure_that_passes_does_not_end_the_listing() -> None:
    walk: SinglePass[int] | Sweep[int] = reader(2)
    walk.take(Rows((1, 2)))
    assert walk.fail(ServerError(status=500))
    walk.take(Rows((1, 2)))
    assert walk.take(Rows((3, 4))) == (3, 4)
    assert not walk.ended


def test_a_sweep_of_pages_that_are_all_one_row_proves_nothing() -> None:
    """A service that repeats its last page looks the same as one that lists more rows that are alike."""
    with pytest.raises(IncompleteError):
        read(Shelf(["bid"] * 5, clamp=2, end="last page"), identity=None, sweep=True)
    assert read(Shelf(["bid"] * 5, clamp=7), identity=None, sweep=True) == ["bid"] * 5


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 20, 25])
def test_every_habit_at_the_end_ends_the_listing(end: End, sweep: bool, length: int) -> None:
    shelf = Shelf([*range(length)], end=end)
    assert read(shelf, sweep=sweep) == [*range(length)]
    trial = end == "last page" and length in (9, 10)
    pages, repeated = length // 10 + 2, 2 if end == "500" and length else 0
    # Up and down, each with a look past the end; a trial where the end repeats.
    most = 2 * (pages + LOOK_FURTHER) + trial + (end == "last page") if sweep else pages + (length % 10 > 0)
    assert len(shelf.asked) <= most + repeated


def test_one_page_beyond_the_end_is_all_that_is_asked_for() -> None:
    for end in ENDS:
        shelf = Shelf([*range(20)], end=end)
        read(shelf)
        failing = [(0, 10), (2, 10)] if end == "500" else []
        assert shelf.asked == [(0, 10), (1, 10), (2, 10), *failing]


def test_a_row_inserted_before_the_first_makes_no_ignored_offset() -> None:
    """Asked for one row, the second page then begins with the row that was the first."""
    walk: SinglePass[int] | Sweep[int] = reader(10, learned(10), sweep=True)
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
    if sweep:
        with pytest.raises(IncompleteError):
            read(shelf, sweep=True)
    else:
        assert read(shelf) == [*range(10)]
    assert len(shelf.asked) == (4 if sweep else 2)


def test_a_sweep_tells_an_ignored_offset_from_a_repeated_end() -> None:
    for ignored in (True, False):
        shelf = Shelf([*range(10)], offset_ignored=ignored, end="last page")
        walk: SinglePass[int] | Sweep[int] = reader(10, sweep=True)
        while not walk.ended:
            walk.take(shelf.page(walk.number, walk.size))
        assert walk.repeated
        assert walk.offset_ignored is ignored


@pytest.mark.parametrize("own", [3, 10, 25, 40])
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_server_with_a_page_size_of_its_own(own: int, sweep: bool, end: End) -> None:
    shelf = Shelf([*range(25)], own_page_size=own, end=end)
    if sweep and own >= 25 and end == "last page":
        # So does one that is not told which page is wanted, and has more.
        with pytest.raises(IncompleteError):
            read(shelf, page_size=5, sweep=True)
    else:
        assert read(shelf, page_size=5, sweep=sweep) == [*range(25)]
    assert len(shelf.asked) <= 25 // own * 3 + 8 + LOOK_FURTHER


@pytest.mark.parametrize("rows", [10, 25])
@pytest.mark.parametrize("hides", [False, True])
def test_a_server_that_is_not_told_which_page_is_wanted_gives_no_whole_listing(rows: int, hides: bool) -> None:
    shelf = Shelf([*range(rows)], own_page_size=10, offset_ignored=True, hidden=lambda row: hides and row % 3 == 0)
    with pytest.raises(IncompleteError):
        read(shelf, page_size=100, sweep=True)


def test_a_page_longer_than_asked_for_shows_the_size_of_the_others() -> None:
    shelf = Shelf([*range(17)], own_page_size=10)
    assert read(shelf, page_size=5) == [*range(17)]
    assert [number for number, _ in shelf.asked] == [0, 1, 2]


def test_broken_rows_are_rows() -> None:
    shelf = Shelf([*range(25)], broken=lambda row: row in (3, 9, 10, 11))
    assert read(shelf) == [row for row in range(25) if row not in (3, 9, 10, 11)]
    assert shelf.asked == [(0, 10), (1, 10), (2, 10), (3, 10)]


def test_a_page_of_broken_rows_is_no_end() -> None:
    shelf = Shelf([*range(30)], broken=lambda row: 10 <= row < 20)
    assert read(shelf) == [*range(10), *range(20, 30)]


def test_broken_rows_that_are_alike_do_not_keep_a_sweep_going() -> None:
    shelf = Shelf([0, None, 1, None, 2, None, 3], broken=lambda row: row is None)
    assert read(shelf, page_size=2, sweep=True) == [0, 1, 2, 3]
    assert len(shelf.asked) <= 3 * (5 + 2 * LOOK_FURTHER + 8)


def test_a_broken_row_whose_text_changes_from_page_to_page_is_known_by_its_index() -> None:
    def somebody_looks(rows: list[dict[str, int]]) -> None:
        rows[4] = {"index": 4, "views": rows[4]["views"] + 1}

    shelf = Shelf([{"index": row, "views": 0} for row in range(12)], broken=lambda row: row["index"] == 4)
    found = read(shelf, page_size=5, sweep=True, identity=lambda row: row["index"], meanwhile=[somebody_looks] * 100)
    assert [row["index"] for row in found] == [row for row in range(12) if row != 4]
    assert [number for number, _ in shelf.asked] == [0, 1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 0]


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


def test_twins_behind_a_hidden_row_are_both_swept() -> None:
    shelf = Shelf([*"cbb.ca"], hidden=lambda row: row == ".")
    assert read(shelf, page_size=3, identity=None, sweep=True) == [*"cbbca"]


def test_twins_are_both_listed() -> None:
    shelf = Shelf(["bid", "bid", "other", "bid", "other"])
    assert read(shelf, page_size=2, identity=None) == ["bid", "bid", "other", "bid", "other"]


def test_pages_of_twins_are_no_sign_that_rows_were_read_before() -> None:
    rows = [*"aaabcadeaacdbbcafb"]
    for end in ENDS:
        assert read(Shelf([*rows], end=end), page_size=4, identity=None) == rows


@pytest.mark.parametrize("sweep", [False, True])
def test_twins_that_come_for_ever_end_the_listing(sweep: bool) -> None:
    shelf = Shelf([*"abcdefgh"], offset_ignored=True)
    turn = [lambda rows: rows.append(rows.pop(0))] * 1000
    if sweep:
        with pytest.raises(IncompleteError):
            read(shelf, page_size=4, identity=None, sweep=True, meanwhile=turn, most_pages=200)
    else:
        assert set(read(shelf, page_size=4, identity=None, meanwhile=turn, most_pages=50)) == {*"abcdefgh"}


@pytest.mark.parametrize("sweep", [False, True])
def test_a_page_of_twins_over_again_is_recognised_whole(sweep: bool) -> None:
    shelf = Shelf(["a", "a", "b", "c", "c", "d"], end="last page")
    assert read(shelf, page_size=3, identity=None, sweep=sweep) == ["a", "a", "b", "c", "c", "d"]
    shelf = Shelf(["a", "a", "b"], offset_ignored=True)
    if sweep:
        with pytest.raises(IncompleteError):
            read(shelf, page_size=3, identity=None, sweep=True)
    else:
        assert read(shelf, page_size=3, identity=None) == ["a", "a", "b"]


def test_a_listing_without_pages_is_one_request() -> None:
    walk = UnpagedListing[int]("operation", PageSizes(), lambda row: row)
    assert walk.take(Rows((1, 2, 2))) == (1, 2)
    assert walk.ended


@pytest.mark.parametrize("rows", [10, 15, 20, 25, 50, 100])
def test_a_round_number_of_rows_without_pages_is_looked_past_once(rows: int) -> None:
    for behind in ((), tuple(range(rows))):
        walk = UnpagedListing[int]("operation", PageSizes(), lambda row: row)
        assert walk.take(Rows(tuple(range(rows)))) == tuple(range(rows))
        assert (walk.number, walk.size, walk.ended) == (1, rows, False)
        assert walk.take(Rows(behind)) == ()
        assert walk.ended


def test_a_listing_that_is_paged_though_the_document_shows_no_pages_is_read_whole() -> None:
    shelf, walk = Shelf([*range(45)], clamp=20), UnpagedListing[int]("operation", PageSizes(), lambda row: row)
    found = [*walk.take(shelf.page(0, 20))]
    while not walk.ended:
        found += walk.take(shelf.page(walk.number, walk.size))
    assert found == [*range(45)]


def test_a_refused_second_page_ends_a_listing_without_pages() -> None:
    walk = UnpagedListing[int]("operation", PageSizes(), lambda row: row)
    assert not walk.fail(BadRequestError(status=400))
    walk.take(Rows(tuple(range(10))))
    assert walk.fail(BadRequestError(status=400))
    assert walk.ended


def test_it_begins_where_it_is_told() -> None:
    shelf = Shelf([*range(35)])
    assert read(shelf, start=2, sizes=learned(10)) == [*range(20, 35)]
    assert shelf.asked == [(2, 10), (3, 10), (4, 10)]


@pytest.mark.parametrize("end", ENDS[:5])
def test_it_begins_beyond_the_end(end: End) -> None:
    assert read(Shelf([*range(5)], end=end), start=4) == []


def test_a_first_page_cut_by_an_unknown_clamp_is_not_the_end_wherever_it_is() -> None:
    shelf = Shelf([*range(35)], clamp=10)
    assert read(shelf, start=1, page_size=100) == [*range(10, 35)]


def test_what_is_no_end_is_an_error() -> None:
    walk: SinglePass[int] | Sweep[int] = reader(1)
    assert not walk.fail(NotFoundError(status=404))
    walk.take(Rows((1,)))
    for status in (401, 403, 405, 409, 429, 502, 503, 504):
        assert not walk.fail(APIStatusError(status=status))
    assert not walk.fail(TransportError("reset"))
    assert not walk.ended


def test_a_still_listing_is_swept_up_and_down_once() -> None:
    shelf = Shelf([*range(25)])
    assert read(shelf, sweep=True) == [*range(25)]
    up, down = [(number, 10) for number in range(4 + LOOK_FURTHER)], [(number, 9) for number in range(6, -1, -1)]
    assert shelf.asked == up + down


def test_a_single_page_is_swept_again_in_a_size_that_is_given_in_full() -> None:
    shelf = Shelf([*range(5)])
    assert read(shelf, sweep=True, sizes=learned(10)) == [*range(5)]
    up, again = [(number, 10) for number in range(1, LOOK_FURTHER + 1)], [(n, 5) for n in range(LOOK_FURTHER + 1)]
    assert shelf.asked == [(0, 10), (1, 5), *up, *again]


def test_a_listing_that_shows_nothing_is_swept_again_in_the_least_size() -> None:
    """Rows 20 to 99 are out of reach in pages of 100, and those of the first page are all hidden."""
    shelf = Shelf([*range(30)], clamp=20, stride="asked", hidden=lambda row: row < 20)
    assert read(shelf, page_size=100, sweep=True) == [*range(20, 30)]


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
    assert len(shelf.asked) <= 4 * (8 + LOOK_FURTHER + 6)


def test_a_listing_that_never_stands_still_is_given_up() -> None:
    shelf = Shelf([*range(20)])
    walk: SinglePass[int] | Sweep[int] = reader(10, sweep=True)
    assert isinstance(walk, Sweep)
    while not walk.restless:
        walk.take(shelf.page(walk.number, walk.size))
        shelf.rows.insert(0, 1000 + len(shelf.rows))
        assert not walk.ended
    assert len(shelf.asked) <= MOST_ROUNDS * 3 * (len(shelf.rows) // 10 + 2)


def test_a_sweep_that_starts_again_tries_again_whether_the_offset_is_ignored() -> None:
    """Each page is the first one, which was cut otherwise for a moment."""
    clamps = {5: 2, 6: 2}
    shelf = Shelf([*range(30)], own_page_size=10, offset_ignored=True, clamps=clamps.get)
    with pytest.raises(IncompleteError):
        read(shelf, sweep=True)


def test_a_second_reading_counts_hidden_pages_apart_from_repeated_ones() -> None:
    """A row that comes again in the next page was moved on by a row that was inserted."""
    rereading = Reread(range(20), 1, SeenRows[int](same), Counter([3]))
    for page in ([], [], [3], [3], [], []):
        rereading.take(Rows(tuple(page)))
    assert not rereading.ended
    rereading.take(Rows(()))
    assert rereading.ended
