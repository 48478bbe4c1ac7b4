"""Processes that are killed at random and at critical moments, over failing HTTP; campaigns make hundreds of kills."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import anyio
import pytest
from tests.crash import answers, bot, watcher
from tests.crash.__main__ import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills by SIGKILL")

CRITICAL = (*bot.WINDOW, "after claim", "before settle", "after unknown", "after resolved")


def flaws(counts: Counter[str], of: tuple[str, ...]) -> dict[str, int]:
    return {flaw: counts[flaw] for flaw in of if counts[flaw]}


def test_killed_bot_makes_one_offer_on_each_request(tmp_path: Path) -> None:
    trial = bot.BotTrial(tmp_path, 1, "asyncio")
    counts = anyio.run(trial.run, bot.draw_kills(Random(1), CRITICAL, more=1, at_random=1))
    assert flaws(counts, bot.FLAWS) == {}
    # The trial was hard enough: kills hit what they were aimed at, in the middle of offers, and faults struck.
    # On a busy machine, a bot may reach a point too late.
    assert trial.points["too late"] * 5 <= counts["kills"]
    assert counts["kills with an offer in flight"] * 5 >= counts["kills"]
    assert counts["kills with an offer in doubt"] > 0
    assert counts["faults that struck"] > 1
    assert counts["selections"] > 0


def test_bot_without_its_ledger_offers_several_times_under_such_kills(tmp_path: Path) -> None:
    plan = [bot.Kill("after send"), bot.Kill("before confirmed", visit=2), bot.Kill("after sending", visit=2)]
    counts = anyio.run(bot.BotTrial(tmp_path, 1, "asyncio", ledger=False).run, plan)
    assert counts["offers too many"] > 0


def test_killed_bot_approves_one_offer_on_each_request(tmp_path: Path) -> None:
    trial = answers.AnswersTrial(tmp_path, 1, "asyncio")
    counts = anyio.run(trial.run, [bot.Kill("before send"), bot.Kill("after send")])
    assert flaws(counts, answers.FLAWS) == {}
    assert counts["kills with an answer in flight"] == 2
    assert counts["approvals"] > 0


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.virtual_time
async def test_bot_answers_once_through_crashes_in_virtual_time(seed: int) -> None:
    counts = await answers.crash_in_virtual_time(seed)
    assert flaws(counts, answers.FLAWS) == {}
    assert counts["approvals"] == 3


@pytest.mark.virtual_time
async def test_bot_without_its_ledger_answers_several_times_through_such_crashes() -> None:
    naive: Counter[str] = Counter()
    for seed in range(4):
        naive += await answers.crash_in_virtual_time(seed, ledger=False)
    assert naive["approvals too many"] > 0


def test_killed_watcher_misses_nothing_and_repeats_only_its_last_event(tmp_path: Path) -> None:
    trial = watcher.WatcherTrial(tmp_path, 1, "trio")
    counts = anyio.run(partial(trial.run, 10), backend="trio")
    assert flaws(counts, watcher.FLAWS) == {}
    assert len(trial.points) > 1
    assert counts["redelivered"] > 0
    assert counts["faults that struck"] > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "kills"),
    [("watcher", 240), ("bot", 240), ("answers", 200), ("answers-in-virtual-time", 200), ("fleet", 60)],
)
def test_campaign(part: str, kills: int) -> None:
    assert main([part, "--kills", str(kills), "--seed", "100"]) == 0


@pytest.mark.long
@pytest.mark.parametrize("part", ["bot", "answers", "fleet"])
def test_campaign_breaks_a_promise_of_handlers_without_the_ledger(part: str) -> None:
    assert main([part, "--kills", "24", "--naive"]) == 1
