"""Test of the sessions on the page about the command line, run against a sandbox."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from tests.cli.harness import Shell, locate_program, run_session
from tools import commands
from tools.pages import ROOT

from freight_exchange.cli.app import program

PAGE = ROOT / "docs" / "cli.md"
STEP = re.compile(r"<!-- run: (session|errors) -->\n```sh\n(.*?)\n```(?:\n\n```text\n(.*?)\n```)?", re.DOTALL)
BASE_URL = "http://127.0.0.1:8765"
TIMES = re.compile(r"\b\d\d:\d\d:\d\d\b|\b\d+\.\d\d(?= s\])")


def steps_of(page: Path, kind: str) -> list[tuple[str, str]]:
    """Return each command of a page with its output."""
    return [(command, output) for found, command, output in STEP.findall(page.read_text()) if found == kind]


def prompt_answers(output: str) -> dict[str, str]:
    """Return the answers to the prompts of an output; no screen shows the password, which equals the name."""
    answers = {}
    if (email := re.search(r"^Email: (.+)$", output, re.MULTILINE)) is not None:
        answers["Email: "] = email[1]
    if (account := re.search(r"^Password of (\w+)@", output, re.MULTILINE)) is not None:
        answers["Password of "] = account[1]
    if "[y/N]: y" in output:
        answers["[y/N]: "] = "y"
    return answers


def normalize(output: str) -> str:
    return TIMES.sub("TIME", output).rstrip()


def test_table_of_commands_is_current() -> None:
    """`python -m tools.commands` writes it."""
    (shown,) = commands.TABLE.findall(PAGE.read_text())
    assert shown == commands.table()


def test_pages_name_only_commands_that_exist() -> None:
    known = {path for path, _ in commands.commands(program)}
    known |= {" ".join(path.split()[:-1]) for path in known}
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for words in re.findall(r"(?<![\w./-])freight-exchange ((?:[a-z]+(?: |`|$))+)", page.read_text(), re.MULTILINE):
            named = words.split("`")[0].split()
            found = any(f"freight-exchange {' '.join(named[:length])}" in known for length in (1, 2, 3))
            assert found, f"{page.name}: {words}"


def test_sessions_on_page_are_current(shell: Shell) -> None:
    page = PAGE.read_text()
    (draft,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    Path("tiles.toml").write_text(draft)
    shell.clear_environment()
    root = shell.url.removesuffix("/api")
    steps = steps_of(PAGE, "session")
    commands = " ".join(command for command, _ in steps)
    for word in ("login", "requests list", "requests watch", "bids submit", "offers approve"):
        assert word in commands
    lines = [shlex.split(command.replace(BASE_URL, root)) for command, _ in steps]
    assert {name for name, *_ in lines} == {"freight-exchange"}
    ends = run_session([words for _, *words in lines], [prompt_answers(output) for _, output in steps], columns=140)
    for (command, output), (status, screen) in zip(steps, ends, strict=True):
        assert normalize(screen.replace(root, BASE_URL)) == normalize(output), command
        assert status == 0
    (offer,) = shell.exchange.audit_log.offers
    assert shell.exchange.audit_log.changes[-1].state.selected == offer.offer.index


def test_errors_on_page_are_current(shell: Shell) -> None:
    shell.clear_environment()
    login = shell("--url", shell.url, "login", typed="forwarder@demo.example\nforwarder\n")
    assert login.status == 0
    shell.publish()
    root = shell.url.removesuffix("/api")
    executable = shell.home / "bin" / "freight-exchange"
    executable.parent.mkdir()
    executable.write_text(f'#!/bin/sh\nexec {shlex.join(locate_program())} "$@"\n')
    executable.chmod(0o755)
    steps = steps_of(PAGE, "errors")
    assert len(steps) == 2
    exports: list[str] = []
    for command, output in steps:
        if command.startswith("export "):
            exports.append(command)
            continue
        done = subprocess.run(
            ["bash", "-c", "\n".join([*exports, command]).replace(BASE_URL, root)],
            env={**os.environ, "PATH": f"{executable.parent}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert normalize(done.stdout.replace(root, BASE_URL)) == normalize(output), command
