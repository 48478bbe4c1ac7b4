"""Short form of `tools/long_runs.py --part bot`: records that a bot keeps, and records that it deletes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from tools.lib.bot_long import bot_month

pytestmark = pytest.mark.long

Backend = Literal["asyncio", "trio"]
DAYS, A_DAY = 16, 144
OLD = 8
"""Days after which the first days are pruned, and as many records come as go."""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_old_deliveries_are_deleted_and_effects_that_must_not_repeat_are_kept(backend: Backend, tmp_path: Path) -> None:
    done = bot_month(DAYS, 600.0, tmp_path / "month.db", 300.0, 1800.0, backend)
    old, last = done.days[OLD - 1], done.days[-1]

    # One offer on each request, and each selection reported once.
    assert set(done.offers) == {1}
    assert done.offers[1] >= DAYS * A_DAY - 1
    assert done.handled["selected"] == done.selections > 0

    # Events and their deliveries are dropped after six days or a little more.
    assert last.rows["event done"] == pytest.approx(old.rows["event done"], rel=0.1)
    assert last.rows["delivery done"] == last.rows["event done"]
    assert last.rows["event done"] < 8 * A_DAY * 1.2
    assert not last.rows["delivery ready"] + last.rows["delivery claimed"] + last.rows["delivery dead"]
    # The ledger is kept forever.
    assert last.rows["effect offer"] == pytest.approx(DAYS * A_DAY, abs=2)

    # Less than one object a day and delivery that stays: nothing is kept of a delivery that ended.
    slope, _ = done.slope([day.objects for day in done.days], OLD)
    assert abs(slope) < A_DAY / 2
    assert {day.tasks for day in done.days} == {last.tasks}
    assert {day.descriptors for day in done.days} == {last.descriptors}
