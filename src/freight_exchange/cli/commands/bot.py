"""Command `bot`: run a bot, and manage its file."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

import freight_exchange
from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.bot.runtime.process.process import importing
from freight_exchange.cli.client.runner import run as run_loop
from freight_exchange.cli.commands.bot_records import dead, doubts, gaps
from freight_exchange.cli.json_log import log_as_json
from freight_exchange.cli.options import GlobalOptions, bot_file_options, json_option
from freight_exchange.cli.render.record import print_details, print_json, to_json
from freight_exchange.options import (
    ADDRESSES_VARIABLE,
    CARRIER_FIELD_VARIABLE,
    CURRENCY_FIELD_VARIABLE,
    EMAIL_VARIABLE,
    GET_PARAMETERS_VARIABLE,
    TRUST_ENV_VARIABLE,
    URL_VARIABLE,
)

if TYPE_CHECKING:
    from freight_exchange import Bot

__all__ = ["bot"]

_STATUS_FIELDS = (
    "name", "base_url", "account", "holder", "replicas", "is_restored", "covered_until", "unacknowledged", "deliveries",
    "offers", "answers", "parked",
)  # fmt: skip


@click.group
def bot() -> None:
    """Run a bot, and manage its file.

    Commands that only read work at any time. A running bot locks its file: stop it before you change the file.
    """


bot.add_command(dead)
bot.add_command(doubts)
bot.add_command(gaps)


@bot.command
@click.argument("target", metavar="MODULE:BOT")
@click.option(
    "--backend",
    type=click.Choice(["asyncio", "trio"]),
    default="asyncio",
    show_default=True,
    help="Async library that runs the bot.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log on standard error; json is one object per line.",
)
@click.pass_obj
def run(
    options: GlobalOptions, /, target: str, backend: Literal["asyncio", "trio"], log_format: Literal["text", "json"]
) -> None:
    """Run the bot BOT of a Python module.

    BOT is a bot, or a function that makes one. The module may be in the current directory. Ctrl-C or SIGTERM drain the
    bot. The service and the account come from the environment or from the options before the command. The password must
    be in the environment, because a bot that runs for months logs in again. A bot whose own client has another URL or
    account than the options does not run.

    \b
    Example:
      freight-exchange bot run my_bot:bot
      freight-exchange bot run my_bot:make_bot
    """
    typed = _typed_options("url", "email", "token_file", "timeout", "proxy", "ca_file")
    for name in sorted(typed & {"token_file", "timeout", "proxy", "ca_file"}):
        raise click.UsageError(f"bot run does not support --{name.replace('_', '-')}: set it on the bot's own client")
    if log_format == "json":
        log_as_json()
    # Before the import, as the module may create a client; and after it, as the module may change the environment.
    _export(options)
    loaded = _load_bot(target)
    _export(options)
    _check_client(loaded, options, typed)
    loaded.run(backend=backend)


def _load_bot(target: str) -> Bot:
    """Import the bot `MODULE:BOT`, or call the function of that name. The current directory is on the path.

    Raises:
        UsageError: There is no such bot.
        ConfigurationError: The module runs its bot while it is imported.
    """
    module, colon, attribute = target.partition(":")
    # A name that begins with a dot is relative to a package, and there is none.
    if not (colon and attribute and all(module.split("."))):
        raise click.UsageError(f"give MODULE:BOT, such as my_bot:bot, not {target!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        with importing(module):
            loaded = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        # A failed import within the module is a bug there, reported with its traceback.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise click.UsageError(f"there is no module {module!r} here") from None
    if inspect.isfunction(loaded) and not inspect.iscoroutinefunction(loaded):
        loaded = _call_factory(loaded, target)
    if not isinstance(loaded, freight_exchange.Bot):
        raise click.UsageError(f"{module} has no Bot named {attribute!r}, and no function of that name that makes one")
    return loaded


def _call_factory(factory: Callable[..., object], target: str) -> object:
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise click.UsageError(f"{target} cannot make the bot: it is called without arguments: {error}") from None
    return factory()


def _typed_options(*names: str) -> set[str]:
    """Return those of these global options that are on the command line. Options from the environment do not count."""
    root = click.get_current_context().find_root()
    return {name for name in names if root.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _export(options: GlobalOptions) -> None:
    # Every command respects HTTPS_PROXY and SSL_CERT_FILE.
    os.environ[TRUST_ENV_VARIABLE] = os.environ.get(TRUST_ENV_VARIABLE) or "1"
    for variable, value in (
        (URL_VARIABLE, options.url),
        (EMAIL_VARIABLE, options.email),
        (GET_PARAMETERS_VARIABLE, options.get_parameters),
        (ADDRESSES_VARIABLE, options.addresses),
        (CURRENCY_FIELD_VARIABLE, options.currency_field),
        (CARRIER_FIELD_VARIABLE, options.carrier_field),
    ):
        if value is not None:
            os.environ[variable] = value


def _check_client(loaded: Bot, options: GlobalOptions, typed: set[str]) -> None:
    """Reject a bot whose own client contradicts the options."""
    client = loaded._exchange
    if client is None:
        return
    if "url" in typed and client._base_url != (options.url or "").strip().rstrip("/"):
        raise click.UsageError(f"the bot's own client is for {client._base_url}, and --url is {options.url}")
    if "email" in typed and (account := run_loop(client._account)) != options.email:
        raise click.UsageError(f"the bot's own client is for the account {account}, and --email is {options.email}")


@bot.command
@bot_file_options
@json_option
def status(store: str, name: str | None, as_json: bool) -> None:
    """Show the status of a bot, as recorded in its file or database.

    \b
    Example:
      freight-exchange bot status --store bot.db
      freight-exchange bot status --store postgresql://bots@db.internal/freight
    """
    report = BotFile(store, name=name).status()
    if as_json:
        fields = {field: to_json(getattr(report, field)) for field in _STATUS_FIELDS}
        print_json(fields | {"gaps": to_json(report.gaps)})
        return
    covered = "nothing yet" if report.covered_until is None else f"{report.covered_until:%Y-%m-%d %H:%M:%S} UTC"
    unheld = "no process: the bot is not running"
    if report.replicas:
        unheld = "no replica: none of them scans now; if this lasts, their logs have the reason"
    offers, answers = report.offers, report.answers
    in_doubt = offers["sending"] + offers["unknown"]
    unanswered = answers["sending"] + answers["unknown"]
    print_details(
        [
            ("bot", report.name),
            ("service", report.base_url),
            ("account", report.account),
            ("held by", report.holder or unheld),
            ("replicas", ", ".join(report.replicas) or None),
            (
                "restored",
                "the database has lost commits; the bot looks for lost offers" if report.is_restored else None,
            ),
            ("covered until", covered),
            ("events", f"{report.unacknowledged} unacknowledged"),
            ("deliveries", ", ".join(f"{count} {state}" for state, count in report.deliveries.items())),
            ("offers", f"{offers['confirmed']} taken, {offers['rejected']} refused, {in_doubt} in doubt"),
            (
                "answers",
                f"{answers['confirmed']} carried out, {answers['rejected']} refused, {unanswered} in doubt"
                if any(answers.values())
                else None,
            ),
            ("parked", f"{report.parked}: a person has to decide" if report.parked else None),
            ("gaps", f"{len(report.gaps)} not acknowledged" if report.gaps else None),
        ]
    )
