"""Tests of rules 2, 3 and 4, one scan: the choice of the next page, errors, and the end."""

from __future__ import annotations

import pytest

from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    TransportError,
    is_transient,
)
from freight_exchange.feed.core.planning.scanner import OPERATION, PAGE_SIZE, Scanner
from freight_exchange.feed.paging_legacy.page_sizes import MODEST_PAGE, PageSizes
from freight_exchange.models import RateRequest
from freight_exchange.wire import Rows

GONE = NotFoundError("no such page", status=404)
DOWN = ServerError("down", status=503)
REFUSED = BadRequestError("no", status=400)


def rows(*indexes: int, broken: int = 0) -> Rows[RateRequest]:
    unreadable = tuple(DecodeError("bad", raw={"row": number}) for number in range(broken))
    return Rows(tuple(RateRequest(index=index) for index in indexes), unreadable)


def page_of(scanner: Scanner[RateRequest], listing: list[int], clamp: int = 10_000) -> Rows[RateRequest]:
    size = min(scanner.size, clamp)
    return rows(*listing[scanner.number * size : (scanner.number + 1) * size])


def known(clamp: int) -> PageSizes:
    sizes = PageSizes()
    sizes.record_clamp(OPERATION, clamp)
    return sizes


def test_an_empty_window_is_one_page() -> None:
    scanner = Scanner[RateRequest](PageSizes())
    assert (scanner.number, scanner.size) == (0, PAGE_SIZE)
    scanner.take(rows())
    assert scanner.ended
    assert (scanner.pages, scanner.rows) == (1, 0)


def test_rule_11_a_page_shorter_than_the_longest_proven_whole_is_the_end() -> None:
    sizes = PageSizes()
    sizes.record_rows(OPERATION, 8)
    scanner = Scanner[RateRequest](sizes)
    scanner.take(rows(1, 2, 3, broken=2))
    assert scanner.ended
    assert scanner.rows == 5


def test_rule_11_a_page_as_long_as_the_longest_is_probed_in_its_own_size() -> None:
    """By rule 2, the page may end at the service's clamp."""
    sizes = PageSizes()
    sizes.record_rows(OPERATION, 3)
    scanner = Scanner[RateRequest](sizes)
    scanner.take(rows(1, 2, 3))
    assert not scanner.ended
    assert (scanner.number, scanner.size) == (1, 3)


def test_rule_2_the_clamp_is_learned_and_asked_for_from_the_second_page_on() -> None:
    sizes, requested = PageSizes(), list[tuple[int, int]]()
    for scanner in (Scanner[RateRequest](sizes), Scanner[RateRequest](sizes)):
        requested.clear()
        while not scanner.ended:
            requested.append((scanner.number, scanner.size))
            scanner.take(page_of(scanner, [*range(23)], clamp=10))
        assert sizes.clamp(OPERATION) == 10
    assert requested == [(0, PAGE_SIZE), (1, 10), (2, 10), (1, 10), (0, 10)]


def test_rule_2_burst_between_a_short_page_and_its_probe_is_not_a_clamp() -> None:
    """Row by row, a slow service would take so long that the burst is old before the scan ends."""
    sizes, listing, requested = PageSizes(), [1], list[tuple[int, int]]()
    scanner = Scanner[RateRequest](sizes)
    while not scanner.ended:
        requested.append((scanner.number, scanner.size))
        scanner.take(page_of(scanner, listing))
        if scanner.pages == 1:
            listing.extend(range(2, 112))
    assert sizes.clamp(OPERATION) is None
    assert requested == [(0, PAGE_SIZE), (1, 1), (0, PAGE_SIZE), (1, 111), (0, 111)]


def test_rule_2_a_row_that_slips_down_while_pages_are_read_is_seen() -> None:
    """The sweep goes back. A single pass would lose row 3, which moves to page 0 when row 0 is removed."""
    scanner, listing, seen = Scanner[RateRequest](known(3)), [*range(8)], set[int]()
    while not scanner.ended:
        page = page_of(scanner, listing, clamp=3)
        seen |= {record.index for record in page.records}
        scanner.take(page)
        if scanner.pages == 1:
            listing.remove(0)
    assert seen == {*range(8)}


def test_rule_2_sweeps_alternate_until_one_adds_nothing() -> None:
    scanner, requested = Scanner[RateRequest](known(2)), list[int]()
    while not scanner.ended:
        requested.append(scanner.number)
        scanner.take(page_of(scanner, [1, 2, 3, 4, 5], clamp=2))
    assert requested == [0, 1, 2, 1, 0]


def test_rule_2_listing_that_keeps_changing_fails_the_scan() -> None:
    scanner, fresh = Scanner[RateRequest](known(2)), iter(range(10**6))
    with pytest.raises(FeedProtocolError, match="changed"):  # noqa: PT012 - which page raises is not promised
        while not scanner.ended:
            wanted = 1 if scanner.number == 2 else 2
            scanner.take(rows(*(next(fresh) for _ in range(wanted))))
    assert not scanner.ended


def test_rule_3_an_error_past_page_0_ends_a_scan_only_if_a_second_walk_agrees() -> None:
    scanner, requested = Scanner[RateRequest](known(2)), list[int]()
    while not scanner.ended:
        requested.append(scanner.number)
        if scanner.number == 2:
            assert scanner.fail(GONE) == "continue"
        else:
            scanner.take(rows(2 * scanner.number, 2 * scanner.number + 1))
    assert requested == [0, 1, 2, 1, 0] * 2


def test_rule_3_error_that_only_one_walk_meets_does_not_end_the_scan() -> None:
    scanner, struck, seen = Scanner[RateRequest](known(2)), False, set[int]()
    while not scanner.ended:
        if scanner.number == 1 and not struck:
            struck = True
            assert scanner.fail(REFUSED) == "continue"
            continue
        page = page_of(scanner, [*range(7)])
        seen |= {record.index for record in page.records}
        scanner.take(page)
    assert seen == {*range(7)}


def test_rule_3_errors_at_a_different_page_each_time_fail_the_scan() -> None:
    scanner, end = Scanner[RateRequest](known(2)), 1
    with pytest.raises(FeedProtocolError, match="at a different page"):  # noqa: PT012 - which page raises is not promised
        for _ in range(500):
            if scanner.number == end and scanner.fail(GONE) == "continue":
                end += 1
            else:
                scanner.take(rows(2 * scanner.number, 2 * scanner.number + 1))
    assert not scanner.ended


def test_rule_3_an_ignored_offset_ends_the_scan_and_is_known() -> None:
    scanner = Scanner[RateRequest](known(3))
    while not scanner.ended:
        scanner.take(rows(*[7, 8, 9][: scanner.size]))
    assert scanner.offset_ignored
    assert scanner.pages < 8


def test_rule_3_repeated_last_page_is_the_end_and_not_an_ignored_offset() -> None:
    scanner = Scanner[RateRequest](known(3))
    while not scanner.ended:
        scanner.take(rows(*([1, 2, 3], [4, 5])[min(scanner.number, 1)]))
    assert not scanner.offset_ignored


@pytest.mark.parametrize("status", [400, 404, 413])
def test_failed_login_proves_nothing_about_a_page(status: int) -> None:
    failed = BadRequestError("no", status=status, path="login")
    scanner = Scanner[RateRequest](PageSizes())
    assert scanner.fail(failed) == "give up"
    assert (scanner.number, scanner.size) == (0, PAGE_SIZE)
    scanner.take(rows(*range(PAGE_SIZE)))
    assert scanner.fail(failed) == "give up"
    assert scanner.number == 1
    assert not scanner.ended
    held = AuthenticationError("held", status=status, path="login")
    held.retry_after = 30.0
    assert scanner.fail(held) == "repeat"
    assert (scanner.number, scanner.ended) == (1, False)


@pytest.mark.parametrize("error", [GONE, REFUSED])
def test_rule_3_page_0_is_never_beyond_the_end(error: FreightExchangeError) -> None:
    assert Scanner[RateRequest](PageSizes(), page_size=10).fail(error) == "give up"


@pytest.mark.parametrize("status", [400, 404, 416, 422])
def test_rule_3_refused_page_is_an_end_for_every_status(status: int) -> None:
    scanner, listing, refused = Scanner[RateRequest](known(20)), [*range(40)], 0
    while not scanner.ended:
        page = page_of(scanner, listing, clamp=20)
        if scanner.number and not page.records:
            refused += 1
            assert scanner.fail(APIStatusError("no such page", status=status)) == "continue"
        else:
            scanner.take(page)
    assert refused == 2


def test_rule_4_scan_fails_after_three_requests_of_a_page() -> None:
    scanner = Scanner[RateRequest](known(2))
    scanner.take(rows(1, 2))
    assert [scanner.fail(DOWN) for _ in range(3)] == ["repeat", "repeat", "give up"]
    assert scanner.number == 1


def test_rule_4_each_page_has_three_attempts() -> None:
    scanner = Scanner[RateRequest](known(2))
    assert [scanner.fail(DOWN), scanner.fail(DOWN)] == ["repeat", "repeat"]
    scanner.take(rows(1, 2))
    assert [scanner.fail(DOWN), scanner.fail(DOWN), scanner.fail(DOWN)] == ["repeat", "repeat", "give up"]


@pytest.mark.parametrize("error", [DOWN, DeadlineExceededError("late"), DecodeError("larger than 10 MB")])
def test_failures_at_large_pages_reduce_them_in_this_scan(
    error: FreightExchangeError,
) -> None:
    sizes = PageSizes()
    scanner = Scanner[RateRequest](sizes)
    scanner.take(page_of(scanner, [*range(2000)]))
    assert [scanner.fail(error) for _ in range(3)] == ["repeat", "repeat", "give up"]
    assert {scanner.fail(error) for _ in range(2)} == {"give up"}
    assert scanner.fail(error) == "repeat"
    assert (scanner.number, scanner.size) == (0, 100)
    while not scanner.ended:
        scanner.take(page_of(scanner, [*range(250)]))
    assert scanner.rows >= 250
    assert sizes.clamp(OPERATION) is None
    assert Scanner[RateRequest](sizes).size == PAGE_SIZE


def test_failures_at_late_large_pages_reduce_them_in_the_end() -> None:
    listing, scanner = [*range(2500)], Scanner[RateRequest](PageSizes())
    scanner.take(page_of(scanner, listing))
    decisions = [scanner.fail(DOWN) for _ in range(6)]
    # After an outage a deep scan continues with the failed page: "give up" only makes it pause.
    assert decisions == ["repeat"] * 2 + ["give up"] * 3 + ["repeat"]
    assert (scanner.number, scanner.size) == (0, 100)
    while not scanner.ended:
        scanner.take(page_of(scanner, listing))
    assert scanner.rows >= 2500


def test_failures_at_smaller_pages_fail_the_scan() -> None:
    scanner = Scanner[RateRequest](PageSizes())
    assert [scanner.fail(DOWN) for _ in range(3)] == ["repeat", "repeat", "give up"]
    assert Scanner[RateRequest](PageSizes(), MODEST_PAGE).size == MODEST_PAGE


def test_rate_limit_does_not_reduce_the_page_size() -> None:
    scanner = Scanner[RateRequest](PageSizes())
    assert [scanner.fail(RateLimitedError("slowly", status=429)) for _ in range(3)] == ["repeat", "repeat", "give up"]


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize(("refusals", "size"), [(1, 100), (2, 20), (3, 10)])
def test_refused_large_pages_stay_reduced(status: int, refusals: int, size: int) -> None:
    sizes = PageSizes()
    scanner = Scanner[RateRequest](sizes)
    for _ in range(refusals):
        assert scanner.fail(BadRequestError("too many", status=status)) == "continue"
    assert (scanner.number, scanner.size) == (0, size)
    assert sizes.clamp(OPERATION) is None
    while not scanner.ended:
        scanner.take(page_of(scanner, [*range(45)]))
    assert Scanner[RateRequest](sizes).size == size


def test_refusal_of_each_page_size_fails_the_scan() -> None:
    scanner = Scanner[RateRequest](PageSizes())
    assert [scanner.fail(REFUSED) for _ in range(4)] == ["continue", "continue", "continue", "give up"]


def test_clamp_below_the_reduced_page_size_is_learned() -> None:
    sizes = PageSizes()
    scanner = Scanner[RateRequest](sizes)
    scanner.fail(REFUSED)
    while not scanner.ended:
        scanner.take(page_of(scanner, [*range(95)], clamp=40))
    assert sizes.clamp(OPERATION) == 40


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (DOWN, True),
        (RateLimitedError("slowly", status=429), True),
        (TransportError("reset"), True),
        (DeadlineExceededError("late"), True),
        (DecodeError("no collection"), True),
        (FeedProtocolError("restless"), True),
        (TransportError("certificate", permanent=True), False),
        (REFUSED, False),
        (GONE, False),
        (LoginRejectedError("no", status=401), False),
    ],
)
def test_transient_errors_are_distinguished(error: FreightExchangeError, passes: bool) -> None:
    assert is_transient(error) is passes
