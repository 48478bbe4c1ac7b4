"""Root command: its subcommands, which are imported when they run, and the options before them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from types import ModuleType
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, shell_complete

from freight_exchange import __version__
from freight_exchange.cli import options as opt
from freight_exchange.cli.run import exit_status_of
from freight_exchange.platform.text import CleanFormatter

__all__ = ["PROGRAM", "program", "run"]

PROGRAM: Final = "freight-exchange"
_COMPLETION: Final = "_FREIGHT_EXCHANGE_COMPLETE"

_SUMMARIES: Final = {
    "login": "Log in, and stay logged in.",
    "logout": "Forget the saved login.",
    "whoami": "Show who is logged in, and where.",
    "requests": "Rate requests: list, get, watch, publish, import.",
    "offers": "Offers on your own requests: list, get, watch, compare, export, approve, decline.",
    "bids": "Your own offers: list, submit.",
    "routes": "Routes: list, get, create, update.",
    "carriers": "List the carriers.",
    "currencies": "List the currencies.",
    "bot": "Run a bot, and manage its file.",
    "store": "Prepare the database of a fleet of bots.",
    "tariff": "Check a tariff in a CSV file.",
    "explain": "Show the deliveries of a request, or why there is none yet.",
    "sandbox": "Serve a sandbox exchange with a web board.",
    "demo": "Show the exchange at work, without an account.",
}


def _module_of(command: str) -> ModuleType:
    """Import the module of a command. The imports are statements, which a freezer such as PyInstaller finds."""
    module: ModuleType
    match command:
        case "login" | "logout" | "whoami":
            from freight_exchange.cli import login as module
        case "bot" | "explain":
            from freight_exchange.cli import bot as module
        case "store":
            from freight_exchange.cli import records as module
        case "tariff":
            from freight_exchange.cli import files as module
        case "sandbox" | "demo":
            from freight_exchange.cli import sandbox as module
        case _:
            from freight_exchange.cli import market as module
    return module


class _Root(opt.Group):
    """Group that imports a command when it runs: help and completion need no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_SUMMARIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command: Any = getattr(_module_of(cmd_name), cmd_name) if cmd_name in _SUMMARIES else None
        return command  # type: ignore[no-any-return]  # a command or `None`

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if not (args[0] in _SUMMARIES or args[0].startswith("-") or ctx.resilient_parsing):
            hint = "".join(f" Did you mean {match!r}?" for match in get_close_matches(args[0], _SUMMARIES, n=1))
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*_SUMMARIES.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = (name for name in _SUMMARIES if name.startswith(incomplete))
        commands = [CompletionItem(name, help=_SUMMARIES[name]) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


@click.command(cls=_Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@opt.Options.add_to
@click.version_option(__version__, prog_name=PROGRAM)
@click.pass_context
def program(context: click.Context, /, **typed: Any) -> None:
    """The freight exchange from a shell: find rate requests, offer on them, publish your own, approve an offer.

    Log in once, or set FREIGHT_EXCHANGE_PASSWORD. There is no option for the password: command lines are visible to
    other users of the machine.

    \b
    Example:
      freight-exchange --url https://host/api login
      freight-exchange requests list --origin "Hong Kong"
    """
    context.obj = opt.Options(**typed)
    if context.obj.verbose:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(CleanFormatter("%(levelname)s %(name)s: %(message)s"))
        logger = logging.getLogger("freight_exchange")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if context.obj.verbose == 1 else logging.DEBUG)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status."""
    if instruction := os.environ.get(_COMPLETION):
        return shell_complete(program, {}, PROGRAM, _COMPLETION, instruction)

    def body() -> None:
        with program.make_context(PROGRAM, [*arguments]) as context:
            program.invoke(context)

    return exit_status_of(body)
