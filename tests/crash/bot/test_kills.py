"""Tests of a bot that is killed at random and at critical moments, over failing HTTP: one offer per request."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import anyio
import pytest
from tests.crash.bot.figures import Outcome, table
from tests.crash.bot.kill_run import KillRun
from tests.crash.bot.plan import FEW, Kill, draw, without_ledger

from freight_exchange.testing import FAILPOINTS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills by SIGKILL")


def _run(directory: Path, backend: str, seed: int, plan: Sequence[Kill], *, ledger: bool = True) -> Outcome:
    outcome = anyio.run(KillRun(directory, backend, seed, ledger=ledger).run, plan, backend=backend)
    print(f"\n{table([outcome])}")  # noqa: T201  # figures, shown with -s
    return outcome


def _check(outcome: Outcome) -> None:
    assert outcome.errors == ""
    assert outcome.result.flaws == []
    # The run proves something: kills hit what they were aimed at, often enough where it hurts, and faults struck.
    assert not outcome.unhit
    assert outcome.on_the_way * 5 >= outcome.kills.total()
    assert len(outcome.faults) > 1
    assert outcome.result.published == outcome.result.offered > 0
    assert outcome.result.taken > 0
    assert outcome.result.not_taken > 0
    assert outcome.result.retries > 0


def _plan(backend: str, seed: int) -> list[Kill]:
    """Plan kills at every second critical failpoint; each backend has its own half."""
    return draw(Random(seed), FEW[backend == "trio" :: 2], more=3, at_random=2)


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.long)])
def test_a_bot_that_is_killed_makes_one_offer_on_each_request(backend: str, tmp_path: Path) -> None:
    _check(_run(tmp_path, backend, 1, _plan(backend, 1)))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_two_hundred_and_forty_kills_at_every_point(backend: str, seed: int, tmp_path: Path) -> None:
    _check(_run(tmp_path, backend, 100 + seed, draw(Random(seed), FAILPOINTS, more=4, at_random=2)))


@pytest.mark.long
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_bot_without_its_ledger_offers_several_times_under_the_same_kills(backend: str, tmp_path: Path) -> None:
    plan = without_ledger(draw(Random(0), FAILPOINTS, more=4, at_random=2), Random(0))
    outcome = _run(tmp_path, backend, 100, plan, ledger=False)
    assert outcome.result.duplicates > 0
    assert outcome.result.duplicated
