"""Excuses of the checker for events, claims and errors, and the nearest case that has none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.model.servers.hand_made import FIRST, SECOND, THIRD, WIDEST, HandMadeRun, excuses, listed
from tests.model.servers.quirks import Quirks
from tests.model.servers.run import EPOCH

TURN = ("carbonFootprint",)
RELEASES = Quirks(releases=True)
FIELD = "a field that comes and goes, at first"


def test_true_report_is_no_find() -> None:
    assert listed().findings == []


@pytest.mark.parametrize(
    ("kind", "content", "changed", "found"),
    [
        ("new", FIRST, (), "repeated"),
        ("updated", FIRST, ("notes",), "repeated"),
        ("updated", FIRST, (), "repeated"),
        ("updated", SECOND, ("notes",), "phantom"),
    ],
)
def test_failure_that_is_reported_excuses_no_wrong_event(
    kind: str, content: Any, changed: tuple[str, ...], found: str
) -> None:
    run = listed(RELEASES)
    run.log.degraded.append(200.0)
    run.listing(600.0, 345, 1)
    run.report(600.0, kind, 1, content, changed=changed)
    assert set(excuses(run, found)) == {""}


@pytest.mark.parametrize("changed", [(), TURN])
def test_update_that_changes_nothing_since_the_first_scan_is_repeated(changed: tuple[str, ...]) -> None:
    run = HandMadeRun()
    run.market.publish(-100.0, FIRST)
    run.listing(0.5, WIDEST, 1)
    run.listing(300.0, 345, 1)
    run.report(300.0, "updated", 1, changed=changed)
    assert run.findings == [("repeated", "")]


def turns(*fields: tuple[str, ...], quirks: Quirks = RELEASES, changed: tuple[str, ...] = TURN) -> list[str]:
    """Return the excuses for updates of request 1 that show the same state, with these additional fields."""
    run = listed(quirks)
    for number, names in enumerate(fields, 2):
        run.listing(300.0 * number, 345, 1)
        run.report(300.0 * number, "updated", 1, changed=changed, fields=names)
    return excuses(run, "repeated")


def test_field_that_comes_and_goes_is_reported_four_times_at_most() -> None:
    assert turns(TURN, (), TURN, ()) == [FIELD] * 4
    assert turns(TURN, (), TURN, (), TURN) == [*[FIELD] * 4, ""]


def test_update_is_repeated_unless_that_field_and_nothing_else_turned() -> None:
    assert turns(TURN, TURN) == [FIELD, ""]
    assert turns(TURN, quirks=Quirks()) == [""]
    assert turns(TURN, changed=("notes",)) == [""]
    assert turns(TURN, changed=()) == [""]


def turned_back(*between: float, newer: bool = True, index: int = 1, found: float = 300.0, **changes: Any) -> list[str]:
    """Return the excuses for an update of request 1 with the fields of its last event, and listings between them.

    That event is delivered at 600; with `found`, it was found before.
    """
    run = HandMadeRun(RELEASES, **changes)
    run.market.publish(100.0, FIRST)
    run.market.publish(100.0, FIRST)
    run.listing(300.0, 345, 1)
    moment = datetime.fromtimestamp(EPOCH + found, UTC)
    run.report(600.0, "new", 1, observed=(moment, moment))
    for at in between:
        run.listing(at, 345, index, newer=newer)
    run.listing(900.0, 345, 1)
    run.report(900.0, "updated", 1, changed=TURN, session=1)
    return excuses(run, "repeated")


def test_field_turned_back_if_a_listing_between_two_events_showed_the_request_the_other_way() -> None:
    assert turned_back(700.0) == [FIELD]
    assert turned_back() == [""]
    assert turned_back(700.0, newer=False) == [""]
    assert turned_back(700.0, index=2) == [""]


@pytest.mark.parametrize(("finds", "newer", "excuse"), [(True, True, FIELD), (True, False, ""), (False, True, "")])
def test_field_turned_back_if_a_look_up_between_two_events_showed_it(*, finds: bool, newer: bool, excuse: str) -> None:
    run = listed(RELEASES)
    run.look_up(500.0, 1, is_found=finds, newer=newer)
    run.listing(900.0, 345, 1)
    run.report(900.0, "updated", 1, changed=TURN)
    assert excuses(run, "repeated") == [excuse]


def test_event_that_is_handed_out_late_was_found_before_the_field_turned() -> None:
    assert turned_back(400.0) == [FIELD]
    assert turned_back(400.0, found=500.0) == [""]
    assert turned_back(700.0, found=500.0, wall_jumps=((650.0, -3600.0),)) == [FIELD]


def test_schema_changes_five_times_in_a_run_at_most() -> None:
    run = listed(RELEASES)
    for at in range(600, 1200, 100):
        run.report(at, "SchemaChanged", None, None)
    assert excuses(run, "event SchemaChanged") == [""]
    run = listed()
    run.report(600.0, "SchemaChanged", None, None)
    assert excuses(run, "event SchemaChanged") == [""]


def went_back(first: float, second: float) -> list[str]:
    """Return the excuses for states reported in the wrong order; the replies show the data of these times."""
    run = listed()
    run.market.update(400.0, 1, SECOND)
    run.market.update(500.0, 1, THIRD)
    contents = {400.0: SECOND, 500.0: THIRD}
    for at, as_of in ((600.0, first), (900.0, second)):
        run.listing(at, 345, 1, as_of=as_of)
        content = contents[as_of // 100 * 100]
        run.report(at, "updated", 1, content, changed=("notes",))
    run.listing(1200.0, 345, 1)
    run.report(1200.0, "updated", 1, THIRD, changed=("notes",))
    return excuses(run, "went back")


def test_reply_that_is_older_than_one_before_it_shows_an_older_state() -> None:
    assert went_back(510.0, 410.0) == ["replies that are older than others"]
    assert went_back(410.0, 510.0) == []


def test_older_state_has_no_excuse_if_replies_came_in_order() -> None:
    run = listed()
    run.market.update(400.0, 1, SECOND)
    run.listing(500.0, 345, 1)
    run.report(500.0, "updated", 1, SECOND, changed=("notes",))
    run.report(600.0, "updated", 1, FIRST, changed=("notes",))
    assert excuses(run, "went back") == [""]


# Errors


@pytest.mark.parametrize(
    ("note", "error", "live", "excuse"),
    [
        ("400", "BadRequestError()", [], "refused on entry"),
        ("html", "DecodeError()", [], "refused on entry"),
        ("503", "ServerError()", [], ""),
        ("refused", "ConnectError()", [], ""),
        ("400", "StormError()", [], ""),
        ("400", "BadRequestError()", [1.0], ""),
    ],
)
def test_feed_ends_with_an_error_only_if_its_entry_is_refused(
    note: str, error: str, live: list[float], excuse: str
) -> None:
    run = HandMadeRun()
    run.log.live = live
    run.refusal(0.5, note)
    run.log.errors.append(error)
    assert run.findings == [("error", excuse)]


def test_error_after_a_good_reply_has_no_excuse() -> None:
    run = HandMadeRun()
    run.log.live = []
    run.listing(0.5, WIDEST)
    run.log.errors.append("BadRequestError()")
    assert run.findings == [("error", "")]


# Claims


CUT = "fewer rows in a page than there were"


def claimed(*clamps: tuple[float, int], lists: tuple[int, ...] = (1,), at: float = 900.0, first: int = 2) -> list[str]:
    """Return the excuses for a claim on request 3, which is published at second 600 and never reported.

    Pages have these lengths from these times on. A page at 350 lists the `first` requests, and a page just before the
    claim lists the `lists` requests.
    """
    run = listed(Quirks(clamps=clamps))
    run.market.publish(310.0, SECOND)
    run.listing(350.0, 400, *range(1, 1 + first))
    run.report(350.0, "new", 2, SECOND)
    run.market.publish(600.0, THIRD)
    run.listing(at, 700, *lists)
    run.claim(at + 1, 599.0 + 60.0)
    return excuses(run, "claim")


def test_page_that_is_cut_where_pages_were_longer_looks_like_the_last_one() -> None:
    assert claimed((0.0, 2), (800.0, 1)) == [CUT]
    assert claimed((0.0, 2), (800.0, 1), lists=(3,)) == [""]
    assert claimed((0.0, 2), (800.0, 1), first=1) == [""]
    assert claimed((0.0, 1), (800.0, 2)) == [""]
    assert claimed((0.0, 2), (950.0, 1)) == [""]
    assert claimed((0.0, 2), (800.0, 1), lists=(1, 2)) == [""]
    assert claimed((0.0, 3), (800.0, 2), lists=(1,)) == [""]
    assert claimed((0.0, 3), lists=(1,)) == [""]


def test_hourly_scan_finds_out_that_pages_are_shorter_once_replies_come() -> None:
    assert claimed((0.0, 2), (400.0, 1), at=9000.0) == [CUT]
    assert claimed((0.0, 2), (340.0, 1), at=9000.0) == [""]


def test_page_that_was_full_before_pages_became_shorter_has_no_excuse() -> None:
    assert claimed((0.0, 2), (950.0, 1), lists=(1, 2)) == [""]


def test_page_is_not_the_last_one_if_the_next_one_was_read() -> None:
    run = listed(Quirks(clamps=((0.0, 2), (800.0, 1))))
    run.market.publish(310.0, SECOND)
    run.listing(350.0, 400, 1, 2)
    run.report(350.0, "new", 2, SECOND)
    run.market.publish(600.0, THIRD)
    run.listing(900.0, 700, 1)
    run.listing(901.0, 700, 3, offset=1)
    run.claim(1000.0, 900.0)
    assert excuses(run, "claim") == [""]


def kept(
    *,
    shuffled: bool = True,
    first: int = 1,
    second: int = 1,
    again: float = 900.0,
    shown: bool = False,
    at: float = 903.0,
) -> list[str]:
    """Return the excuses for a claim on request 3 with two pages of these rows; the first is read twice."""
    run = listed(Quirks(shuffled=shuffled))
    run.market.publish(310.0, SECOND)
    run.listing(350.0, 400, 1, 2)
    run.report(350.0, "new", 2, SECOND)
    run.market.publish(600.0, THIRD)
    run.listing(650.0, 345, *(3,) * shown)
    run.listing(900.0, 700, first)
    run.listing(901.0, 700, second, offset=1)
    run.listing(902.0, 700, first, as_of=again)
    run.claim(at, 899.0)
    return excuses(run, "claim")


def test_pages_that_a_cache_keeps_in_different_orders_may_lack_a_row_in_each_round() -> None:
    assert kept() == ["a cache of pages in different orders"]
    assert kept(shuffled=False) == [""]
    assert kept(second=2) == [""]
    assert kept(again=902.0) == [""]
    assert kept(shown=True) == [""]
    assert kept(at=1000.0) == [""]


def test_claim_has_no_excuse_beside_a_failure_that_is_reported() -> None:
    run = listed()
    run.market.publish(600.0, SECOND)
    run.log.degraded.append(700.0)
    run.claim(1000.0, 900.0)
    assert excuses(run, "claim") == [""]
