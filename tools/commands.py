"""Table of all commands in `docs/cli.md`, made from their help: `python -m tools.commands` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from freight_exchange.cli.app import PROGRAM, program

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
TABLE = re.compile(r"(?<=<!-- commands -->\n\n)(?:\|.*\n)*")


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield each command that is no group, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield " ".join((PROGRAM, *path, name)), command


def table() -> str:
    """Return the table: the commands of each group with their arguments."""
    groups: dict[str, list[str]] = {"": []}
    for words, command in commands(program):
        context = click.Context(command)
        arguments = [one.make_metavar(context) for one in command.params if isinstance(one, click.Argument)]
        group, _, name = words.removeprefix(f"{PROGRAM} ").rpartition(" ")
        first, _, rest = group.partition(" ")
        groups.setdefault(first, []).append(" ".join(part for part in (rest, name, *arguments) if part))
    rows = ["| Group | Commands |", "|---|---|"]
    for group, names in groups.items():
        rows.append(
            f"| {f'`{group}`' if group else ''} | {', '.join(f'`{name}`' for name in names)} |".replace("|  |", "| |")
        )
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
