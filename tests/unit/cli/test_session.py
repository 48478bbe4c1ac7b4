"""What the page about the command line shows, typed as it stands there, against a real server."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from tests.unit.blocks import ROOT
from tests.unit.cli.rig import COMMAND, Shell, on_a_terminal

PAGE = ROOT / "docs" / "cli.md"
SESSION = re.compile(r"<!-- run: session -->\n```console\n(.*?)```", re.DOTALL)
ENDINGS = re.compile(r"<!-- run: endings -->\n```console\n(.*?)```", re.DOTALL)
SERVED_AT = "http://127.0.0.1:8765"
CLOCK = re.compile(r"\b\d\d:\d\d:\d\d\b|\b\d+\.\d\d(?= s\])")


def typed_and_shown(block: str) -> list[tuple[str, str]]:
    """Each command of a block, and what the page shows after it."""
    steps = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(step.partition("\n")[0], step.partition("\n")[2]) for step in steps]


def answers(shown: str) -> dict[str, str]:
    """What is typed at the prompts that the page shows; the password is what no screen shows."""
    found = {}
    if (email := re.search(r"^Email: (.+)$", shown, re.MULTILINE)) is not None:
        found["Email: "] = email[1]
    if (account := re.search(r"^Password of (\w+)@", shown, re.MULTILINE)) is not None:
        found["Password of "] = account[1]
    if "[y/N]: y" in shown:
        found["[y/N]: "] = "y"
    return found


def comparable(shown: str) -> str:
    return CLOCK.sub("TIME", shown).rstrip()


def test_the_page_from_top_to_bottom_is_what_a_user_sees(shell: Shell) -> None:
    page = PAGE.read_text()
    (draft,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    Path("tiles.toml").write_text(draft)
    shell.forget_who()
    root = shell.url.removesuffix("/api")
    steps = [step for block in SESSION.findall(page) for step in typed_and_shown(block)]
    commands = " ".join(command for command, _ in steps)
    for word in ("login", "requests list", "requests watch", "bids submit", "offers approve"):
        assert word in commands
    for command, shown in steps:
        words = shlex.split(command.replace(SERVED_AT, root))
        assert words.pop(0) == "freight-exchange"
        status, screen = on_a_terminal(words, answers(shown), columns=140)
        assert comparable(screen.replace(root, SERVED_AT)) == comparable(shown), command
        assert status == 0
    (offer,) = shell.exchange.audit_log.offers
    assert shell.exchange.audit_log.changes[-1].state.selected == offer.offer.index
    _what_goes_wrong_is_said_as_the_page_has_it(shell, root)


def _what_goes_wrong_is_said_as_the_page_has_it(shell: Shell, root: str) -> None:
    program = shell.home / "bin" / "freight-exchange"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    (block,) = ENDINGS.findall(PAGE.read_text())
    steps = typed_and_shown(block)
    assert len(steps) == 9
    said_before: list[str] = []
    for command, shown in steps:
        if command.startswith("export "):
            said_before.append(command)
            continue
        done = subprocess.run(
            ["bash", "-c", "\n".join([*said_before, command]).replace(SERVED_AT, root)],
            env={**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert comparable(done.stdout.replace(root, SERVED_AT)) == comparable(shown), command
