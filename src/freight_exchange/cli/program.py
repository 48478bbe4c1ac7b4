"""The program as a whole: its commands, and the options that all of them share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import shell_complete

from freight_exchange.cli.exit_status import ended
from freight_exchange.cli.lazy_group import Commands, Home
from freight_exchange.cli.options import FILE, SECONDS
from freight_exchange.cli.settings import Settings

__all__ = ["PROGRAM", "program", "run"]

PROGRAM: Final = "freight-exchange"
_COMPLETE: Final = "_FREIGHT_EXCHANGE_COMPLETE"

_HOMES: Final = {
    "login": Home("login", "login", "Log in, and stay logged in."),
    "logout": Home("login", "logout", "Forget the login."),
    "whoami": Home("login", "whoami", "Show who is logged in, and where."),
    "requests": Home("requests", "requests", "Rate requests: list, get, publish, watch."),
    "offers": Home("offers", "offers", "Offers on your own requests: list, get, approve, decline."),
    "bids": Home("bids", "bids", "Your own offers: list, submit."),
    "routes": Home("routes", "routes", "Routes: list, get, create, update."),
    "carriers": Home("reference", "carriers", "List the carriers."),
    "currencies": Home("reference", "currencies", "List the currencies."),
    "bot": Home("bot", "bot", "Run a bot, and look after its file."),
    "explain": Home("explain", "explain", "Say why a request was, or was not yet, handed out."),
    "sandbox": Home("sandbox", "sandbox", "Serve an exchange of your own, with a board to look at."),
    "demo": Home("demo", "demo", "Show the exchange at work, without an account."),
}


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--url", envvar="FREIGHT_EXCHANGE_URL", show_envvar=True, help="The API root, such as https://host/api.")
@click.option("--email", envvar="FREIGHT_EXCHANGE_EMAIL", show_envvar=True, help="The account.")
@click.option(
    "--token-file",
    envvar="FREIGHT_EXCHANGE_TOKEN_FILE",
    show_envvar=True,
    type=FILE,
    help="Where the login is kept; a file of your own account unless told.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long a call may take, attempts and login included.",
)
@click.option("-v", "--verbose", count=True, help="Tell on standard error what is sent; twice: everything.")
@click.version_option(package_name="freight-exchange", prog_name=PROGRAM)
@click.pass_context
def program(
    context: click.Context, url: str | None, email: str | None, token_file: str | None, timeout: float, verbose: int
) -> None:
    """The freight exchange from a shell: find rate requests, offer on them, publish your own, approve an offer.

    The password is read from FREIGHT_EXCHANGE_PASSWORD, or asked for. It is no option: what stands on a command line,
    every user of the machine can read.

    \b
    Example:
      freight-exchange --url https://host/api login
      freight-exchange requests list --origin "Hong Kong"
    """
    context.obj = Settings(url=url, email=email, token_file=token_file, timeout=timeout)
    if verbose:
        context.obj.be_heard(verbose)


assert isinstance(program, Commands)
program.homes = _HOMES


def run(arguments: Sequence[str]) -> int:
    """Do what the command line says; the status to exit with."""
    if instruction := os.environ.get(_COMPLETE):
        return shell_complete(program, {}, PROGRAM, _COMPLETE, instruction)
    with ended() as ending, program.make_context(PROGRAM, [*arguments]) as context:
        program.invoke(context)
    return ending.status
