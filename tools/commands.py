"""Table of all commands in `docs/cli-reference.md`, made from their help: `python -m tools.commands` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from freight_exchange.cli.app import PROGRAM, program

PAGE = Path(__file__).parents[1] / "docs" / "cli-reference.md"
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
    """Return the table: arguments, options, and the first sentence of the help."""
    rows = ["| Command | Options | Effect |", "|---|---|---|"]
    for words, command in commands(program):
        context = click.Context(command)
        arguments = [one.make_metavar(context) for one in command.params if isinstance(one, click.Argument)]
        options = [one.opts[-1] for one in command.params if isinstance(one, click.Option)]
        effect = (command.help or "").partition("\n\n")[0].replace("\n", " ")
        shown = " ".join(f"`{option}`" for option in options)
        rows.append(f"| `{' '.join([words, *arguments])}` | {shown} | {effect} |".replace("|  |", "| |"))
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
