"""Test of the tool that measures a fleet, with small numbers and without its times."""

from __future__ import annotations

import attrs
import pytest
from tests.unit.store.postgres.databases import database_url
from tools.fleet_costs import QUICK, fence, percentile, rate, wait_for, wakeup
from tools.lib.waiting_queue import BotQueue, empty_database


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([3.0], 0.99, 3.0), ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0), ([*map(float, range(1, 201))], 0.99, 198.0)],
)
def test_percentile_is_a_value_that_share_does_not_exceed(values: list[float], share: float, expected: float) -> None:
    assert percentile([*reversed(values)], share) == expected


def test_wait_for_raises_when_nothing_comes() -> None:
    with pytest.raises(TimeoutError):
        wait_for(lambda: False, timeout=0.0)


def test_rate_is_measured_while_the_queue_is_refilled() -> None:
    with empty_database(database_url(), "fleet_costs_rate") as database:
        queue = BotQueue(database, concurrency=4)
        queue.add(300)
        queue.settle()
        assert rate(queue, 1, 0.5, warm_up=0.0) > 0
        assert queue.count_done() > 0
        queue.close()


def test_idle_replicas_are_woken(capsys: pytest.CaptureFixture[str]) -> None:
    wakeup(database_url(), attrs.evolve(QUICK, wakeups=2))
    assert "| 2 |" in capsys.readouterr().out


def test_fence_is_measured_with_and_without(capsys: pytest.CaptureFixture[str]) -> None:
    assert fence(database_url(), attrs.evolve(QUICK, claims=3))
    assert len(capsys.readouterr().out.splitlines()) == 4
