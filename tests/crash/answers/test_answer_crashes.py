"""A few crashes around answers; `make test-offers` makes two hundred."""

from __future__ import annotations

import pytest
from tests.crash.answers.trials import run_trial

pytestmark = pytest.mark.virtual_time

FLAWS = ("approvals too many", "wrong offer approved", "declines too many", "not approved")


@pytest.mark.parametrize("seed", [3, 4])
async def test_bot_answers_once_through_crashes(seed: int) -> None:
    counts = await run_trial(seed)
    assert {flaw: counts[flaw] for flaw in FLAWS} == dict.fromkeys(FLAWS, 0)
    assert counts["approvals"] == 3
