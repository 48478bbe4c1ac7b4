"""Test of `demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

from freight_exchange.cli import program


def test_demo_shows_trade_and_leaves_no_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert program.run(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    steps = [line.partition(" | ")[2] for line in out.splitlines() if " | " in line]
    first = ["a sandbox listens", "logged in as Sylvia", "publishes request 1", "receives", "offers USD 599.04"]
    for step, start in zip(steps, first, strict=False):
        assert step.startswith(start)
    assert "receives the selection of its offer: call Sylvia Ship <shipper@demo.example>" in steps
    assert "sees who made it: Fergus Forward <forwarder@demo.example>" in steps
    assert steps[-1].endswith("1 request and 1 offer")
    assert list(tmp_path.iterdir()) == []
