"""Shells complete commands, options and the service's words."""

from __future__ import annotations

import pytest

from freight_exchange.cli import program


def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> set[str]:
    monkeypatch.setenv("_FREIGHT_EXCHANGE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("freight-exchange", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert program.run([]) == 0
    out, _ = capsys.readouterr()
    return {line.partition(",")[2] for line in out.splitlines()}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["re"], {"requests"}),
        (["requests", "w"], {"watch"}),
        (["bids", "submit", "4", "--am"], {"--amount"}),
        (["requests", "list", "--type", "Tr"], {"Trucking"}),
        (["bids", "list", "--state", ""], {"active", "sel", "nsel", "offers"}),
        (["bot", "d"], {"dead", "doubts"}),
    ],
)
def test_what_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], offered: set[str]
) -> None:
    assert completed(monkeypatch, capsys, *words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_its_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    monkeypatch.setenv("_FREIGHT_EXCHANGE_COMPLETE", f"{shell}_source")
    assert program.run([]) == 0
    out, _ = capsys.readouterr()
    assert "_FREIGHT_EXCHANGE_COMPLETE" in out
    assert "freight-exchange" in out
