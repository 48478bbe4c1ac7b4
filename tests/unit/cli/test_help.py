"""Every command explains itself, with an example, and help costs nothing that it does not need."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest
from tests.unit.blocks import ROOT

from freight_exchange.cli import program
from freight_exchange.cli.program import program as whole

PAGE = ROOT / "docs" / "cli.md"


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, by what is typed for it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


ALL = dict(commands(whole))
WORKING = {path: command for path, command in ALL.items() if not isinstance(command, click.Group)}


def test_there_is_every_command() -> None:
    there = {" ".join(path) for path in WORKING}
    assert there == {
        "login", "logout", "whoami", "requests list", "requests get", "requests publish", "requests watch",
        "offers list", "offers get", "offers approve", "offers decline", "bids list", "bids submit", "routes list",
        "routes get", "routes create", "routes update", "carriers", "currencies", "sandbox", "demo", "bot run",
        "bot status", "bot dead list", "bot dead replay", "bot doubts list", "bot doubts resolve", "bot gaps list",
        "bot gaps ack", "explain",
    }  # fmt: skip


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run([*path, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"Usage: freight-exchange {' '.join(path)} ")
    assert max(map(len, out.splitlines())) <= 120
    if path in WORKING:
        (examples,) = re.findall(r"Examples?:\n((?:    freight-exchange .*\n)+)", out)
        for line in examples.splitlines():
            typed = re.sub(r"^.*?(?= )", "", line.strip()).strip()
            assert " ".join(path) in typed, "an example shows the command itself"


@pytest.mark.parametrize("path", WORKING, ids=" ".join)
def test_the_examples_name_options_that_there_are(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    program.run([*path, "--help"])
    out, _ = capsys.readouterr()
    shared = {option for parameter in whole.params for option in parameter.opts}
    there = {option for parameter in WORKING[path].params for option in (*parameter.opts, *parameter.secondary_opts)}
    for line in re.findall(r"^ +(freight-exchange .*)$", out, re.MULTILINE):
        named = set(re.findall(r"(?<= )--?[a-z][a-z-]*", line.split("|")[0]))
        assert named <= there | shared


@pytest.mark.parametrize("path", WORKING, ids=" ".join)
def test_the_examples_are_understood(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    called: list[dict[str, object]] = []
    monkeypatch.setattr(WORKING[path], "callback", lambda *_, **given: called.append(given))
    program.run([*path, "--help"])
    out, _ = capsys.readouterr()
    examples = re.findall(r"^ +freight-exchange (.*)$", out, re.MULTILINE)
    for line in examples:
        words = shlex.split(line.split(" | ")[0])
        for name in (after for option, after in pairwise(words) if option == "--file"):
            Path(name).touch()
        assert program.run(words) == 0, (line, capsys.readouterr().err)
    assert len(called) == len(examples) > 0


def test_all_speak_json_but_those_that_run_something() -> None:
    speechless = {path for path, command in WORKING.items() if "as_json" not in {one.name for one in command.params}}
    assert speechless == {("demo",), ("bot", "run")}


def test_no_option_takes_a_password() -> None:
    for path, command in {(): whole, **ALL}.items():
        named = " ".join(option for parameter in command.params for option in parameter.opts)
        assert "password" not in named, path
        assert "token" not in named.replace("--token-file", ""), path


@pytest.mark.parametrize("path", WORKING, ids=" ".join)
def test_the_page_has_every_command(path: tuple[str, ...]) -> None:
    assert f"freight-exchange {' '.join(path)}" in PAGE.read_text()


def loaded(*arguments: str, completing: str | None = None) -> set[str]:
    """The modules that a command loads."""
    environment = {}
    if completing is not None:
        environment = {"_FREIGHT_EXCHANGE_COMPLETE": "bash_complete", "COMP_WORDS": completing, "COMP_CWORD": "1"}
    code = f"""
import os, sys
from freight_exchange.cli.program import run
os.environ.update({environment!r})
run({[*arguments]!r})
sys.stderr.write(" ".join(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "completing"), [(("--help",), None), (("--version",), None), ((), "freight-exchange re")]
)
def test_help_and_completion_load_neither_the_client_nor_what_it_needs(
    arguments: tuple[str, ...], completing: str | None
) -> None:
    found = loaded(*arguments, completing=completing)
    assert "freight_exchange.cli.program" in found
    unwanted = {"httpx", "anyio", "cattrs", "rich", "freight_exchange.client", "freight_exchange.sandbox", "sqlite3"}
    assert found & unwanted == set()
