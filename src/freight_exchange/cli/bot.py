"""Commands `bot run`, `bot status` and `explain`.

The names of the bot's runtime that the command line uses are those imported here and in `records`.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

import click

from freight_exchange import Bot
from freight_exchange.bot.admin import BotFile
from freight_exchange.bot.process import importing
from freight_exchange.bot.status import StoreStatus
from freight_exchange.cli import options as opt
from freight_exchange.cli.records import backup, dead, doubts, gaps
from freight_exchange.cli.run import Failure, Status
from freight_exchange.cli.run import run as run_loop
from freight_exchange.cli.show import Out, text_of

__all__ = ["bot", "explain"]

_UNSUPPORTED: Final = ("ca_file", "profile", "proxy", "timeout", "token_file")
"""Options of a client that a bot's own client must set, or whose login a bot cannot use."""
_EXPORTED: Final = ("url", "email", "get_parameters", "addresses", "currency_field", "carrier_field")
_LOG_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_STATUS_FIELDS: Final = (
    "name", "base_url", "account", "holder", "replicas", "covered_until", "unacknowledged", "deliveries",
    "offers", "answers", "parked", "gaps",
)  # fmt: skip
_STATES: Final = {
    "ready": "will be called",
    "claimed": "is running",
    "done": "is done",
    "dead": "failed for the last time",
}


@click.group(cls=opt.Group)
def bot() -> None:
    """Run a bot, and manage its store: a file, or the database of a fleet.

    All commands work beside a running bot, which carries out the changes of its file within seconds.
    """


bot.add_command(backup)
bot.add_command(dead)
bot.add_command(doubts)
bot.add_command(gaps)


@bot.command
@click.argument("target", metavar="MODULE:BOT")
@opt.choice("--backend", ["asyncio", "trio"], "Async library that runs the bot.", "asyncio")
@opt.choice("--log-format", ["text", "json"], "Format of the log on standard error; json: an object per line.", "text")
@click.pass_obj
def run(
    options: opt.Options, /, target: str, backend: Literal["asyncio", "trio"], log_format: Literal["text", "json"]
) -> None:
    """Run the bot BOT of a Python module.

    BOT is a bot, or a function that makes one. The module may be in the current directory. Ctrl-C or SIGTERM drain the
    bot. The service and the account come from the environment or from the options before the command. The password must
    be in the environment, because a bot that runs for months logs in again. A bot whose own client has another URL or
    account than the options does not run.

    $ bot run my_bot:bot
    $ bot run my_bot:make_bot
    """
    for name in _UNSUPPORTED:
        if getattr(options, name) is not None:
            raise click.UsageError(f"bot run does not support {opt.name_of(name)}: set it on the bot's own client")
    if log_format == "json":
        _log_as_json()
    # Before the import, as the module may create a client; and after it, as the module may change the environment.
    _export(options)
    loaded = _load(target)
    _export(options)
    _check_client(loaded, options)
    loaded.run(backend=backend)


def _load(target: str) -> Bot:
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
        try:
            inspect.signature(loaded).bind()
        except TypeError as error:
            raise click.UsageError(f"{target} cannot make the bot: it is called without arguments: {error}") from None
        loaded = loaded()
    if not isinstance(loaded, Bot):
        raise click.UsageError(f"{module} has no Bot named {attribute!r}, and no function of that name that makes one")
    return loaded


def _export(options: opt.Options) -> None:
    # Every command respects HTTPS_PROXY and SSL_CERT_FILE.
    os.environ["FREIGHT_EXCHANGE_TRUST_ENV"] = os.environ.get("FREIGHT_EXCHANGE_TRUST_ENV") or "1"
    for name in _EXPORTED:
        if (value := getattr(options, name)) is not None:
            os.environ[f"FREIGHT_EXCHANGE_{name.upper()}"] = value


def _check_client(loaded: Bot, options: opt.Options) -> None:
    """Reject a bot whose own client contradicts the options."""
    client = loaded._exchange
    if client is None:
        return
    if options.url and client._base_url != options.url.strip().rstrip("/"):
        raise click.UsageError(f"the bot's own client is for {client._base_url}, and --url is {options.url}")
    if options.email and (account := run_loop(client._account)) != options.email:
        raise click.UsageError(f"the bot's own client is for the account {account}, and --email is {options.email}")


class _JSONFormatter(logging.Formatter):
    """Formatter that writes a record as one JSON object: time, level, logger, message, extra fields, and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _LOG_FIELDS}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def _log_as_json() -> None:
    """Write the log and Python's warnings to standard error as JSON lines; a handler of `-v` is replaced."""
    package = logging.getLogger("freight_exchange")
    for handler in [handler for handler in package.handlers if not isinstance(handler, logging.NullHandler)]:
        package.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JSONFormatter())
    # The root logger: records of the bot's own modules and of libraries are JSON too.
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(capture=True)
    if package.level == logging.NOTSET:
        package.setLevel(logging.INFO)


# Status


@bot.command
@click.option(
    "--check",
    type=click.FloatRange(min=0, min_open=True),
    metavar="[MINUTES]",
    is_flag=False,
    flag_value=15.0,
    help="End with status 69 unless the bot runs, has covered the last MINUTES (15), and needs no person: for cron.",
)
@opt.store
@opt.as_json
def status(store: str, name: str | None, check: float | None, out: Out) -> None:
    """Show the status of a bot, as recorded in its file or database.

    $ bot status --store bot.db
    $ bot status --store postgresql://bots@db.internal/freight
    """
    report = BotFile(store, name=name).status()
    if out.format:
        out.json({field: getattr(report, field) for field in _STATUS_FIELDS})
    else:
        _print_status(report, out)
    if check is not None and (problems := [*_problems(report, timedelta(minutes=check))]):
        raise Failure(f"the bot {report.name} needs attention: {'; '.join(problems)}", Status.UNAVAILABLE)


def _problems(report: StoreStatus, age: timedelta) -> Iterator[str]:
    covered = report.covered_until
    if not report.holder:
        yield "it is not running"
    if covered is None or covered < datetime.now(UTC) - age:
        yield "it has covered nothing yet" if covered is None else f"it covers nothing after {_until(covered)}"
    for count, noun in ((report.parked, "parked"), (report.deliveries["dead"], "dead"), (len(report.gaps), "gaps")):
        if count:
            yield f"{count} {noun}"


def _until(covered: datetime | None) -> str:
    return "nothing yet" if covered is None else f"{covered:%Y-%m-%d %H:%M:%S} UTC"


def _print_status(report: StoreStatus, out: Out) -> None:
    unheld = "no process: the bot is not running"
    if report.replicas:
        unheld = "no replica: none of them scans now; if this lasts, their logs have the reason"
    offers, answers = report.offers, report.answers
    out.lines(
        [
            ("bot", report.name),
            ("service", report.base_url),
            ("account", report.account),
            ("held by", report.holder or unheld),
            ("replicas", ", ".join(report.replicas)),
            ("covered until", _until(report.covered_until)),
            ("events", f"{report.unacknowledged} unacknowledged"),
            ("deliveries", ", ".join(f"{count} {state}" for state, count in report.deliveries.items())),
            ("offers", f"{offers['confirmed']} made, {_other(offers)}"),
            ("answers", f"{answers['confirmed']} carried out, {_other(answers)}" if any(answers.values()) else None),
            ("parked", f"{report.parked}: a person has to decide" if report.parked else None),
            ("gaps", f"{len(report.gaps)} not acknowledged" if report.gaps else None),
        ]
    )


def _other(counts: Any) -> str:
    return f"{counts['refused']} refused, {counts['sending'] + counts['unknown']} in doubt"


@click.command(cls=opt.Command)
@click.argument("index", type=opt.index)
@opt.store
@opt.as_json
def explain(index: int, store: str, name: str | None, out: Out) -> None:
    """Show the deliveries of request INDEX to handlers, or why there is none yet, and its offers and answers.

    $ explain 4 --store bot.db
    """
    report = BotFile(store, name=name).explain(index)
    explanation = report.explanation
    if out.format:
        parts = {
            "deliveries": [
                dict(zip(("kind", "handler", "state", "error"), one, strict=True)) for one in report.deliveries
            ],
            "offers": [
                {name: getattr(offer, name) for name in ("revision", "state", "amount", "currency")}
                for offer in report.offers
            ],
            "answers": [
                {"kind": one.kind, "offer": one.offer, "state": one.state, "amount": one.amount}
                for one in report.answers
            ],
        }
        out.json(out.plain(explanation) | parts)
        return
    click.echo(f"{text_of(explanation)}.".replace("request", "Request", 1))
    if explanation.first_seen is not None:
        click.echo(f"First seen {explanation.first_seen:%Y-%m-%d %H:%M:%S} UTC.")
    for kind, handler, state, error in report.deliveries:
        click.echo(f"The handler {text_of(handler)} {_describe(state, error)} ({kind}).")
    if explanation.verdict == "handed-out" and not report.deliveries:
        click.echo("No handler has a delivery of it: none matched, or the record has expired.")
    for offer in report.offers:
        price = f"{offer.amount:f} (currency {offer.currency})"
        click.echo(f"The offer of {price}, revision {offer.revision}, is {offer.state}.")
    for answer in report.answers:
        price = "" if answer.amount is None else f" of {answer.amount:f} (currency {answer.currency})"
        click.echo(f"The {answer.kind} of offer {answer.offer}{price}, by {answer.handler}, is {answer.state}.")


def _describe(state: str, error: str | None) -> str:
    if error is not None and state == "ready":
        return f"will be called again, after {text_of(error)}"
    return f"{_STATES[state]}, with {text_of(error)}" if error is not None and state == "dead" else _STATES[state]
