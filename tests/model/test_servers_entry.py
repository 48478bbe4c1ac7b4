"""Excuses of the checker for the first scan: updates that no reply distinguishes from older states, and others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attrs
from tests.model.servers.hand_made import FIRST, SECOND, WIDEST, HandMadeRun
from tests.model.servers.quirks import Cache, Empty, Quirks, Span
from tests.model.servers.run import EPOCH

PAGES = Quirks(cache=Cache(3600.0, listings=True, lookups=False, key="page", until=1e9))
FAILURE = Empty(Span(0.0, 100.0), listings=True, lookups=True, share=1.0, form="object")


def excuses(run: HandMadeRun, kind: str = "stood before") -> list[str]:
    return [excuse for found, excuse in run.findings if found == kind]


def standing(quirks: Quirks | None = None, *, stamp: float = -1000.0, **changes: Any) -> HandMadeRun:
    """Return a run of `start="now"` in which request 1 is older, and not listed by the first scan."""
    run = HandMadeRun(quirks, **changes)
    run.market.publish(-2000.0, FIRST, stamp=stamp)
    run.listing(0.5, WIDEST)
    return run


def reported(run: HandMadeRun, at: float, window: int, *, as_of: float | None = None) -> list[str]:
    """Return the excuses for request 1 as new, which a listing shows then."""
    run.listing(at, window, 1, as_of=as_of)
    run.report(at, "new", 1)
    return excuses(run)


def test_request_from_before_that_is_reported_as_new_has_no_excuse() -> None:
    assert reported(standing(), 300.0, 345) == [""]
    assert reported(standing(), 300.0, WIDEST) == [""]


def test_slow_replies_excuse_an_older_request_only_if_its_event_says_how_old_it_may_be() -> None:
    def excuses_for(latency: float, since: float) -> list[str]:
        run = standing(Quirks(latency=latency), stamp=-100.0)
        run.listing(300.0, 500, 1)
        observed = datetime.fromtimestamp(EPOCH + since, UTC), datetime.fromtimestamp(EPOCH + 300.0, UTC)
        run.report(300.0, "new", 1, observed=observed)
        return excuses(run)

    assert excuses_for(6.0, -150.0) == ["slow replies: the window begins before the entry, as the event says"]
    assert excuses_for(6.0, -50.0) == [""]
    assert excuses_for(0.2, -150.0) == [""]


def test_request_that_is_updated_after_the_entry_is_new() -> None:
    run = standing()
    run.market.update(100.0, 1, FIRST)
    assert reported(run, 300.0, 345) == []


def test_update_that_a_backup_undoes_before_it_is_reported_is_new() -> None:
    for content, found in ((SECOND, []), (FIRST, [""])):
        run = standing()
        row = run.market.now[1]
        run.market.update(100.0, 1, SECOND)
        run.listing(150.0, WIDEST)
        run.market.put_back(200.0, row)
        run.listing(300.0, WIDEST, 1, as_of=150.0 if content is SECOND else None)
        run.report(300.0, "new", 1, content=content)
        assert excuses(run) == found


def test_update_that_a_backup_undoes_after_a_reply_has_shown_it_is_new() -> None:
    def restored(at: float) -> list[str]:
        run = standing()
        run.market.update(at, 1, FIRST)
        run.listing(300.0, 345, 1)
        run.market.restore(500.0, 500.0)
        run.report(800.0, "new", 1)
        return excuses(run)

    assert restored(200.0) == []
    assert restored(400.0) == [""]


def test_request_that_is_gone_by_the_entry_and_comes_back_is_new() -> None:
    def returned(gone: float, back: float) -> list[str]:
        run = HandMadeRun()
        run.market.publish(-2000.0, FIRST, stamp=-1000.0)
        row = run.market.now[1]
        run.listing(0.2, WIDEST)
        run.market.remove(gone, 1)
        run.market.put_back(back, row)
        run.listing(0.8, 66)
        return reported(run, 300.0, WIDEST)

    assert returned(0.4, 200.0) == []
    assert returned(0.4, 0.6) == [""]
    assert returned(100.0, 200.0) == [""]


def test_reply_that_a_cache_kept_for_another_window_lists_a_request_as_if_it_was_updated() -> None:
    cache = ["a cache that answers every window alike"]
    assert reported(standing(PAGES), 300.0, 250, as_of=0.5) == cache
    assert reported(standing(PAGES), 300.0, 250) == [""]
    assert reported(standing(PAGES), 300.0, 1800, as_of=0.5) == [""]
    assert reported(standing(), 300.0, 250, as_of=0.5) == [""]


def cut_short(
    quirks: Quirks = PAGES, *, window: int = 66, page: int = 1, kept: bool = True, lists: int = 0
) -> list[str]:
    """Return the excuses for request 1, which the first scan may lack because of a cached second page."""
    run = standing(quirks, listed=4.0)
    run.listing(1.5, window, offset=1)
    run.listing(3.0, WIDEST, *(1,) * lists, offset=page, as_of=1.5 if kept else None)
    return reported(run, 300.0, WIDEST)


def test_page_that_a_cache_kept_for_a_later_window_may_end_the_first_scan_before_a_request() -> None:
    assert cut_short() == ["a cache that answers every window alike"]
    assert cut_short(Quirks()) == [""]
    assert cut_short(window=1800) == [""]
    assert cut_short(page=2) == [""]
    assert cut_short(kept=False) == [""]
    assert cut_short(lists=1) == [""]


def test_request_that_the_first_scan_listed_is_not_new_in_a_kept_reply() -> None:
    run = HandMadeRun(PAGES)
    run.market.publish(-2000.0, FIRST)
    run.listing(0.5, WIDEST, 1)
    assert reported(run, 300.0, 250, as_of=0.5) == [""]


def test_wall_clock_that_is_set_forward_makes_a_window_seem_to_begin_after_the_entry() -> None:
    slept = ["a wall clock that was set: all of a window may be later than the entry"]
    jumps = ((200.0, 3600.0),)
    assert reported(standing(wall_jumps=jumps), 300.0, 1800) == slept
    assert reported(standing(wall_jumps=jumps), 300.0, WIDEST) == [""]
    assert reported(standing(wall_jumps=((200.0, -3600.0),)), 300.0, 1800) == [""]
    assert reported(standing(wall_jumps=((400.0, 3600.0),)), 300.0, 1800) == [""]


def test_wall_clock_that_is_set_forward_decides_about_a_request_that_no_page_before_the_entry_listed() -> None:
    def seen(first: float) -> list[str]:
        run = HandMadeRun(wall_jumps=((200.0, 3600.0),), listed=3.0)
        run.market.publish(-2000.0, FIRST)
        run.listing(0.5, WIDEST)
        run.listing(first, WIDEST, 1)
        return reported(run, 300.0, 3500)

    assert seen(2.0) == ["a wall clock that was set: all of a window may be later than the entry"]
    assert seen(0.6) == [""]


def test_failure_that_hides_a_request_from_the_whole_first_scan() -> None:
    failing = Quirks(empties=(FAILURE,))
    hidden = ["hidden from the first scan"]
    assert reported(standing(failing), 300.0, WIDEST) == hidden
    look_ups = attrs.evolve(FAILURE, listings=False)
    assert reported(standing(Quirks(empties=(look_ups,))), 300.0, WIDEST) == [""]
    later = attrs.evolve(FAILURE, span=Span(10.0, 100.0))
    assert reported(standing(Quirks(empties=(later,))), 300.0, WIDEST) == [""]
    listed = HandMadeRun(failing)
    listed.market.publish(-2000.0, FIRST)
    listed.listing(0.5, WIDEST, 1)
    assert reported(listed, 300.0, WIDEST) == [""]


def test_failure_that_ends_during_the_first_scan_hides_nothing_from_the_rest_of_it() -> None:
    run = standing(Quirks(empties=(attrs.evolve(FAILURE, span=Span(0.0, 1.0)),)), listed=3.0)
    run.listing(2.0, WIDEST)
    assert reported(run, 300.0, WIDEST) == [""]


def test_cache_of_shuffled_pages_may_hide_a_request_from_the_whole_first_scan() -> None:
    cache = Cache(3600.0, listings=True, lookups=False, key="body", until=1e9)
    assert reported(standing(Quirks(shuffled=True, cache=cache)), 300.0, WIDEST) == ["hidden from the first scan"]
    assert reported(standing(Quirks(shuffled=True)), 300.0, WIDEST) == [""]
    assert reported(standing(Quirks(cache=cache)), 300.0, WIDEST) == [""]


def test_service_clock_that_is_set_back_lists_requests_that_no_window_listed_before() -> None:
    back = ["a service clock that was set back: its windows list what they did not before"]
    quirks = Quirks(windows="an hour", jumps=((200.0, -3600.0),))
    assert reported(standing(quirks, stamp=-5000.0), 300.0, 345) == back
    assert reported(standing(quirks, stamp=-3000.0), 300.0, 345) == [""]
    assert reported(standing(attrs.evolve(quirks, windows="exact"), stamp=-5000.0), 300.0, 345) == [""]
    assert reported(standing(attrs.evolve(quirks, jumps=((200.0, 3600.0),)), stamp=-5000.0), 300.0, 345) == [""]
    assert reported(standing(attrs.evolve(quirks, jumps=((400.0, -3600.0),)), stamp=-5000.0), 300.0, 345) == [""]


def test_request_that_was_listed_before_the_service_clock_was_set_back_is_not_new() -> None:
    run = standing(Quirks(windows="an hour", jumps=((200.0, -3600.0),)), stamp=-5000.0)
    run.listing(100.0, 345, 1)
    assert reported(run, 300.0, 345) == [""]


# Updates during the first scan

UNDECIDED = "updated during the first scan, and listed by no window that begins after the entry"


def published(
    quirks: Quirks, *windows: int, hides: bool = False, start: str = "now", at: float = 50.0, before: bool = False
) -> list[str]:
    """Return the excuses for request 1, which is published during the first scan, and listed only by it."""
    run = HandMadeRun(quirks, start=start, listed=100.0)
    if before:
        run.market.publish(-2000.0, SECOND)
    run.listing(0.5, WIDEST, *(1,) * before)
    if before:
        run.market.update(at, 1, FIRST)
    else:
        run.market.publish(at, FIRST)
    run.listing(60.0, WIDEST, *(1,) * (at < 60.0))
    for turn, window in enumerate(windows):
        run.listing(400.0 + 300.0 * turn, window, *() if hides else (1,))
    return excuses(run, "missed")


def test_update_that_only_the_first_scan_lists_may_have_stood_before_if_windows_are_counted_short() -> None:
    short = Quirks(windows="hours down")
    assert published(short) == [UNDECIDED]
    assert published(Quirks()) == [""]
    assert published(short, 410) == [UNDECIDED]
    assert published(short, 345) == [""]
    assert published(short, start="backfill") == [""]
    assert published(short, before=True) == [""]
    assert published(short, at=150.0) == [""]


def test_failure_that_hides_the_update_from_the_scan_that_decides() -> None:
    failing = Quirks(empties=(attrs.evolve(FAILURE, span=Span(350.0, 650.0)),))
    assert published(failing, 410, hides=True) == [UNDECIDED]
    assert published(Quirks(), 410, hides=True) == [""]
    assert published(failing, 300, 690) == [""]
    later = Quirks(empties=(attrs.evolve(FAILURE, span=Span(450.0, 650.0)),))
    assert published(later, 410, hides=True) == [""]


def touched(quirks: Quirks, *, at: float | None = 500.0) -> list[str]:
    """Return the excuses for request 1, published and touched during the first scan, and listed by a later window."""
    run = HandMadeRun(quirks, listed=100.0)
    run.listing(0.5, WIDEST)
    run.market.publish(50.0, FIRST)
    run.listing(60.0, WIDEST, 1)
    run.listing(400.0, 410)
    if at is not None:
        run.market.update(at, 1, FIRST)
    run.listing(700.0, 345, 1)
    return excuses(run, "missed")


def test_touch_after_the_scan_that_decides_does_not_date_an_update_before_it() -> None:
    forward = Quirks(jumps=((55.0, 3600.0),))
    assert touched(forward) == [UNDECIDED]
    assert touched(forward, at=None) == [""]
    assert touched(Quirks()) == [""]


def test_failure_that_empties_the_scan_that_decides_hides_what_was_published_during_the_first_scan() -> None:
    def missed(*others: int, hiding: bool = True) -> list[str]:
        span = Span(350.0, 450.0) if hiding else Span(800.0, 900.0)
        run = HandMadeRun(Quirks(empties=(attrs.evolve(FAILURE, span=span),)), listed=100.0)
        run.listing(0.5, WIDEST)
        run.market.publish(50.0, FIRST)
        run.listing(60.0, WIDEST, 1)
        for _ in others:
            run.market.publish(200.0, SECOND)
        run.listing(400.0, 410, *others)
        run.listing(700.0, 680, 1)
        return excuses(run, "missed")[:1]

    assert missed() == ["an empty list by a failure, from the scan that decides what is new"]
    assert missed(2) == [""]
    assert missed(hiding=False) == [""]


def test_failure_that_empties_a_scan_beside_the_first_one_hides_what_was_published_before() -> None:
    def missed(*others: int, hiding: bool = True) -> list[str]:
        span = Span(350.0, 450.0) if hiding else Span(800.0, 900.0)
        run = HandMadeRun(Quirks(empties=(attrs.evolve(FAILURE, span=span),)), listed=600.0)
        run.listing(0.5, WIDEST)
        run.market.publish(50.0, FIRST)
        for _ in others:
            run.market.publish(200.0, SECOND)
        run.listing(400.0, 460, *others)
        run.listing(590.0, WIDEST, 1)
        run.listing(700.0, WIDEST, 1)
        return excuses(run, "missed")[:1]

    assert missed() == ["an empty list by a failure, from the scan that decides what is new"]
    assert missed(2) == [""]
    assert missed(hiding=False) == [""]


def returned(*, gone: float = 200.0, window: int = 410, late: bool = False, start: str = "now") -> list[str]:
    """Return the excuses for request 1, which disappears after the first scan and returns unchanged."""
    run = HandMadeRun(start=start, listed=100.0)
    run.listing(0.5, WIDEST)
    run.market.publish(50.0, FIRST)
    row = run.market.rows(50.0)[1]
    run.listing(60.0, WIDEST, 1)
    run.market.remove(gone, 1)
    run.listing(400.0, window, *(1,) * (gone > 400.0))
    run.market.put_back(500.0, row)
    run.listing(700.0, WIDEST, 1)
    run.listing(8000.0, 345, *(1,) * late)
    return excuses(run, "missed")


def test_update_during_the_first_scan_that_is_gone_by_the_scan_that_decides() -> None:
    assert returned() == [UNDECIDED]
    assert returned(gone=450.0) == [""]
    assert returned(window=345) == [""]
    # An update that changes nothing is not an event.
    assert returned(late=True) == [UNDECIDED]
    assert returned(start="backfill") == [""]
