"""Tests of the rules of a pass, one per test: the next page, the yielded rows, and the end of the listing."""

from __future__ import annotations

import pytest
from tests.unit.paging.listing_server import (
    ENDS,
    End,
    IncompleteError,
    ListingServer,
    Rows,
    learned,
    read,
    reader,
    same,
)

from freight_exchange.errors import (
    APIStatusError,
    NotFoundError,
    ServerError,
    TransportError,
)
from freight_exchange.paging.core.end_signs import pages_past_end
from freight_exchange.paging.core.reread import PAGES_PAST_END
from freight_exchange.paging.core.single_pass import SinglePass
from freight_exchange.paging.core.sweep import Sweep


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("identity", [same, None])
@pytest.mark.parametrize("share", [2, 3, 20])
def test_rows_hidden_from_each_page_do_not_end_the_listing(sweep: bool, identity: None, share: int) -> None:
    server = ListingServer([*range(310)], hidden=lambda row: row % share == 1)
    assert read(server, page_size=100, sweep=sweep, identity=identity) == [n for n in range(310) if n % share != 1]


def test_empty_page_ends_a_single_pass() -> None:
    server = ListingServer([*range(350)], hidden=lambda row: 100 <= row < 200)
    assert read(server, page_size=100) == [*range(100)]
    assert server.requests == [(0, 100), (1, 100)]


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


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 20, 25])
def test_each_kind_of_end_ends_the_listing(end: End, sweep: bool, length: int) -> None:
    server = ListingServer([*range(length)], end=end)
    assert read(server, sweep=sweep) == [*range(length)]
    trial = end == "last page" and length in (9, 10)
    pages, repeated = length // 10 + 2, 2 if end == "500" and length else 0
    # Up and down, each with pages past the end, after a full page twice as many; a probe if the last page repeats.
    down = pages_past_end(PAGES_PAST_END, 10) if length == 10 else PAGES_PAST_END
    most = (
        2 * pages + down + pages_past_end(PAGES_PAST_END, 10) + trial + (end == "last page")
        if sweep
        else pages + (length % 10 > 0)
    )
    assert len(server.requests) <= most + repeated


def test_single_pass_requests_one_page_beyond_the_end() -> None:
    for end in ENDS:
        server = ListingServer([*range(20)], end=end)
        read(server)
        failing = [(0, 10), (2, 10)] if end == "500" else []
        assert server.requests == [(0, 10), (1, 10), (2, 10), *failing]


def test_row_inserted_before_the_first_is_not_taken_for_an_ignored_offset() -> None:
    """A request for one row then returns a second page that begins with the former first row."""
    walk: SinglePass[int] | Sweep[int] = reader(10, learned(10), sweep=True)
    server = ListingServer([*range(10)], end="last page")
    while not walk.ended:
        if walk.size == 1 and server.rows[0] != -1:
            server.rows.insert(0, -1)
        walk.take(server.page(walk.number, walk.size))
    assert not walk.offset_ignored
    assert (0, 1) in server.requests


@pytest.mark.parametrize("sweep", [False, True])
def test_an_ignored_offset_ends_the_listing(sweep: bool) -> None:
    server = ListingServer([*range(25)], offset_ignored=True)
    if sweep:
        with pytest.raises(IncompleteError):
            read(server, sweep=True)
    else:
        assert read(server) == [*range(10)]
    assert len(server.requests) == (4 if sweep else 2)


@pytest.mark.parametrize("rows", [10, 25])
@pytest.mark.parametrize("hides", [False, True])
def test_sweep_of_a_server_that_ignores_the_page_number_raises(rows: int, hides: bool) -> None:
    server = ListingServer(
        [*range(rows)], own_page_size=10, offset_ignored=True, hidden=lambda row: hides and row % 3 == 0
    )
    with pytest.raises(IncompleteError):
        read(server, page_size=100, sweep=True)


def test_broken_rows_are_rows() -> None:
    server = ListingServer([*range(25)], broken=lambda row: row in (3, 9, 10, 11))
    assert read(server) == [row for row in range(25) if row not in (3, 9, 10, 11)]
    assert server.requests == [(0, 10), (1, 10), (2, 10), (3, 10)]


def test_page_of_broken_rows_does_not_end_the_listing() -> None:
    server = ListingServer([*range(30)], broken=lambda row: 10 <= row < 20)
    assert read(server) == [*range(10), *range(20, 30)]


def test_a_broken_row_whose_text_changes_from_page_to_page_is_known_by_its_index() -> None:
    def somebody_looks(rows: list[dict[str, int]]) -> None:
        rows[4] = {"index": 4, "views": rows[4]["views"] + 1}

    server = ListingServer([{"index": row, "views": 0} for row in range(12)], broken=lambda row: row["index"] == 4)
    found = read(server, page_size=5, sweep=True, identity=lambda row: row["index"], meanwhile=[somebody_looks] * 100)
    assert [row["index"] for row in found] == [row for row in range(12) if row != 4]
    assert [number for number, _ in server.requests] == [0, 1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 0]


def test_row_that_is_listed_twice_is_returned_once() -> None:
    server = ListingServer([*range(25)])
    found = read(server, meanwhile=[lambda rows: rows.insert(0, 100), lambda rows: rows.insert(0, 101)])
    assert found == [*range(25)]


def test_page_of_seen_rows_ends_the_listing_only_if_it_repeats_the_page_before() -> None:
    def push(rows: list[int]) -> None:
        rows[:0] = range(100, 115)

    # The third page then holds rows 5 to 14, each of them seen, and rows 20 to 39 are still to come.
    assert read(ListingServer([*range(40)]), meanwhile=[lambda _: None, push]) == [*range(40)]


def test_endless_pages_of_seen_rows_end_the_listing() -> None:
    server = ListingServer([*range(12)], offset_ignored=True)
    turn = [lambda rows: rows.append(rows.pop(0))] * 1000
    assert set(read(server, meanwhile=turn, most_pages=20)) == set(range(12))


def test_equal_rows_are_both_listed() -> None:
    server = ListingServer(["bid", "bid", "other", "bid", "other"])
    assert read(server, page_size=2, identity=None) == ["bid", "bid", "other", "bid", "other"]


def test_pages_of_equal_rows_do_not_count_as_seen() -> None:
    rows = [*"aaabcadeaacdbbcafb"]
    for end in ENDS:
        assert read(ListingServer([*rows], end=end), page_size=4, identity=None) == rows


@pytest.mark.parametrize("sweep", [False, True])
def test_endless_pages_of_equal_rows_end_the_listing(sweep: bool) -> None:
    server = ListingServer([*"abcdefgh"], offset_ignored=True)
    turn = [lambda rows: rows.append(rows.pop(0))] * 1000
    if sweep:
        with pytest.raises(IncompleteError):
            read(server, page_size=4, identity=None, sweep=True, meanwhile=turn, most_pages=200)
    else:
        assert set(read(server, page_size=4, identity=None, meanwhile=turn, most_pages=50)) == {*"abcdefgh"}


@pytest.mark.parametrize("sweep", [False, True])
def test_repeated_page_of_equal_rows_is_recognised(sweep: bool) -> None:
    server = ListingServer(["a", "a", "b", "c", "c", "d"], end="last page")
    assert read(server, page_size=3, identity=None, sweep=sweep) == ["a", "a", "b", "c", "c", "d"]
    server = ListingServer(["a", "a", "b"], offset_ignored=True)
    if sweep:
        with pytest.raises(IncompleteError):
            read(server, page_size=3, identity=None, sweep=True)
    else:
        assert read(server, page_size=3, identity=None) == ["a", "a", "b"]


def test_walk_begins_at_the_given_page() -> None:
    server = ListingServer([*range(35)])
    assert read(server, start=2, sizes=learned(10)) == [*range(20, 35)]
    assert server.requests == [(2, 10), (3, 10), (4, 10)]


@pytest.mark.parametrize("end", ENDS[:5])
def test_walk_that_begins_beyond_the_end_is_empty(end: End) -> None:
    assert read(ListingServer([*range(5)], end=end), start=4) == []


def test_first_page_cut_by_an_unknown_clamp_is_not_the_end() -> None:
    server = ListingServer([*range(35)], clamp=10)
    assert read(server, start=1, page_size=100) == [*range(10, 35)]


def test_other_errors_do_not_end_a_listing() -> None:
    walk: SinglePass[int] | Sweep[int] = reader(1)
    assert not walk.fail(NotFoundError(status=404))
    walk.take(Rows((1,)))
    for status in (401, 403, 405, 409, 429, 502, 503, 504):
        assert not walk.fail(APIStatusError(status=status))
    assert not walk.fail(TransportError("reset"))
    assert not walk.ended
