"""A shipper's bot that is killed while it answers offers; `tools/answer_kills.py` kills it two hundred times."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from random import Random

import anyio
import pytest
from tests.crash.answers.checker import FLAWS
from tests.crash.answers.kills import KillTrial, draw_kills
from tests.crash.bot.plan import Kill

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills by SIGKILL")


def test_killed_bot_approves_one_offer_on_each_request(tmp_path: Path) -> None:
    trial = KillTrial(tmp_path, "asyncio", 1)
    counts = anyio.run(partial(trial.run, [Kill("before send"), Kill("after send")]))
    assert {flaw: counts[flaw] for flaw in (*FLAWS, "in doubt at the end", "unexpected ends")} == dict.fromkeys(
        (*FLAWS, "in doubt at the end", "unexpected ends"), 0
    )
    assert counts["kills between sending and confirmed"] == 2
    assert counts["approvals"] > 0
    assert trial.forgotten == []


@pytest.mark.long
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_bot_without_its_ledger_answers_several_times_under_the_same_kills(backend: str, tmp_path: Path) -> None:
    trial = KillTrial(tmp_path, backend, 1, ledger=False)
    counts = anyio.run(partial(trial.run, draw_kills(Random(1), ledger=False)), backend=backend)
    assert counts["approvals too many"] > 0
    assert counts["wrong offer approved"] > 0
