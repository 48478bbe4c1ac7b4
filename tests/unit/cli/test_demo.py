"""`demo` shows a trade from its publication to the contacts, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from freight_exchange.cli import program


def test_the_demo(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert program.run(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    told = [line.partition(" | ")[2] for line in out.splitlines() if " | " in line]
    order = ["a sandbox listens", "logged in as Sylvia", "publishes request 1", "hears of", "offers USD 599.04"]
    assert [next(at for at, line in enumerate(told) if line.startswith(start)) for start in order] == [0, 1, 2, 3, 4]
    assert "is told that its offer was selected: call Sylvia Ship <shipper@demo.example>" in told
    assert "learns whose it was: Fergus Forward <forwarder@demo.example>" in told
    assert told[-1].endswith("1 request and 1 offer")
    assert list(tmp_path.iterdir()) == []
