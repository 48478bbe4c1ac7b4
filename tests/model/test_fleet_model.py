"""Tests of the protocol of replicas, kernel and network: at most one offer on a request in every reachable state."""

from __future__ import annotations

import pytest
from tests.model.fleet.protocol import FENCES, GUARDS, REMOVED, Guard
from tests.model.fleet.search import format_schedule, search


def test_no_state_has_two_offers_and_each_leads_to_an_end() -> None:
    found = search()
    assert found.violation is None, format_schedule(found.schedule)
    assert found.stuck == 0
    assert found.states > 5000


@pytest.mark.parametrize("removed", REMOVED, ids=lambda removed: "-".join(guard.name for guard in removed))
def test_without_a_guard_a_schedule_makes_two_offers(removed: tuple[Guard, ...]) -> None:
    found = search(GUARDS - {*removed})
    assert found.violation == "request 0 has 2 offers"
    assert found.schedule[-1].text.endswith("arrives")


@pytest.mark.parametrize("guard", FENCES, ids=lambda guard: guard.name)
def test_one_of_the_two_fences_is_enough(guard: Guard) -> None:
    assert search(GUARDS - {guard}).violation is None


@pytest.mark.long
def test_two_requests_change_nothing() -> None:
    found = search(requests=2, take_overs=1, decisions=0)
    assert found.violation is None, format_schedule(found.schedule)
    assert found.stuck == 0
