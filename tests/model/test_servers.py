"""Tests of the watcher against servers with quirks: no state is missed or repeated, and each claim is proven."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.model.servers import RunSummary, check, draw, run, watch

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
    assert [finding for finding in ran.findings if not finding.excuse] == []


def test_reports_are_the_same_on_asyncio_and_trio() -> None:
    reported = [
        [(t.kind, t.index, t.content) for t in watch(draw(1, _QUIET_HABITS), on)[0].reported]
        for on in ("asyncio", "trio")
    ]
    assert reported[0] == reported[1] != []


def test_checker_notices_a_withheld_and_a_repeated_event() -> None:
    schedule = draw(3, _QUIET_HABITS)
    log, server = watch(schedule)
    last = {reported.index: reported for reported in log.reported}
    reported = next(
        reported
        for reported in reversed(log.reported)
        if reported.kind != "withdrawn" and reported is last[reported.index]
    )
    log.reported.append(reported)
    assert {finding.kind for finding in check(schedule, log, server)} & {"repeated"}
    log.reported[:] = [other for other in log.reported if other.index != reported.index]
    assert {finding.kind for finding in check(schedule, log, server)} >= {"missed"}


@pytest.mark.long
def test_servers_with_quirks_break_no_promise() -> None:
    total = RunSummary()
    total.add(run(seed) for seed in range(_LONG_RUNS))
    assert not total.broken, total.report()
