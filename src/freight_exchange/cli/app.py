"""Root command: the options before a command, and all commands."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click
from click.shell_completion import shell_complete

from freight_exchange import __version__
from freight_exchange.cli import bot, client, market, sandbox
from freight_exchange.cli import options as opt
from freight_exchange.cli.run import exit_status_of
from freight_exchange.platform.text import CleanFormatter

PROGRAM: Final = "freight-exchange"
_COMPLETION: Final = "_FREIGHT_EXCHANGE_COMPLETE"


@click.command(cls=client.Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@opt.Options.add_to
@click.option("-v", "--verbose", count=True, help="Log requests to standard error (-vv for details).")
@click.version_option(__version__, prog_name=PROGRAM)
@click.pass_context
def program(context: click.Context, /, verbose: int, **typed: Any) -> None:
    """The freight exchange from a shell: find rate requests, offer on them, publish your own, approve an offer.

    Log in once, or set FREIGHT_EXCHANGE_PASSWORD. There is no option for the password: command lines are visible to
    other users of the machine.

    \b
    Example:
      freight-exchange --url https://host/api login
      freight-exchange requests list --origin "Hong Kong"
    """
    context.obj = opt.Options(**typed)
    if verbose:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(CleanFormatter("%(levelname)s %(name)s: %(message)s"))
        logger = logging.getLogger("freight_exchange")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)


for _command in (
    client.login, client.logout, client.whoami, market.requests, market.offers, market.bids, market.routes,
    market.carriers, market.currencies, bot.bot, bot.store, market.tariff, bot.explain, sandbox.sandbox, sandbox.demo,
):  # fmt: skip
    program.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status."""
    if instruction := os.environ.get(_COMPLETION):
        return shell_complete(program, {}, PROGRAM, _COMPLETION, instruction)

    def body() -> None:
        with program.make_context(PROGRAM, [*arguments]) as context:
            program.invoke(context)

    return exit_status_of(body)
