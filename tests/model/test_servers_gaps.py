"""Checker of servers: gaps that a clock excuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.model.servers.drawing import Session
from tests.model.servers.hand_made import WIDEST, excuses, listed

FIVE_DAYS = 432_000.0


def gaps(*reports: float, jumps: tuple[tuple[float, float], ...] = (), **changes: Any) -> list[str]:
    run = listed(wall_jumps=jumps, **changes)
    run.listing(600.0, 345, 1)
    run.listing(900.0, WIDEST, 1)
    for at in reports:
        run.report(at, "Gap", None, None)
    return excuses(run, "event Gap")


def test_wall_clock_that_is_set_five_days_makes_one_gap() -> None:
    clock = "a wall clock that is set five days"
    jump = ((700.0, FIVE_DAYS),)
    assert gaps(1000.0, jumps=jump) == [clock]
    assert gaps(1000.0, 1100.0, jumps=jump) == [clock, ""]
    assert gaps(650.0, jumps=jump) == [""]
    assert gaps(1000.0, jumps=((700.0, -FIVE_DAYS),)) == [""]
    assert gaps(1000.0, jumps=((700.0, FIVE_DAYS / 2),)) == [""]
    assert gaps(1000.0) == [""]


def test_gap_that_grows_while_no_scan_is_complete_is_one() -> None:
    clock = "a wall clock that is set five days"
    jump = ((700.0, FIVE_DAYS),)
    assert gaps(1000.0, 1600.0, 2300.0, jumps=jump) == [clock]
    assert gaps(1000.0, 1500.0, jumps=jump) == [clock, ""]
    assert gaps(1000.0, 1600.0) == [""]
    run = listed(wall_jumps=jump)
    run.listing(600.0, 345, 1)
    run.listing(900.0, WIDEST, 1)
    run.report(1000.0, "Gap", None, None)
    run.claim(1300.0, 900.0)
    run.listing(1600.0, 345, 1)
    run.report(1700.0, "Gap", None, None)
    assert excuses(run, "event Gap") == [clock, ""]


def test_gap_grows_by_the_wall_clock_until_a_scan_that_began_later_is_complete() -> None:
    clock = "a wall clock that is set five days"

    def grown(by: float, claim: float) -> list[str]:
        run = listed(wall_jumps=((700.0, FIVE_DAYS), (1050.0, by)))
        run.listing(900.0, WIDEST, 1)
        run.report(1000.0, "Gap", None, None)
        run.listing(1200.0, WIDEST, 1)
        run.claim(claim, 900.0)
        run.report(1250.0, "Gap", None, None)
        return excuses(run, "event Gap")

    assert grown(86_400.0, 1240.0) == [clock]
    assert grown(0.0, 1240.0) == [clock, ""]
    assert grown(86_400.0, 1100.0) == [clock, ""]


@pytest.mark.parametrize(("at", "excuse"), [(903.0, []), (800.0, [""])])
def test_gap_that_grows_between_two_pages_of_a_scan_is_one(at: float, excuse: list[str]) -> None:
    run = listed(wall_jumps=((700.0, FIVE_DAYS), (at, 3600.0)))
    run.listing(600.0, 345, 1)
    run.claim(601.0, 600.0)
    run.listing(900.0, WIDEST, 1)
    run.listing(905.0, WIDEST, 1, offset=1)
    run.report(910.0, "Gap", None, None, text="first")
    run.report(910.0, "Gap", None, None, text="second")
    assert excuses(run, "event Gap") == ["a wall clock that is set five days", *excuse]


def test_start_on_another_machine_whose_wall_clock_is_wrong_makes_a_gap() -> None:
    clock = "a wall clock that is set five days"

    def moved(*, same_machine: bool) -> tuple[Session, ...]:
        return Session(0.0, 650.0, "cancel", same_machine=True), Session(
            700.0, 3e4, "cancel", same_machine=same_machine
        )

    ahead = ((680.0, FIVE_DAYS), (720.0, -FIVE_DAYS))
    assert gaps(1000.0, jumps=ahead, sessions=moved(same_machine=False)) == [clock]
    assert gaps(1000.0, jumps=ahead, sessions=moved(same_machine=True)) == [""]
    behind = ((680.0, -3600.0),)
    assert gaps(1000.0, jumps=behind, sessions=moved(same_machine=False)) == [clock]
    assert gaps(1000.0, 1100.0, jumps=behind, sessions=moved(same_machine=False)) == [clock, ""]
    assert gaps(1000.0, jumps=behind, sessions=moved(same_machine=True)) == [""]
    assert gaps(1000.0, sessions=moved(same_machine=False)) == [""]

    unread = (*moved(same_machine=False), Session(800.0, 3e4, "cancel", same_machine=True))
    for sessions, expected in ((unread, clock), ((unread[0], unread[2]), "")):
        run = listed(wall_jumps=((750.0, -3600.0),), sessions=sessions)
        run.listing(600.0, 345, 1)
        run.refusal(720.0, "503")
        run.listing(900.0, WIDEST, 1)
        run.report(1000.0, "Gap", None, None)
        assert excuses(run, "event Gap") == [expected]


def test_wall_clock_set_back_since_the_last_complete_scan_makes_a_gap_on_another_machine() -> None:
    def moved(*claims: float, same_machine: bool = False, fails: float | None = None) -> list[str]:
        sessions = Session(0.0, 800.0, "cancel", same_machine=True), Session(850.0, 3e4, "cancel", same_machine)
        run = listed(wall_jumps=((500.0, -3600.0),), sessions=sessions)
        for at in claims:
            run.claim(at, at)
        if fails is None:
            run.listing(600.0, 345, 1)
        else:
            run.refusal(fails, "503")
        run.listing(900.0, WIDEST, 1)
        run.report(1000.0, "Gap", None, None)
        return excuses(run, "event Gap")

    assert moved(310.0) == ["a wall clock that is set five days"]
    # A request that fails before the clock is set tells nothing about the other machine.
    assert moved(310.0, fails=400.0) == ["a wall clock that is set five days"]
    assert moved(310.0, 610.0) == [""]
    assert moved(310.0, same_machine=True) == [""]
