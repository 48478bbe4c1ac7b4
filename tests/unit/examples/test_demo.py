"""Tests of `make demo`, which does the main job end to end, over real HTTP."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from examples import demo
from tools.pages import ROOT

from freight_sandbox import Exchange

KEPT = {"requests": 10, "offers": 9, "duplicates": 0, "missed": 0, "wrong prices": 0, "replies lost": 3,
        "dead letters": 1, "selections reported": 1, "exit status": 0}  # fmt: skip


def test_demo_kills_a_bot_and_finds_its_promises_kept() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "demo.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = [tuple(map(str.strip, line.split(" | ", 1))) for line in done.stdout.splitlines() if " | " in line]
    story = [("bot", "starts"), ("bot", "found among your bids"), ("bot", "is gone, with status -9"),
             ("shipper", "publishes"), ("bot", "starts"), ("bot", "is no longer in doubt"),
             ("shipper", "approves"), ("bot", "was selected: call Sylvia Ship"), ("bot", "is gone, with status 0"),
             ("bot", "starts"), ("bot", "is gone, with status 0")]  # fmt: skip
    left = iter(lines)
    for who, words in story:
        assert any(line[0] == who and words in line[1] for line in left), (who, words, lines)
    assert sum("failed on" in line[1] for line in lines) > 3
    assert {who: int(what) for who, what in lines if what.isdigit()} == KEPT


@pytest.mark.parametrize("name", [name for name in KEPT if name != "requests"])
def test_broken_promise_ends_the_demo_with_an_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.verdict(KEPT) == 0
    assert demo.verdict(KEPT | {name: KEPT[name] + 1}) == 1
    assert f"BROKEN: {name} is {KEPT[name] + 1}, not {KEPT[name]}" in capsys.readouterr().out


def test_counts_come_from_the_log_of_the_exchange() -> None:
    exchange = Exchange()
    twice, dear, _, declined = requests = [exchange.publish(exchange.shipper, 0.0) for _ in range(4)]
    for request, amount in ((twice, 100), (twice, 100), (dear, 101)):
        exchange.offer(exchange.forwarder, request, 0.0, amount=amount)
    bot = demo.Program("bot.db", "http://localhost/api", exchange)
    bot.lines += ["its delivery is dead", "was selected"]
    prices: dict[int, Any] = {**dict.fromkeys(requests, Decimal(100)), declined: None}
    wanted = {"requests": 4, "offers": 3, "duplicates": 1, "missed": 1, "wrong prices": 1, "replies lost": 0}
    wanted |= {"dead letters": 1, "selections reported": 1, "exit status": 0}
    assert demo.counted(exchange, prices, bot) == wanted
