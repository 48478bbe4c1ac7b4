"""A group of commands that imports a command when it is asked for: help and completion need none of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

__all__ = ["Commands", "Home"]


class Home(NamedTuple):
    """Where a command is, within `freight_exchange.cli`, and what it does in a few words."""

    module: str
    name: str
    does: str


class Commands(click.Group):
    """A group whose commands are imported one by one.

    Args:
        homes: Where each command is, by its name, in the order in which help lists them.
    """

    homes: Mapping[str, Home]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.homes]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = self.homes.get(cmd_name)
        if home is None:
            return None
        command = getattr(import_module(f"freight_exchange.cli.commands.{home.module}"), home.name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, home.does) for name, home in self.homes.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(name, help=home.does) for name, home in self.homes.items() if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]
