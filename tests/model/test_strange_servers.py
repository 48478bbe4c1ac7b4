"""The watcher against strange servers: no final state missed, nothing told twice, no claim without proof."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.model.strange_servers import Tally, draw, judge, run, watch

_QUIET_HABITS = ("texts", "cases", "shuffle", "touch", "tokens")
_LONG_RUNS = 2000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(6))
def test_small_habits_break_no_promise(seed: int) -> None:
    ran = run(seed, _QUIET_HABITS)
    assert [find for find in ran.finds if not find.excuse] == []


def test_trio_tells_what_asyncio_tells() -> None:
    told = [
        [(t.kind, t.index, t.content) for t in watch(draw(1, _QUIET_HABITS), on)[0].told] for on in ("asyncio", "trio")
    ]
    assert told[0] == told[1] != []


def test_judge_notices_a_withheld_and_a_repeated_event() -> None:
    schedule = draw(3, _QUIET_HABITS)
    log, server = watch(schedule)
    last = {told.index: told for told in log.told}
    told = next(told for told in reversed(log.told) if told.kind != "withdrawn" and told is last[told.index])
    log.told.append(told)
    assert {find.kind for find in judge(schedule, log, server)} & {"repeated"}
    log.told[:] = [other for other in log.told if other.index != told.index]
    assert {find.kind for find in judge(schedule, log, server)} >= {"missed"}


@pytest.mark.long
def test_strange_servers_break_no_promise() -> None:
    total = Tally()
    total.add(run(seed) for seed in range(_LONG_RUNS))
    assert not total.broken, total.report()
