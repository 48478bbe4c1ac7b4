"""Tests of the new rows that a round of a window walk leaves unexplained, and of those excused as recent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.feed.paging_legacy.listing_server import ListingServer, same

from freight_exchange.feed.paging_legacy.page_sizes import PageSizes
from freight_exchange.feed.paging_legacy.window_walk import (
    MAX_ROUNDS,
    ROUNDS_THAT_LACK,
    ROUNDS_WITHOUT_NEWS,
    WindowWalk,
)

Happening = Callable[[list[int]], None]

THERE = frozenset(range(6))
MOST_PAGES = 20


def sweep() -> WindowWalk[int]:
    return WindowWalk("operation", PageSizes(), 2, same)


def one_round(walk: WindowWalk[int], server: ListingServer[int], happening: Happening | None = None) -> set[int]:
    """Read up and down once, with changes after the first page; return the rows that no earlier round found."""
    before = frozenset(walk._known)
    walk.take(server.page(walk.number, walk.size))
    if happening is not None:
        happening(server.rows)
    descending = False
    while not walk.ended and (walk.descending or not descending):
        descending = walk.descending
        walk.take(server.page(walk.number, walk.size))
    return {row for row in walk._known - before if isinstance(row, int)}


def insert(row: int) -> Happening:
    return lambda rows: rows.insert(0, row)


def repeat(rows: list[int]) -> None:
    """List a row twice: no row comes or goes, and yet no round proves anything."""
    rows.insert(0, rows[-1])


def unproven() -> tuple[WindowWalk[int], ListingServer[int]]:
    """Return a walk and its server after a first round that found all rows, and one inserted meanwhile."""
    walk, server = sweep(), ListingServer(sorted(THERE))
    one_round(walk, server, insert(100))
    return walk, server


def test_round_that_proves_nothing_reports_its_rows() -> None:
    walk, server = sweep(), ListingServer(sorted(THERE))
    assert not walk.unexplained
    one_round(walk, server, insert(100))
    assert not walk.ended
    assert walk.unexplained == THERE | {100}


def test_later_round_reports_only_rows_that_no_round_had() -> None:
    walk, server = unproven()
    walk.excuse(frozenset())
    assert one_round(walk, server, insert(101)) == {101}
    assert walk.unexplained == {101}


def test_a_round_that_proves_all_leaves_nothing_to_explain() -> None:
    walk = sweep()
    one_round(walk, ListingServer(sorted(THERE)))
    assert walk.ended
    assert not walk.unexplained


def test_a_round_that_brings_nothing_leaves_nothing_to_explain() -> None:
    walk, server = unproven()
    walk.excuse(frozenset())
    assert not one_round(walk, server, repeat)
    assert not walk.ended
    assert not walk.unexplained


def test_rounds_that_bring_only_recent_rows_come_to_an_end() -> None:
    walk, server = unproven()
    walk.excuse(frozenset({100}))
    for row in range(101, 101 + ROUNDS_WITHOUT_NEWS):
        assert not walk.ended
        one_round(walk, server, insert(row))
        walk.excuse(frozenset({100, row}))
    assert walk.ended


def test_rounds_without_an_excuse_make_the_listing_unstable() -> None:
    walk, server = sweep(), ListingServer(sorted(THERE))
    for row in range(100, 100 + MAX_ROUNDS):
        assert not walk.is_unstable
        one_round(walk, server, insert(row))
    assert walk.is_unstable
    assert not walk.ended


@pytest.mark.parametrize("place", range(ROUNDS_WITHOUT_NEWS))
def test_round_that_brings_more_than_recent_rows_restarts_the_count(place: int) -> None:
    walk, server = unproven()
    walk.excuse(frozenset())

    def two_of_which_one_was_there(rows: list[int]) -> None:
        rows[:0] = (200, 300)

    for row in range(101, 101 + place):
        one_round(walk, server, insert(row))
        walk.excuse(frozenset({row}))
    one_round(walk, server, two_of_which_one_was_there)
    walk.excuse(frozenset({300}))
    for row in range(400, 400 + ROUNDS_WITHOUT_NEWS):
        assert not walk.ended
        one_round(walk, server, insert(row))
        walk.excuse(frozenset({row}))
    assert walk.ended


def test_excused_rounds_and_rounds_without_news_count_together() -> None:
    walk, server = unproven()
    walk.excuse(frozenset())
    rounds = 0
    while not walk.ended:
        one_round(walk, server, repeat if rounds % 2 else insert(101 + rounds))
        walk.excuse(frozenset({101 + rounds}))
        rounds += 1
    # A row that is listed twice may as well be one that is missing.
    assert ROUNDS_WITHOUT_NEWS <= rounds <= ROUNDS_THAT_LACK


def test_a_round_is_excused_once() -> None:
    walk, server = unproven()
    walk.excuse(frozenset())
    one_round(walk, server, insert(101))
    for _ in range(2 * ROUNDS_WITHOUT_NEWS):
        walk.excuse(frozenset({101}))
    assert not walk.unexplained
    assert not walk.ended
    one_round(walk, server, insert(102))
    walk.excuse(frozenset({102}))
    assert not walk.ended


def test_rows_that_were_not_excused_cannot_be_excused_later() -> None:
    walk, server = unproven()
    walk.excuse(frozenset())
    for row in range(101, 101 + ROUNDS_WITHOUT_NEWS):
        one_round(walk, server, insert(row))
        walk.excuse(frozenset())
        walk.excuse(frozenset({row}))
    assert not walk.ended


@pytest.mark.parametrize("after", [0, 1, 4])
def test_excuse_in_the_middle_of_a_round_has_no_effect(after: int) -> None:
    walk, server = unproven()
    walk.excuse(frozenset())
    for row in range(101, 101 + ROUNDS_WITHOUT_NEWS):
        for _ in range(after):
            walk.take(server.page(walk.number, walk.size))
        for _ in range(ROUNDS_WITHOUT_NEWS):
            walk.excuse(THERE | {100, row})
        assert not walk.ended
        server.rows.insert(0, row)
        for _ in range(MOST_PAGES):
            walk.take(server.page(walk.number, walk.size))
            if walk.unexplained:
                break
        assert walk.unexplained == {row}
        walk.excuse(frozenset())
    assert not walk.ended


def test_a_row_that_cannot_be_read_is_never_recent() -> None:
    walk, server = unproven()
    walk.excuse(frozenset())
    server.broken = lambda row: row > 100
    for row in range(101, 101 + ROUNDS_WITHOUT_NEWS):
        one_round(walk, server, insert(row))
        assert walk.unexplained
        walk.excuse(frozenset(range(1000)))
    assert not walk.ended
