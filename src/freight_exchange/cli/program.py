"""Root command: the subcommands, imported on demand, and the options that they share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Final, NamedTuple, get_args

import click
from click.shell_completion import CompletionItem, shell_complete

from freight_exchange.cli.exit_status import handle_errors
from freight_exchange.cli.options import FILE, SECONDS, GlobalOptions
from freight_exchange.options import (
    ADDRESSES_VARIABLE,
    CARRIER_FIELD_VARIABLE,
    CURRENCY_FIELD_VARIABLE,
    DEFAULT_DEADLINE,
    GET_PARAMETERS_VARIABLE,
    CarrierField,
    CurrencyField,
    GetParameters,
)

__all__ = ["PROGRAM", "program", "run"]

PROGRAM: Final = "freight-exchange"
_COMPLETION_VARIABLE: Final = "_FREIGHT_EXCHANGE_COMPLETE"


class _LazyCommand(NamedTuple):
    """Location of a command: the module in `cli.commands`, the attribute there, and a summary for help."""

    module: str
    attribute: str
    summary: str


_COMMANDS: Final[Mapping[str, _LazyCommand]] = {
    "login": _LazyCommand("login", "login", "Log in, and stay logged in."),
    "logout": _LazyCommand("login", "logout", "Forget the saved login."),
    "whoami": _LazyCommand("login", "whoami", "Show who is logged in, and where."),
    "requests": _LazyCommand("requests", "requests", "Rate requests: list, get, watch, publish, import."),
    "offers": _LazyCommand(
        "offers", "offers", "Offers on your own requests: list, get, watch, compare, export, approve, decline."
    ),
    "bids": _LazyCommand("bids", "bids", "Your own offers: list, submit."),
    "routes": _LazyCommand("routes", "routes", "Routes: list, get, create, update."),
    "carriers": _LazyCommand("reference", "carriers", "List the carriers."),
    "currencies": _LazyCommand("reference", "currencies", "List the currencies."),
    "bot": _LazyCommand("bot", "bot", "Run a bot, and manage its file."),
    "store": _LazyCommand("store", "store", "Prepare the database of a fleet of bots."),
    "tariff": _LazyCommand("tariff", "tariff", "Check a tariff in a CSV file."),
    "explain": _LazyCommand("explain", "explain", "Show the deliveries of a request, or why there is none yet."),
    "sandbox": _LazyCommand("sandbox", "sandbox", "Serve a sandbox exchange with a web board."),
    "demo": _LazyCommand("demo", "demo", "Show the exchange at work, without an account."),
}


class _LazyGroup(click.Group):
    """Group that imports a command when it runs: help and completion need no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        location = _COMMANDS.get(cmd_name)
        if location is None:
            return None
        command = getattr(import_module(f"freight_exchange.cli.commands.{location.module}"), location.attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not (name in _COMMANDS or name.startswith("-") or ctx.resilient_parsing):
            hint = "".join(f" Did you mean {match!r}?" for match in get_close_matches(name, _COMMANDS, n=1))
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in _COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(name, help=command.summary)
            for name, command in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--url", envvar="FREIGHT_EXCHANGE_URL", show_envvar=True, help="The API root, such as https://host/api.")
@click.option("--email", envvar="FREIGHT_EXCHANGE_EMAIL", show_envvar=True, help="The account.")
@click.option(
    "--token-file",
    envvar="FREIGHT_EXCHANGE_TOKEN_FILE",
    show_envvar=True,
    type=FILE,
    help="The file with the saved login; default: a private file of your system account.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    default=DEFAULT_DEADLINE,
    show_default=f"{DEFAULT_DEADLINE:g}",
    metavar="SECONDS",
    help="Time limit of a call, retries and login included.",
)
@click.option("--proxy", metavar="URL", help="URL of a proxy. If it has a password, set HTTPS_PROXY instead.")
@click.option(
    "--ca-file",
    type=FILE,
    help="File with a certificate authority to trust besides the public ones; SSL_CERT_FILE replaces these.",
)
@click.option(
    "--get-parameters",
    envvar=GET_PARAMETERS_VARIABLE,
    type=click.Choice(get_args(GetParameters)),
    help="Place of the parameters of a GET; query is for proxies that drop the bodies of GETs.",
)
@click.option(
    "--addresses",
    envvar=ADDRESSES_VARIABLE,
    metavar="LIST",
    help="Other documented addresses, such as publish=quote/request,submit=quote/bid.",
)
@click.option(
    "--currency-field",
    envvar=CURRENCY_FIELD_VARIABLE,
    type=click.Choice(get_args(CurrencyField)),
    help="The field for an offer's currency.",
)
@click.option(
    "--carrier-field",
    envvar=CARRIER_FIELD_VARIABLE,
    type=click.Choice(get_args(CarrierField)),
    help="The field for a route's carrier.",
)
@click.option("-v", "--verbose", count=True, help="Log requests to standard error (-vv for details).")
@click.version_option(package_name="freight-exchange", prog_name=PROGRAM)
@click.pass_context
def program(
    context: click.Context,
    url: str | None,
    email: str | None,
    token_file: str | None,
    timeout: float,
    proxy: str | None,
    ca_file: str | None,
    get_parameters: GetParameters | None,
    addresses: str | None,
    currency_field: CurrencyField | None,
    carrier_field: CarrierField | None,
    verbose: int,
) -> None:
    """The freight exchange from a shell: find rate requests, offer on them, publish your own, approve an offer.

    Log in once, or set FREIGHT_EXCHANGE_PASSWORD. There is no option for the password: command lines are visible to
    other users of the machine.

    \b
    Example:
      freight-exchange --url https://host/api login
      freight-exchange requests list --origin "Hong Kong"
    """
    context.obj = GlobalOptions(
        url=url,
        email=email,
        token_file=token_file,
        timeout=timeout,
        proxy=proxy,
        ca_file=ca_file,
        get_parameters=get_parameters,
        addresses=addresses,
        currency_field=currency_field,
        carrier_field=carrier_field,
    )
    if verbose:
        context.obj.enable_logging(verbose)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status."""
    if instruction := os.environ.get(_COMPLETION_VARIABLE):
        return shell_complete(program, {}, PROGRAM, _COMPLETION_VARIABLE, instruction)
    with handle_errors() as result, program.make_context(PROGRAM, [*arguments]) as context:
        program.invoke(context)
    return result.status
