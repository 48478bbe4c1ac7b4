"""Excuses of the checker for final states that no reply contained, and the nearest case that one did."""

from __future__ import annotations

import attrs
import pytest
from tests.model.servers.finding import Finding
from tests.model.servers.hand_made import FIRST, SECOND, WIDEST, HandMadeRun
from tests.model.servers.quirks import Cache, Empty, Failure, Quirks, Replicas, Span
from tests.model.servers.summary import confirmed
from tests.model.servers.unseen import DAILY

AN_HOUR = Quirks(windows="an hour")
FAILURE = Empty(Span(1000.0, 5000.0), listings=True, lookups=True, share=1.0, form="object")


def missed(run: HandMadeRun) -> list[str]:
    return [excuse for kind, excuse in run.findings if kind == "missed"]


def published(
    quirks: Quirks, *listings: float, at: float = 1500.0, stamp: float | None = None, degraded: float | None = None
) -> list[str]:
    """Return the excuses for request 1, which is published and never reported; some listings show it."""
    run = HandMadeRun(quirks, start="backfill")
    run.listing(0.5, WIDEST)
    run.market.publish(at, FIRST, stamp=stamp)
    for listing in listings:
        run.listing(listing, 345, 1)
    run.listing(20_000.0, 345)
    run.log.degraded += [] if degraded is None else [degraded]
    return missed(run)


@pytest.mark.parametrize(
    "quirks",
    [
        Quirks(),
        AN_HOUR,
        attrs.evolve(AN_HOUR, empties=(FAILURE,)),
        attrs.evolve(AN_HOUR, lookups_have_windows=True),
        Quirks(windows="capped", cap=7200),
    ],
    ids=str,
)
def test_state_that_a_listing_shows_has_no_excuse(quirks: Quirks) -> None:
    assert published(quirks, 1600.0) == [""]
    assert published(quirks, 1600.0, degraded=1550.0) == [""]


def test_state_that_every_scan_should_have_listed_has_no_excuse() -> None:
    for quirks in (Quirks(), AN_HOUR, Quirks(windows="capped", cap=7200)):
        assert published(quirks) == [""]


def test_update_that_is_older_than_the_widest_window_when_it_appears_is_never_listed() -> None:
    assert published(AN_HOUR, stamp=1500.0 - 3700.0) == ["never listed"]
    assert published(AN_HOUR, stamp=1500.0 - 1400.0) == [""]
    lagging = attrs.evolve(AN_HOUR, replicas=Replicas((3700.0,), "request", 1e9))
    assert published(lagging) == ["never listed"]
    assert published(attrs.evolve(lagging, replicas=Replicas((900.0,), "request", 1e9))) == [""]


def test_update_that_leaves_the_widest_window_within_an_hour_may_be_in_no_hourly_scan() -> None:
    left = "left the widest window before the hourly scan"
    assert published(AN_HOUR, stamp=1500.0 - 3500.0) == [left]
    assert published(AN_HOUR, stamp=1500.0 - 1500.0) == [left]
    assert published(AN_HOUR, 1600.0, stamp=1500.0 - 3500.0) == [""]
    # A scan of half an hour lists it first.
    assert published(AN_HOUR, stamp=1500.0 - 1400.0) == [""]
    # An hourly scan lists it first.
    assert published(Quirks(windows="capped", cap=7200), stamp=1500.0 - 3000.0) == [""]
    assert published(Quirks(windows="capped", cap=7200), stamp=1500.0 - 3500.0) == [left]


@pytest.mark.parametrize(
    ("pauses", "listing", "excuse"),
    [
        ([(1400.0, 3000.0), (3010.0, 6000.0)], 6010.0, "left the widest window while the reader paused"),
        ([(1800.0, 6000.0)], 6010.0, "left the widest window while the reader paused"),
        ([(1900.0, 6000.0)], 6010.0, ""),
        ([(1400.0, 3000.0), (3400.0, 6000.0)], 6010.0, ""),
        ([(1400.0, 4700.0)], 6010.0, ""),
        ([(1400.0, 3000.0), (3010.0, 6000.0)], 3005.0, ""),
    ],
)
def test_update_that_leaves_the_widest_window_while_the_reader_pauses_is_in_no_listing(
    pauses: list[tuple[float, float]], listing: float, excuse: str
) -> None:
    run = HandMadeRun(AN_HOUR, start="backfill")
    run.listing(0.5, WIDEST)
    run.market.publish(1500.0, FIRST)
    run.log.slept += [Span(*pause) for pause in pauses]
    run.listing(listing, 1800)
    assert missed(run) == [excuse]


def test_update_that_is_older_than_six_hours_when_it_appears_waits_for_the_daily_scan() -> None:
    assert published(Quirks(), stamp=1500.0 - 20_000.0) == [DAILY]
    assert published(Quirks(), 1600.0, stamp=1500.0 - 20_000.0) == [""]
    assert published(Quirks(), stamp=1500.0 - 17_000.0) == [""]


def test_update_that_leaves_the_widest_window_within_a_day_may_be_in_no_daily_scan() -> None:
    left = "left the widest window before the daily scan"
    assert published(Quirks(), stamp=1500.0 - WIDEST + 80_000.0) == [left]
    assert published(Quirks(), 1600.0, stamp=1500.0 - WIDEST + 80_000.0) == [""]
    assert published(Quirks(), stamp=1500.0 - WIDEST + 90_000.0) == [DAILY]


def test_state_that_waits_for_the_daily_scan_is_reported_by_a_longer_run() -> None:
    finding = Finding("missed", 1, 1500.0, "", DAILY)
    run = HandMadeRun()
    assert confirmed([finding], [], run.log, 20_000.0) == (finding,)
    assert confirmed([finding], [finding], run.log, 20_000.0) == (attrs.evolve(finding, excuse=""),)
    run.report(10_000.0, "new", 1)
    run.report(30_000.0, "withdrawn", 1)
    assert confirmed([finding], [finding], run.log, 20_000.0) == (attrs.evolve(finding, excuse=""),)
    # Withdrawn later for another reason.
    run.report(90_000.0, "updated", 1)
    assert confirmed([finding], [finding], run.log, 20_000.0) == (finding,)


def test_failure_that_hides_a_state_until_no_hourly_scan_can_list_it() -> None:
    hidden = "hidden until no hourly scan could list it any more"
    failing = attrs.evolve(AN_HOUR, empties=(FAILURE,))
    assert published(failing) == [hidden]
    assert published(failing, 1600.0) == [""]
    assert published(failing, at=500.0) == [""]
    assert published(Quirks(empties=(FAILURE,))) == [""]
    short = attrs.evolve(FAILURE, span=Span(1000.0, 2900.0))
    assert published(attrs.evolve(AN_HOUR, empties=(short,))) == [""]
    look_ups = attrs.evolve(FAILURE, listings=False)
    assert published(attrs.evolve(AN_HOUR, empties=(look_ups,))) == [""]


def test_requests_that_fail_until_a_failure_hides_a_state() -> None:
    late = attrs.evolve(AN_HOUR, empties=(attrs.evolve(FAILURE, span=Span(3000.0, 5200.0)),))
    failing = Failure(Span(1000.0, 3100.0), "503", share=1.0)
    assert published(attrs.evolve(late, failures=(failing,))) == ["hidden until no hourly scan could list it any more"]
    assert published(late) == [""]
    assert published(attrs.evolve(late, failures=(attrs.evolve(failing, share=0.5),))) == [""]
    assert published(attrs.evolve(late, failures=(attrs.evolve(failing, span=Span(1000.0, 2900.0)),))) == [""]
    only = attrs.evolve(failing, span=Span(1000.0, 5200.0))
    assert published(attrs.evolve(AN_HOUR, failures=(only,))) == [""]


def test_failure_that_is_reported_while_an_update_leaves_the_widest_window() -> None:
    degraded = ["Degraded when it left the widest window of the service"]
    assert published(AN_HOUR, degraded=2000.0) == degraded
    assert published(AN_HOUR, 1600.0, degraded=2000.0) == [""]
    assert published(Quirks(), degraded=2000.0) == [""]
    assert published(AN_HOUR, degraded=20_001.0) == [""]


def test_backup_that_is_restored_during_a_failure_that_is_reported_brings_back_an_older_update() -> None:
    def restored(at: float) -> list[str]:
        run = HandMadeRun(AN_HOUR, start="backfill")
        run.market.publish(-20_000.0, FIRST)
        run.listing(0.5, WIDEST)
        run.market.update(1500.0, 1, SECOND)
        run.market.update(1600.0, 1, FIRST)
        run.log.degraded.append(1550.0)
        run.log.recovered.append(3000.0)
        run.market.restore(at, 3600.0)
        run.listing(2900.0, 345)
        run.listing(3100.0, 345)
        return missed(run)

    assert restored(2000.0) == ["Degraded when it left the widest window of the service"]
    assert restored(3050.0) == [""]


def test_failure_that_ended_before_the_update_left_is_no_excuse() -> None:
    def recovered(at: float) -> list[str]:
        run = HandMadeRun(AN_HOUR, start="backfill")
        run.listing(0.5, WIDEST)
        run.market.publish(1500.0, FIRST)
        run.log.degraded.append(1600.0)
        run.log.recovered.append(at)
        run.listing(5050.0, 345)
        run.listing(5150.0, 345)
        return missed(run)

    assert recovered(5151.0) == ["Degraded when it left the widest window of the service"]
    assert recovered(5050.0) == [""]


# Requests that are reported as withdrawn, and stand


def back(quirks: Quirks, *listings: float, updated: float | None = None) -> list[str]:
    """Return the excuses for request 1, whose last report is its withdrawal at 5000."""
    run = HandMadeRun(quirks, start="backfill")
    run.listing(0.5, WIDEST)
    run.market.publish(900.0, FIRST)
    run.listing(1000.0, 345, 1)
    run.report(1000.0, "new", 1)
    run.look_up(5000.0, 1)
    run.report(5000.0, "withdrawn", 1)
    if updated is not None:
        run.market.update(updated, 1, SECOND)
    for at in listings:
        run.listing(at, 345, 1)
    return missed(run)


def test_withdrawn_request_is_not_reported_again_if_no_question_shows_it() -> None:
    windows = attrs.evolve(AN_HOUR, lookups_have_windows=True)
    assert back(windows) == ["hidden from all listings and look-ups"]
    assert back(AN_HOUR) == ["never listed"]
    assert back(Quirks(lookups_have_windows=True)) == [""]
    assert back(windows, 5400.0) == [""]


def test_withdrawn_request_that_is_updated_is_to_be_reported() -> None:
    windows = attrs.evolve(AN_HOUR, lookups_have_windows=True)
    assert back(windows, updated=5300.0) == [""]
    assert back(windows, 5400.0, updated=5300.0) == [""]


def test_update_that_only_pages_kept_for_narrower_windows_lack() -> None:
    pages = Quirks(cache=Cache(3600.0, listings=True, lookups=False, key="page", until=1e9))

    def updated(
        quirks: Quirks = pages, *, window: int = 345, kept: float | None = 900.0, at: float = 335.0
    ) -> list[str]:
        """Return the excuses for an update before a narrow scan, whose page is cached from a deep scan."""
        run = HandMadeRun(quirks, start="backfill")
        run.market.publish(-1000.0, FIRST)
        run.listing(0.5, WIDEST, 1)
        run.report(1.0, "new", 1)
        run.market.update(at, 1, SECOND)
        run.listing(900.0, window)
        run.claim(901.0, 900.0)
        run.listing(1200.0, 21_600, as_of=kept)
        run.claim(1201.0, 1200.0)
        return missed(run)

    assert updated() == ["a cache that answers every window alike"]
    assert updated(Quirks()) == [""]
    assert updated(kept=None) == [""]
    assert updated(window=1800) == [""]
    assert updated(at=700.0) == [""]


def test_page_of_a_query_that_hid_the_request_proves_nothing_beside_pages_kept_for_narrower_windows() -> None:
    cache = Cache(3600.0, listings=True, lookups=False, key="page", until=1e9)
    hiding = Empty(Span(1100.0, 1300.0), listings=True, lookups=True, share=0.95, form="object")
    for empties, expected in (((hiding,), "a cache that answers every window alike"), ((), "")):
        run = HandMadeRun(Quirks(cache=cache, empties=empties), start="backfill")
        run.market.publish(-1000.0, FIRST)
        run.listing(0.5, WIDEST, 1)
        run.report(1.0, "new", 1)
        run.market.update(335.0, 1, SECOND)
        run.listing(1200.0, 21_600)
        run.claim(1201.0, 1200.0)
        run.listing(1500.0, 345)
        run.claim(1501.0, 1500.0)
        run.listing(1800.0, 21_600, as_of=1500.0)
        run.claim(1801.0, 1800.0)
        assert missed(run) == [expected]


def test_cache_that_answers_every_window_alike_excuses_only_requests_of_the_first_scan() -> None:
    pages = Quirks(cache=Cache(3600.0, listings=True, lookups=False, key="page", until=1e9))
    cache = ["a cache that answers every window alike"]

    def excuses(quirks: Quirks, *listings: float, start: str = "now", first: int = 0) -> list[str]:
        """Return the excuses for request 1, updated at 50, or published then without a `first` listing."""
        run = HandMadeRun(quirks, start=start, listed=100.0)
        if first:
            run.market.publish(-1000.0, FIRST)
        run.listing(0.5, WIDEST, *(first,) * first)
        if first:
            run.market.update(50.0, 1, SECOND)
        else:
            run.market.publish(50.0, SECOND)
        for at in listings:
            run.listing(at, 345 if at > 100.0 else WIDEST, 1)
        return missed(run)

    assert excuses(pages, first=1) == cache
    assert excuses(pages, 60.0, first=1) == [""]
    assert excuses(pages, 400.0, first=1) == [""]
    assert excuses(pages, 60.0, 400.0) == [""]
    assert excuses(pages, 60.0, start="backfill") == [""]
    assert excuses(Quirks(), first=1) == [""]
