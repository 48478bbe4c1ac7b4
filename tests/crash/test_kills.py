"""A watcher killed at random moments and at the worst ones, over real HTTP that fails: nothing missed or repeated."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from tests.crash.ordeal import Ordeal, Outcome

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills by SIGKILL")


def _judge(outcome: Outcome) -> None:
    print(outcome.report())  # noqa: T201  # the figures, for whoever runs this with -s
    verdict = outcome.verdict
    assert outcome.errors == ""
    assert verdict.good, (outcome.report(), verdict.missed[:5], verdict.repeated[:5], verdict.invented[:5])
    # The ordeal was one: faults struck, kills were aimed and hit, and what was not acknowledged came again.
    assert outcome.faults
    assert len(outcome.kills) > 1
    assert verdict.again > 0
    assert verdict.changed > 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_watcher_that_is_killed_misses_nothing_and_repeats_only_what_it_had_in_hand(
    backend: str, tmp_path: Path
) -> None:
    _judge(anyio.run(Ordeal(tmp_path, backend, seed=1).run, 10, backend=backend))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_two_hundred_kills(backend: str, seed: int, tmp_path: Path) -> None:
    _judge(anyio.run(Ordeal(tmp_path, backend, seed=100 + seed).run, 24, backend=backend))
