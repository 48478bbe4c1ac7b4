"""Page sizes of a listing: learned, refused, cut, and stepped down."""

from __future__ import annotations

from typing import Literal

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
    BadRequestError,
    FreightExchangeError,
    ServerError,
    TransportError,
)
from freight_exchange.paging import PageSizes
from freight_exchange.paging.core.end_signs import pages_past_end
from freight_exchange.paging.core.reread import PAGES_PAST_END
from freight_exchange.paging.core.single_pass import SinglePass
from freight_exchange.paging.core.sweep import Sweep


def test_an_unknown_clamp_is_probed_in_the_size_received() -> None:
    server = ListingServer([*range(25)], clamp=10)
    assert read(server, page_size=100) == [*range(25)]
    assert server.requests == [(0, 100), (1, 10), (2, 10), (3, 10)]


def test_a_server_that_counts_pages_of_the_size_asked_for_loses_nothing() -> None:
    server = ListingServer([*range(25)], clamp=10, stride="asked")
    assert read(server, page_size=100) == [*range(25)]


def test_a_learned_clamp_is_asked_for_from_the_second_page_on() -> None:
    sizes = PageSizes()
    read(ListingServer([*range(25)], clamp=10), page_size=100, sizes=sizes)
    server = ListingServer([*range(25)], clamp=10)
    assert read(server, page_size=100, sizes=sizes) == [*range(25)]
    assert server.requests == [(0, 100), (1, 10), (2, 10), (3, 10)]


def test_a_clamp_that_was_learned_wrongly_is_forgotten() -> None:
    """The listing grows by a row between two pages, which looks like a clamp of one row."""
    sizes = PageSizes()
    read(ListingServer([0]), page_size=100, sizes=sizes, meanwhile=[lambda rows: rows.append(1)])
    assert sizes.clamp("operation") == 1
    server = ListingServer([*range(25)])
    assert read(server, page_size=100, sizes=sizes) == [*range(25)]
    assert server.requests == [(0, 100), (1, 25)]
    assert sizes.clamp("operation") is None


@pytest.mark.parametrize("stride", ["clamped", "asked"])
def test_pass_resumes_after_any_page_of_a_sweep(stride: Literal["clamped", "asked"]) -> None:
    walk: SinglePass[int] | Sweep[int] = reader(100, sweep=True)
    server = ListingServer([*range(35)], clamp=10, stride=stride)
    while not walk.ended:
        number = walk.number
        walk.take(server.page(number, walk.size))
        behind = read(ListingServer([*range(35)], clamp=10, stride=stride), page_size=walk.fitting, start=number + 1)
        assert behind == [*range(35)][walk.fitting * (number + 1) :], (number, walk.fitting)


def test_sweep_confirms_a_clamp() -> None:
    sizes, server = PageSizes(), ListingServer([0])
    found = read(server, page_size=100, sizes=sizes, sweep=True, meanwhile=[lambda rows: rows.extend(range(1, 40))])
    assert sorted(found) == [*range(40)]
    assert sizes.clamp("operation") is None
    assert server.requests[:4] == [(0, 100), (1, 1), (0, 100), (1, 40)]


def test_resumed_pass_requests_the_size_that_the_server_gives() -> None:
    sizes = PageSizes()
    read(ListingServer([*range(25)], clamp=10), page_size=100, sizes=sizes)
    server = ListingServer([*range(25)], clamp=10, stride="asked")
    assert read(server, page_size=100, sizes=sizes, start=1) == [*range(10, 25)]


def test_a_size_that_was_refused_is_not_asked_for_again() -> None:
    sizes = PageSizes()
    sizes.record_refusal("operation", 50)
    assert (
        sizes.size_to_request("operation", 100),
        sizes.size_to_request("operation", 20),
        sizes.clamp("operation"),
    ) == (50, 20, 50)


def test_a_clamp_is_not_learned_from_a_row_that_came_late() -> None:
    sizes = PageSizes()
    server = ListingServer([*range(5)])
    assert read(server, page_size=100, sizes=sizes, meanwhile=[lambda rows: rows.append(5)]) == [*range(6)]
    assert sizes.size_to_request("operation", 100) == 100


def test_small_page_size_that_is_honoured_is_not_a_clamp() -> None:
    sizes = PageSizes()
    read(ListingServer([*range(25)]), page_size=5, sizes=sizes)
    assert sizes.size_to_request("operation", 100) == 100


def test_sizes_are_learned_per_operation() -> None:
    sizes = learned(50)
    assert (sizes.longest("operation"), sizes.longest("another")) == (50, 0)


def test_a_listing_shorter_than_the_longest_page_is_looked_past_once() -> None:
    server = ListingServer([*range(29)])
    assert read(server, page_size=100, sizes=learned(30)) == [*range(29)]
    assert server.requests == [(0, 100), (1, 29)]


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("stride", ["clamped", "asked"])
def test_a_clamp_lowered_after_longer_pages_were_seen_cuts_nothing(
    sweep: bool, stride: Literal["clamped", "asked"]
) -> None:
    server = ListingServer([*range(450)], clamp=50, stride=stride)
    assert read(server, page_size=100, sizes=learned(100), sweep=sweep) == [*range(450)]


@pytest.mark.parametrize("stride", ["clamped", "asked"])
@pytest.mark.parametrize("change", range(1, 12))
@pytest.mark.parametrize("clamps", [(100, 50), (50, 100), (100, 30), (20, 70)])
def test_a_clamp_that_changes_in_the_middle_of_a_sweep_skips_nothing(
    stride: Literal["clamped", "asked"], change: int, clamps: tuple[int, int]
) -> None:
    server = ListingServer([*range(450)], stride=stride, clamps=lambda before: clamps[before >= change])
    assert sorted(read(server, page_size=100, sweep=True)) == [*range(450)]


@pytest.mark.parametrize("identity", [same, None])
@pytest.mark.parametrize("change", range(1, 6))
def test_a_clamp_lowered_for_the_end_of_a_listing_is_noticed_by_a_sweep(change: int, identity: None) -> None:
    """The clamp is back at the second pass: only the size of that pass shows the rows that were cut."""
    server = ListingServer(
        [*range(115)], stride="asked", clamps=lambda before: 10 if change <= before < change + 5 else 100
    )
    assert sorted(read(server, page_size=100, sweep=True, identity=identity)) == [*range(115)]


@pytest.mark.parametrize("sweep", [False, True])
def test_first_page_of_few_rows_does_not_shrink_the_page_size(sweep: bool) -> None:
    server = ListingServer([*range(2000)], hidden=lambda row: 1 < row < 100)
    found = read(server, page_size=100, sweep=sweep)
    assert found == [0, 1, *range(100, 2000)] or not sweep
    assert len(server.requests) < 60


@pytest.mark.parametrize("most_rows", [10, 20, 99, 100])
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("wanted", [1000, 500, 100])
def test_refused_size_is_reduced_and_remembered(most_rows: int, sweep: bool, wanted: int) -> None:
    sizes, rows = PageSizes(), [*range(115)]
    assert read(ListingServer(rows, most_rows=most_rows), page_size=wanted, sizes=sizes, sweep=sweep) == rows
    taken = max(size for size in (wanted, 100, 20, 10) if size <= most_rows)
    server = ListingServer(rows, most_rows=most_rows)
    assert read(server, page_size=wanted, sizes=sizes, sweep=sweep) == rows
    assert server.requests[0] == (0, taken)


@pytest.mark.parametrize("error", [TransportError("reset"), ServerError(status=503)])
def test_outage_at_the_first_page_reduces_the_size_to_a_modest_page(error: FreightExchangeError) -> None:
    walk: SinglePass[int] | Sweep[int] = reader(1000)
    assert walk.fail(error)
    assert (walk.number, walk.size) == (0, 100)
    assert not walk.fail(error)


@pytest.mark.parametrize("sweep", [False, True])
def test_failure_caused_by_the_page_size_reduces_it_to_the_minimum(sweep: bool) -> None:
    walk: SinglePass[int] | Sweep[int] = reader(1000, sweep=sweep)
    for size in (100, 20, 10):
        assert walk.fail(ServerError(status=500))
        assert (walk.number, walk.size) == (0, size)
    assert not walk.fail(ServerError(status=500))


def test_page_that_is_refused_in_every_size_is_an_error() -> None:
    walk: SinglePass[int] | Sweep[int] = reader(1000)
    for size in (100, 20, 10):
        assert walk.fail(BadRequestError(status=400))
        assert walk.size == size
    assert not walk.fail(BadRequestError(status=400))


@pytest.mark.parametrize("own", [3, 10, 25, 40])
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_server_with_a_page_size_of_its_own(own: int, sweep: bool, end: End) -> None:
    server = ListingServer([*range(25)], own_page_size=own, end=end)
    if sweep and own >= 25 and end == "last page":
        # So does one without the page number, and has more.
        with pytest.raises(IncompleteError):
            read(server, page_size=5, sweep=True)
    else:
        assert read(server, page_size=5, sweep=sweep) == [*range(25)]
    # Up and down, each with pages past the end.
    assert len(server.requests) <= 25 // own * 3 + 10 + 2 * pages_past_end(PAGES_PAST_END, min(own, 25))


def test_page_longer_than_requested_shows_the_servers_page_size() -> None:
    server = ListingServer([*range(17)], own_page_size=10)
    assert read(server, page_size=5) == [*range(17)]
    assert [number for number, _ in server.requests] == [0, 1, 2]


class Joined(ListingServer[int]):
    """Server that cuts pages by requests, and lists up to three bids of each as rows."""

    def _read(self, page: list[int]) -> Rows[int]:
        return super()._read([10 * request + bid for request in page for bid in range(1 + request % 3)])


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("identity", [same, None])
@pytest.mark.parametrize("clamp", [None, 3])
def test_pages_of_more_rows_than_requested_follow_each_other(sweep: bool, identity: None, clamp: int | None) -> None:
    server = Joined([*range(45)], clamp=clamp)
    rows = [10 * request + bid for request in range(45) for bid in range(1 + request % 3)]
    assert read(server, page_size=10, sweep=sweep, identity=identity) == rows
