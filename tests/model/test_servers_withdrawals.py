"""Excuses of the checker for withdrawals that no client can report, and the nearest case that a client can."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import attrs
import pytest
from tests.model.servers.hand_made import FIRST, SECOND, WIDEST, HandMadeRun
from tests.model.servers.quirks import Cache, Empty, Quirks, Span

FALSE = "false withdrawal"
MISSED = "missed withdrawal"
FAILING = Quirks(empties=(Empty(Span(1000.0, 30_000.0), listings=True, lookups=True, share=0.95, form="object"),))
AN_HOUR = Quirks(windows="an hour", lookups_have_windows=True)


def standing(quirks: Quirks, *, others: int = 0, **changes: Any) -> HandMadeRun:
    """Return a run in which request 1 is published and reported, and stands until the end, with other requests."""
    run = HandMadeRun(quirks, **changes)
    run.listing(0.5, WIDEST)
    every = [run.market.publish(900.0, FIRST) for _ in range(1 + others)]
    run.listing(900.0, 345, *every)
    for index in every:
        run.report(900.0, "new", index)
    return run


def after_scans(
    quirks: Quirks,
    *scans: tuple[float, int],
    others: int = 0,
    listed: int = 0,
    degraded: float | None = None,
    is_found: bool | None = False,
    **changes: Any,
) -> list[str]:
    """Return the excuses for the withdrawal of request 1 after scans (time, window), and a look-up.

    These scans list `listed` of the other requests.
    """
    run = standing(quirks, others=others, **changes)
    for at, window in scans:
        run.listing(at, window, *range(2, 2 + listed))
    if is_found is not None:
        run.look_up(scans[-1][0] + 1, 1, is_found=is_found)
    run.log.degraded += [] if degraded is None else [degraded]
    run.report(scans[-1][0] + 1, "withdrawn", 1)
    return [excuse for kind, excuse in run.findings if kind == FALSE]


def test_failure_that_hides_few_requests_from_all_replies_of_an_interval() -> None:
    assert after_scans(FAILING, (1200.0, 800), (1500.0, 1100)) == [
        "absent from every reply of an interval, with few others"
    ]


@pytest.mark.parametrize(
    "scans",
    [
        pytest.param(((1200.0, 800),), id="one scan"),
        pytest.param(((1200.0, 800), (1201.0, 800)), id="two scans at once"),
        pytest.param(((1200.0, 345), (1500.0, 345)), id="windows that begin after its last update"),
        pytest.param(((1200.0, 800), (1500.0, 345)), id="one window that begins after its last update"),
        pytest.param(((1200.0, 310), (1500.0, 610)), id="windows that no reply proves to contain its last update"),
    ],
)
def test_fewer_replies_excuse_no_withdrawal(scans: tuple[tuple[float, int], ...]) -> None:
    assert after_scans(FAILING, *scans) == [""]
    assert after_scans(FAILING, *scans, others=5, degraded=1100.0) == [""]


def test_complete_replies_excuse_no_withdrawal() -> None:
    assert after_scans(Quirks(), (1200.0, 800), (1500.0, 1100)) == [""]
    listings_only = attrs.evolve(FAILING.empties[0], lookups=False)
    assert after_scans(Quirks(empties=(listings_only,)), (1200.0, 800), (1500.0, 1100)) == [""]
    ended = attrs.evolve(FAILING.empties[0], span=Span(1000.0, 1400.0))
    assert after_scans(Quirks(empties=(ended,)), (1200.0, 800), (1500.0, 1100)) == [""]
    assert after_scans(FAILING, (1200.0, 800), (1500.0, 1100), is_found=True) == [""]
    assert after_scans(FAILING, (1200.0, 800), (1500.0, 1100), is_found=None) == [""]


def test_failure_that_hides_a_third_is_to_be_reported_as_degraded() -> None:
    scans = (1200.0, 800), (1500.0, 1100)
    assert after_scans(FAILING, *scans, others=1) == ["absent from every reply of an interval, with few others"]
    assert after_scans(FAILING, *scans, others=2) == [""]
    assert after_scans(FAILING, *scans, others=2, degraded=1201.0) == ["Degraded beside it"]
    assert after_scans(Quirks(), *scans, others=2, degraded=1201.0) == [""]
    assert after_scans(FAILING, *scans, others=8, listed=6) == [""]
    assert after_scans(FAILING, *scans, others=9, listed=7) == [
        "absent from every reply of an interval, with few others"
    ]


def test_failure_hides_none_that_may_be_older_by_a_clock_that_was_set_forward() -> None:
    scans = (1200.0, 800), (1500.0, 1100)
    few = ["absent from every reply of an interval, with few others"]
    assert after_scans(FAILING, *scans, others=2, wall_jumps=((1100.0, 3600.0),)) == few
    assert after_scans(FAILING, *scans, others=2, wall_jumps=((1100.0, -3600.0),)) == [""]
    assert after_scans(FAILING, *scans, others=2, wall_jumps=((500.0, 3600.0),)) == [""]
    assert after_scans(FAILING, *scans, others=2, wall_jumps=((1600.0, 3600.0),)) == [""]


def test_scan_that_the_end_of_a_run_cut_off_hides_nothing() -> None:
    def excuse(*lives: float, claimed: float | None = None) -> list[str]:
        run = standing(FAILING, others=8)
        run.log.live += lives
        run.listing(1200.0, 800, *range(2, 10))
        run.listing(1400.0, 1000, 2)
        if claimed is not None:
            run.claim(claimed, 1400.0)
        run.listing(1500.0, 1100, *range(2, 10))
        run.look_up(1501.0, 1)
        run.report(1501.0, "withdrawn", 1)
        return [excuse for kind, excuse in run.findings if kind == FALSE]

    assert excuse(1450.0) == ["absent from every reply of an interval, with few others"]
    assert excuse() == [""]
    assert excuse(1450.0, claimed=1401.0) == [""]


def test_look_ups_that_have_windows_show_no_request_that_is_older_than_the_widest() -> None:
    scans = (4600.0, 4100), (4900.0, 4400)
    assert after_scans(AN_HOUR, *scans) == ["hidden from all listings and look-ups"]
    assert after_scans(attrs.evolve(AN_HOUR, lookups_have_windows=False), *scans) == [""]
    assert after_scans(Quirks(lookups_have_windows=True), *scans) == [""]
    assert after_scans(AN_HOUR, (3900.0, 3400), (4200.0, 3700)) == [""]
    assert after_scans(AN_HOUR, *scans[1:]) == [""]


def test_look_up_by_a_replica_that_is_older_than_the_request() -> None:
    def looked_up(as_of: float) -> list[str]:
        run = standing(Quirks())
        run.listing(950.0, 445)
        run.listing(1250.0, 745)
        run.look_up(950.0 + 301.0, 1, as_of=as_of)
        run.report(1251.0, "withdrawn", 1)
        return [excuse for kind, excuse in run.findings if kind == FALSE]

    assert looked_up(899.0) == ["look-ups that are older than the request"]
    assert looked_up(901.0) == [""]


@pytest.mark.parametrize(("lag", "excuse"), [(37.0, ""), (77.0, "look-ups that are older than the request")])
def test_replica_that_lags_by_less_than_updates_may_be_late_is_no_excuse(lag: float, excuse: str) -> None:
    run = standing(Quirks(), interval=timedelta(seconds=30))
    look_up = 899.0 + lag
    run.listing(look_up - 25.0, 445, as_of=899.0)
    run.listing(look_up - 0.5, 445, as_of=899.0)
    run.look_up(look_up, 1, as_of=899.0)
    run.report(look_up, "withdrawn", 1)
    assert (FALSE, excuse) in run.findings


def test_withdrawal_is_true_if_the_look_up_showed_that_it_was_gone() -> None:
    run = standing(Quirks())
    row = run.market.now[1]
    run.market.remove(1000.0, 1)
    run.look_up(1500.0, 1)
    run.market.put_back(1501.0, row)
    run.report(1502.0, "withdrawn", 1)
    assert FALSE not in dict(run.findings)


def test_withdrawal_is_false_if_a_newer_reply_than_the_look_up_showed_it() -> None:
    run = standing(Quirks())
    row = run.market.now[1]
    run.market.remove(1000.0, 1)
    run.market.put_back(1100.0, row)
    run.listing(1150.0, 600, 1)
    run.look_up(1200.0, 1, as_of=1050.0)
    run.report(1201.0, "withdrawn", 1)
    assert (FALSE, "") in run.findings


@pytest.mark.parametrize(
    ("as_of", "back", "is_false"),
    [
        pytest.param(1200.0, None, False, id="gone since"),
        pytest.param(950.0, None, True, id="there when the scan was made"),
        pytest.param(1200.0, 1300.0, True, id="back before the report"),
    ],
)
def test_scan_that_lacked_a_removed_request_proves_it_though_older_replies_came_later(
    as_of: float, back: float | None, *, is_false: bool
) -> None:
    run = HandMadeRun()
    run.listing(0.5, WIDEST)
    run.listing(800.0, 900)
    run.market.publish(850.0, FIRST)
    row = run.market.now[1]
    run.listing(900.0, 1000, 1)
    run.report(900.0, "new", 1)
    run.market.remove(1000.0, 1)
    if back is not None:
        run.market.put_back(back, row)
    run.listing(1200.0, 460, as_of=as_of)
    run.listing(1500.0, 800, as_of=700.0)
    run.look_up(1501.0, 1, as_of=700.0)
    run.report(1501.0, "withdrawn", 1)
    assert ((FALSE, "") in run.findings) is is_false
    assert (FALSE in dict(run.findings)) is is_false


# Withdrawals that are not reported


def gone(
    *listings: tuple[float, int], quirks: Quirks | None = None, as_of: float | None = None, **changes: Any
) -> HandMadeRun:
    """Return a run in which request 1 is an hour old, listed by these scans, and withdrawn unreported at 2000."""
    run = HandMadeRun(quirks, start="backfill", **changes)
    run.market.publish(-3600.0, FIRST)
    run.listing(0.5, WIDEST, 1)
    run.report(1.0, "new", 1, observed=(None, None))
    for at, window in listings:
        run.listing(at, window, 1, as_of=as_of)
    run.market.remove(2000.0, 1)
    return run


def excuses(run: HandMadeRun) -> list[str]:
    return [excuse for kind, excuse in run.findings if kind == MISSED]


def test_no_client_knows_when_a_request_that_only_the_first_scan_lists_was_updated() -> None:
    before = ["listed before the feed began, and never seen updated"]
    assert excuses(gone()) == before
    assert excuses(gone((900.0, 21_600))) == before
    assert excuses(gone((900.0, 5400))) == [""]


def test_window_that_a_cache_ignores_proves_no_update() -> None:
    pages = Quirks(cache=Cache(3600.0, listings=True, lookups=False, key="page", until=math.inf))
    assert excuses(gone((900.0, 345), quirks=pages, as_of=0.5)) == [
        "listed before the feed began, and never seen updated"
    ]
    assert excuses(gone((900.0, 345), quirks=pages)) == [""]
    assert excuses(gone((900.0, 345), as_of=0.5)) == [""]


def test_two_scans_that_reach_back_to_its_last_update_prove_a_withdrawal() -> None:
    before = ["listed before the feed began, and never seen updated"]

    def scanned(*scans: tuple[float, ...], window: int = WIDEST) -> list[str]:
        """Return the excuses after complete scans, whose pages arrive at these times."""
        run = gone((900.0, 21_600))
        run.claim(901.0, -math.inf)
        for pages in scans:
            for number, at in enumerate(pages):
                run.listing(at, window, offset=number % 2)
            run.claim(pages[-1] + 1, -math.inf)
        return excuses(run)

    assert excuses(gone()) == before
    assert scanned((2600.0,)) == before
    assert scanned((2600.0,), (2900.0,)) == [""]
    assert scanned((2600.0,), (2601.0,)) == before
    # One scan that is swept twice; and one that began before.
    assert scanned((2600.0, 2650.0, 2900.0, 2950.0)) == before
    assert scanned((1990.0, 2600.0), (2900.0,)) == before
    # Windows slide on while pages are read.
    assert scanned((2600.0, 2601.0), (2900.0, 2901.0), window=23_601) == [""]
    assert scanned((2600.0, 2601.0), (2900.0, 2901.0), window=23_600) == before


def test_scan_that_is_not_complete_proves_no_withdrawal() -> None:
    run = gone((900.0, 21_600))
    run.listing(2600.0, WIDEST)
    run.listing(2900.0, WIDEST)
    assert excuses(run) == ["listed before the feed began, and never seen updated"]


def test_wall_clock_that_is_set_forward_may_make_a_request_older_than_every_window() -> None:
    day = ((1000.0, 86_400.0),)
    clock = ["a wall clock that was set: it may be older than every window"]

    def jumped(jumps: tuple[tuple[float, float], ...], *after: float, seen: float = 900.0) -> list[str]:
        run = gone((seen, 345), wall_jumps=jumps)
        for at in (1200.0, *after):
            run.listing(at, WIDEST if at > 2000.0 else 645)
            run.claim(at + 0.1, at)
        return excuses(run)

    assert jumped(day) == clock
    assert jumped(day, 2300.0) == clock
    assert jumped(day, 2300.0, 2301.0) == clock
    assert jumped(day, 2300.0, 2600.0) == [""]
    assert jumped(((1000.0, -86_400.0),)) == [""]
    twice = ((1000.0, 300_000.0), (1100.0, 300_000.0))
    assert jumped(twice[:1], 2300.0, 2600.0) == [""]
    assert jumped(twice, 2300.0, 2600.0) == clock
    assert jumped((), 2300.0) == [""]


def test_scans_look_back_to_the_earliest_time_of_an_update_before_the_wall_clock_was_set() -> None:
    """The window that first listed the request begins 345 seconds before."""
    for further, expected in ((10, "a wall clock that was set: it may be older than every window"), (400, "")):
        run = HandMadeRun(wall_jumps=((1000.0, 86_400.0),))
        run.listing(0.5, WIDEST)
        run.market.publish(800.0, FIRST)
        run.listing(900.0, 345, 1)
        run.report(901.0, "new", 1)
        run.market.remove(2000.0, 1)
        for at in (2300.0, 2600.0):
            run.listing(at, int(at - 900 + 86_400 + further))
            run.claim(at + 1, at)
        assert excuses(run) == [expected]


def test_scan_whose_window_slides_past_a_request_before_its_last_page_does_not_lack_it() -> None:
    for last, expected in ((2390.0, ""), (2500.0, "a wall clock that was set: it may be older than every window")):
        run = gone((900.0, 345), wall_jumps=((1000.0, 86_400.0),))
        for at in (2300.0, last, 2800.0):
            run.listing(at, WIDEST if at == 2800.0 else int(2400.0 + 86_400.0))
            if at != 2300.0:
                run.claim(at + 1, 2300.0)
        assert excuses(run) == [expected]


def test_return_of_a_withdrawn_request_is_not_when_its_state_was_found() -> None:
    def returned(*, updated: bool) -> list[str]:
        run = HandMadeRun(start="backfill", wall_jumps=((1000.0, 86_400.0),))
        run.market.publish(-3600.0, FIRST)
        run.listing(0.5, WIDEST, 1)
        run.report(1.0, "new", 1, observed=(None, None))
        run.listing(900.0, 345, 1)
        run.listing(1200.0, 645)
        run.claim(1201.0, 1200.0)
        run.report(1300.0, "withdrawn", 1)
        content = SECOND if updated else FIRST
        if updated:
            run.market.update(1350.0, 1, content)
        run.listing(1400.0, WIDEST, 1)
        run.report(1401.0, "updated", 1, content, returned=True)
        run.market.remove(2000.0, 1)
        for at, window in ((2300.0, 2000), (2700.0, 2400)):
            run.listing(at, window)
            run.claim(at + 1, at)
        return excuses(run)

    assert returned(updated=False) == ["a wall clock that was set: it may be older than every window"]
    assert returned(updated=True) == [""]


def test_stale_listing_that_shows_a_request_is_no_scan_that_lacks_it() -> None:
    def listed(*stale: float) -> list[str]:
        run = gone((900.0, 345), wall_jumps=((1000.0, 86_400.0),))
        for at in (2300.0, 2600.0, 2900.0):
            run.listing(at, WIDEST, *((1,) if at in stale else ()), as_of=1900.0 if at in stale else None)
            run.claim(at + 1, at)
        return excuses(run)

    older = ["a wall clock that was set: it may be older than every window"]
    assert listed(2300.0, 2600.0) == older
    assert listed(2300.0) == [""]
    run = gone((900.0, 345), wall_jumps=((1000.0, 86_400.0),))
    for at in (2300.0, 2600.0):
        run.listing(at, WIDEST)
        run.listing(at + 1, WIDEST, 1, as_of=1900.0, offset=1)
        run.claim(at + 2, at)
    assert excuses(run) == older


def test_request_that_is_seen_after_a_scan_has_covered_a_jump_of_the_wall_clock_is_not_older() -> None:
    """The first scan, which ends after the jump, covers nothing that came after the entry."""

    def seen(*, covered: float) -> list[str]:
        run = HandMadeRun(wall_jumps=((1000.0, 86_400.0),))
        run.listing(0.5, WIDEST)
        run.listing(1001.0, 345)
        run.claim(1002.0, covered)
        run.market.publish(1500.0, FIRST)
        run.listing(1600.0, 645, 1)
        run.report(1601.0, "new", 1)
        run.market.remove(2000.0, 1)
        return excuses(run)

    assert seen(covered=1001.0) == [""]
    assert seen(covered=500.0) == ["a wall clock that was set: it may be older than every window"]


def test_gap_soon_after_a_withdrawal_makes_its_time_unknown() -> None:
    for at, expected in ((5000.0, "a Gap beside it"), (6000.0, ""), (1900.0, "")):
        run = gone((900.0, 345))
        run.report(at, "Gap", None, None)
        assert excuses(run) == [expected]
    run = gone((900.0, 345))
    run.report(5000.0, "SchemaChanged", None, None)
    assert excuses(run) == [""]
