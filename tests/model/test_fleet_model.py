"""Tests of the protocol of replicas, kernel and network, in every reachable state."""

from __future__ import annotations

from typing import Final

import pytest
from tests.model.fleet.protocol import FENCES, GUARDS, LIVENESS, SAFETY, Guard
from tests.model.fleet.search import format_schedule, search

_BOUNDS: Final = {"faults": 1, "decisions": 0, "seats": 0}
"""A kill or a lost reply, and each replica may end the other one."""
_PERSON: Final = {"faults": 0, "decisions": 1, "seats": 0}


@pytest.mark.parametrize("bounds", [_BOUNDS, pytest.param(_PERSON, marks=pytest.mark.long)])
def test_no_request_has_two_offers_and_each_replica_settles_everything_alone(bounds: dict[str, int]) -> None:
    found = search(**bounds)
    assert found.violation is None, format_schedule(found.schedule)
    assert found.states > 15_000


@pytest.mark.parametrize("removed", SAFETY, ids=lambda removed: "-".join(guard.name for guard in removed))
def test_without_a_guard_a_schedule_makes_two_offers(removed: tuple[Guard, ...]) -> None:
    found = search(GUARDS - {*removed}, **(_PERSON if removed == (Guard.FINISH_VERSION,) else _BOUNDS))
    assert found.violation == "request 0 has 2 offers"
    assert found.schedule[-1].text.endswith("arrives")


@pytest.mark.parametrize("fence", FENCES, ids=lambda guard: guard.name)
def test_one_of_the_fences_is_enough(fence: Guard) -> None:
    assert search(GUARDS - {*FENCES} | {fence}, faults=0, decisions=0, seats=0).violation is None


@pytest.mark.parametrize("guard", LIVENESS, ids=lambda guard: guard.name)
def test_without_a_guard_something_stays_claimed_or_open_for_ever(guard: Guard) -> None:
    found = search(GUARDS - {guard}, **_BOUNDS)
    assert found.violation is not None
    assert found.violation.endswith("cannot settle this alone")


def test_without_the_owner_a_settlement_takes_the_claim_of_a_living_replica() -> None:
    assert (
        search(GUARDS - {Guard.SETTLE_OWNER}, **_BOUNDS).violation == "the claim of replica 1, which lives, was taken"
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "bounds",
    [{"faults": 1, "decisions": 0, "seats": 1}, {"faults": 1, "decisions": 1, "seats": 0}],
    ids=["replicas-join-again", "a-person-decides"],
)
def test_wider_bounds_change_nothing(bounds: dict[str, int]) -> None:
    found = search(**bounds)
    assert found.violation is None, format_schedule(found.schedule)
