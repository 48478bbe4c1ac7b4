"""Tests of a watcher that is killed at random and at chosen moments, over failing HTTP: no loss, no repetition."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from tests.crash.trial import CrashTrial, Outcome

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills by SIGKILL")


def check(outcome: Outcome) -> None:
    print(outcome.report())  # noqa: T201  # the counts, shown with -s
    result = outcome.result
    assert outcome.errors == ""
    assert result.is_good, (outcome.report(), result.missed[:5], result.repeated[:5], result.invented[:5])
    # The trial was hard enough: faults struck, breakpoints were reached, and an event was redelivered.
    assert outcome.faults
    assert len(outcome.kills) > 1
    assert result.redelivered > 0
    assert result.changed > 0


@pytest.mark.parametrize("backend", [pytest.param("asyncio", marks=pytest.mark.long), "trio"])
def test_killed_watcher_misses_nothing_and_repeats_only_its_last_event(backend: str, tmp_path: Path) -> None:
    check(anyio.run(CrashTrial(tmp_path, backend, seed=1).run, 10, backend=backend))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_watcher_survives_two_hundred_kills(backend: str, seed: int, tmp_path: Path) -> None:
    check(anyio.run(CrashTrial(tmp_path, backend, seed=100 + seed).run, 24, backend=backend))
