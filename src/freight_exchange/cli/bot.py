"""Commands `bot` and `explain`, on a bot and its store, and `store copy`."""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import click

import freight_exchange
from freight_exchange.cli import options as opt
from freight_exchange.cli.client import Command, Group
from freight_exchange.cli.run import Failure, Status, confirm, run
from freight_exchange.cli.show import Out, counted, csv_columns, text_of
from freight_exchange.errors import ValidationError

if TYPE_CHECKING:
    from freight_exchange import Bot
    from freight_exchange.bot.admin import BotFile
    from freight_exchange.bot.status import StoreStatus

_EXPORTED: Final = {"url", "email", "get_parameters", "addresses", "currency_field", "carrier_field"}
_LOG_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_STATES: Final = {
    "ready": "will be called",
    "claimed": "is running",
    "done": "is done",
    "dead": "failed for the last time",
}


@click.group(cls=Group)
def bot() -> None:
    """Run a bot, and manage its store.

    The store is a file, or the database of a fleet. All commands work beside a running bot, which notices a change
    within a second.
    """


def _open(store: str, name: str | None) -> BotFile:
    from freight_exchange.bot.admin import BotFile

    return BotFile(store, name=name)


def _ask(question: str, out: Out) -> None:
    if not out.yes:
        run(partial(confirm, question, "changed"))


@bot.command("run", prints_json=False)
@click.argument("target", metavar="MODULE:BOT")
@opt.choice("--backend", ["asyncio", "trio"], "Async library that runs the bot.")
@opt.choice("--log-format", ["text", "json"], "Format of the log on standard error; json: an object per line.")
@click.pass_obj
def run_bot(
    options: opt.Options, /, target: str, backend: Literal["asyncio", "trio"], log_format: Literal["text", "json"]
) -> None:
    """Run the bot BOT of a Python module.

    BOT is a bot, or a function that makes one. The module may be in the current directory. Ctrl-C or SIGTERM drain the
    bot. The service and the account come from the environment or from the options before the command, with which a
    client of the bot's own must agree. The password must be in the environment: the bot logs in again.

    $ bot run my_bot:bot
    $ bot run my_bot:make_bot
    """
    given = {name: value for name, value in attrs.asdict(options).items() if value is not None}
    if other := given.keys() - _EXPORTED:
        raise click.UsageError(f"bot run does not support {opt.name_of(min(other))}: set it on the bot's own client")
    if log_format == "json":
        _log_as_json()
    # Every command respects HTTPS_PROXY and SSL_CERT_FILE.
    trust = {"FREIGHT_EXCHANGE_TRUST_ENV": os.environ.get("FREIGHT_EXCHANGE_TRUST_ENV") or "1"}
    exported = trust | {f"FREIGHT_EXCHANGE_{name.upper()}": value for name, value in given.items()}
    # Before the import, as the module may create a client; and after it, as the module may change the environment.
    os.environ.update(exported)
    loaded = _load(target)
    os.environ.update(exported)
    if (client := loaded._exchange) is not None:
        from freight_exchange.config import base_url

        url, account = client._base_url, run(client._account) if options.email else None
        if options.url and base_url(options.url) != url:
            raise click.UsageError(f"the bot's own client is for {url}, and --url is {options.url}")
        if account != options.email:
            raise click.UsageError(f"the bot's own client is for {account}, and --email is {options.email}")
    loaded.run(backend=backend)


def _load(target: str) -> Bot:
    from freight_exchange import Bot
    from freight_exchange.bot.process import importing

    module, _, attribute = target.partition(":")
    if not (attribute and all(module.split("."))):
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
        loaded = loaded()
    if not isinstance(loaded, Bot):
        raise click.UsageError(f"{module} has no Bot named {attribute!r}, and no function of that name that makes one")
    return loaded


class _JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"time": time, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        fields |= {name: value for name, value in vars(record).items() if name not in _LOG_FIELDS}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def _log_as_json() -> None:
    package = logging.getLogger("freight_exchange")
    package.handlers = [one for one in package.handlers if isinstance(one, logging.NullHandler)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JSONFormatter())
    # The root logger: records of the bot's own modules and of libraries are JSON too.
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(capture=True)
    if package.level == logging.NOTSET:
        package.setLevel(logging.INFO)


@bot.command
@click.option(
    "--check",
    type=click.FloatRange(min=0, min_open=True),
    metavar="[MINUTES]",
    is_flag=False,
    flag_value=15.0,
    help="Print what needs a person and end with status 69, or print nothing: for cron. The bot has to run, and to have"
    " covered the last MINUTES (15).",
)
@opt.store
def status(store: str, name: str | None, check: float | None, out: Out) -> None:
    """Show the status of a bot, as recorded in its file or database.

    $ bot status --store bot.db
    $ bot status --store postgresql://bots@db.internal/freight
    """
    report = _open(store, name).status()
    if out.format:
        out.json({**attrs.asdict(report, recurse=False), "parked": report.parked})
    elif check is None:
        out.lines([*_status_lines(report)])
    if check is not None and (problems := [*_problems(report, timedelta(minutes=check))]):
        raise Failure(f'the bot "{report.name}" needs attention: {"; ".join(problems)}', Status.UNAVAILABLE)


def _problems(report: StoreStatus, age: timedelta) -> Iterator[str]:
    if not report.holder:
        yield "it is not running"
    if report.covered_until is None or report.covered_until < datetime.now(UTC) - age:
        yield f"covered until {text_of(report.covered_until) or 'nothing yet'}"
    counts = (f"{report.parked} parked", f"{report.deliveries['dead']} dead", counted(len(report.gaps), "gap"))
    yield from (count for count in counts if not count.startswith("0 "))


def _status_lines(report: StoreStatus) -> Iterator[tuple[str, object]]:
    unheld = "no process: the bot is not running"
    if report.replicas:
        unheld = "no replica: none of them scans now; if this lasts, their logs have the reason"
    yield from (("bot", report.name), ("service", report.base_url), ("account", report.account))
    yield from (("held by", report.holder or unheld), ("replicas", ", ".join(report.replicas)))
    yield "covered until", text_of(report.covered_until) or "nothing yet"
    yield "events", f"{report.unacknowledged} unacknowledged"
    yield "deliveries", ", ".join(f"{count} {state}" for state, count in report.deliveries.items())
    for name, done, counts in (("offers", "made", report.offers), ("answers", "carried out", report.answers)):
        if name == "offers" or any(counts.values()):
            doubtful = counts["sending"] + counts["unknown"]
            yield name, f"{counts['confirmed']} {done}, {counts['refused']} refused, {doubtful} in doubt"
    yield "parked", f"{report.parked}: a person has to decide" if report.parked else None
    yield "gaps", f"{len(report.gaps)} not acknowledged" if report.gaps else None


@click.command(cls=Command)
@click.argument("index", type=opt.index)
@opt.store
def explain(index: int, store: str, name: str | None, out: Out) -> None:
    """Show what a bot did with request INDEX.

    These are its deliveries to handlers, or why there is none yet, and its offers and answers.

    $ explain 4 --store bot.db
    """
    report = _open(store, name).explain(index)
    explanation = report.explanation
    if out.format:
        names = ("kind", "handler", "state", "error")
        deliveries = [dict(zip(names, one, strict=True)) for one in report.deliveries]
        ledger = {name: [*map(attrs.asdict, getattr(report, name))] for name in ("offers", "answers")}
        out.json({**out.plain(explanation), "deliveries": deliveries, **ledger})
        return
    click.echo(f"{text_of(explanation)}.".replace("request", "Request", 1))
    if explanation.first_seen is not None:
        click.echo(f"First seen {explanation.first_seen:%Y-%m-%d %H:%M:%S} UTC.")
    for kind, handler, state, error in report.deliveries:
        # An earlier error of a delivery that ended well is of no interest.
        reason = {"ready": f" again, after {text_of(error)}", "dead": f", with {text_of(error)}"}.get(state, "")
        click.echo(f"The handler {text_of(handler)} {_STATES[state]}{reason if error else ''} ({kind}).")
    if explanation.verdict == "handed-out" and not report.deliveries:
        click.echo("No handler has a delivery of it: none matched, or the record has expired.")
    for entry in [*report.offers, *report.answers]:
        price = "" if entry.amount is None else f" of {entry.amount:f} (currency {entry.currency})"
        if entry.offer is None:
            click.echo(f"The offer{price}, revision {entry.revision}, is {entry.state}.")
        else:
            click.echo(f"The {entry.kind} of offer {entry.offer}{price}, by {entry.handler}, is {entry.state}.")


def _add_list(group: click.Group, record: str, method: str, noun: str, help: str) -> None:
    @group.command("list", help=f"{help}\n\n$ bot {group.name} list --store bot.db")
    @opt.store
    @opt.as_csv
    def command(store: str, name: str | None, out: Out) -> None:
        records = getattr(_open(store, name), method)()
        out.records(records, f"There are no {noun}.", csv_columns(getattr(freight_exchange, record)))


@bot.group
def dead() -> None:
    """Dead letters: deliveries whose handler failed too often."""


_add_list(dead, "DeadLetter", "dead_letters", "dead letters", "List the dead letters, oldest first.")


def _add_change(verb: str, done: str, help: str) -> None:
    examples = f"$ bot dead {verb} 17 quote --store bot.db\n$ bot dead {verb} --all --store bot.db"

    @dead.command(verb, help=f"{help}\n\n{examples}")
    @click.argument("event", type=opt.index, required=False)
    @click.argument("handler", required=False)
    @click.option("--all", "every", is_flag=True, help="All dead letters.")
    @opt.store
    @opt.yes
    def command(store: str, name: str | None, event: int | None, handler: str | None, every: bool, out: Out) -> None:
        if every == (event is not None) or (event is None) != (handler is None):
            raise click.UsageError("give the EVENT and the HANDLER of one dead letter, or --all")
        file = _open(store, name)
        letters = [one for one in file.dead_letters() if every or (one.event, one.handler) == (event, handler)]
        if not (letters or every):
            message = f"there is no dead letter of event {event} and handler {handler}: see `bot dead list`"
            raise Failure(message, Status.NOT_FOUND)
        if letters:
            _ask(f"{verb.title()} {counted(len(letters), 'dead letter')}?", out)
        changed = sum(getattr(file, verb)(letter.event, letter.handler) for letter in letters)
        words = done.format(counted(changed, "dead letter")) if letters else "There are no dead letters."
        out.result(words, {"replayed" if verb == "replay" else "dropped": changed})


_REPLAY = "Call HANDLER again for EVENT, as if for the first time. Fix the handler first."
_add_change("replay", "The bot delivers {} again: within seconds, if it runs.", _REPLAY)
_add_change("drop", "Discarded {}.", "Discard a dead letter: HANDLER is never called for EVENT again.")


@bot.group
def doubts() -> None:
    """Offers, approvals and declines in doubt."""


_PARKED = "List the offers, approvals and declines in doubt.\n\nThe parked ones need your decision."
_add_list(doubts, "Doubt", "doubts", "offers in doubt", _PARKED)


@doubts.command
@click.argument("request", type=opt.index)
@click.option("--taken/--not-taken", default=None, help="Whether the service shows the offer on its website.")
@click.option("--revision", type=click.IntRange(min=0), default=0, show_default=True, help="Revision of your offer.")
@click.option("--offer", type=opt.index, help="The offer of another that you approved or declined.")
@opt.store
@opt.yes
def resolve(store: str, name: str | None, request: int, taken: bool | None, out: Out, **key: Any) -> None:
    """Record whether the service took an offer in doubt.

    It is about your offer on REQUEST or, with --offer, about your answer to another's. Check the service's website
    first: after --not-taken, the bot may send it again.

    $ bot doubts resolve 4 --taken --store bot.db
    $ bot doubts resolve 4 --offer 5001 --not-taken --store tender.db
    """
    if taken is None:
        raise click.UsageError("give --taken or --not-taken")
    subject = "The offer" if key["offer"] is None else f"The answer to offer {key['offer']}"
    effect = "it counts as made" if taken else "its handler makes it again, if the bot still has that handler"
    _ask(f"{subject} on request {request} is {'' if taken else 'not '}there, and {effect}?", out)
    try:
        _open(store, name).resolve(request, taken=taken, **key)
    except ValidationError as error:
        # The options are valid: there is no such doubt, or it is too early to say that it was not taken.
        raise Failure(str(error), Status.TRY_LATER if error.field == "taken" else Status.NOT_FOUND) from error
    about = {name: value for name, value in key.items() if (name == "offer") == (key["offer"] is not None)}
    out.result(f"Noted: {effect}.", {"request": request, **about, "taken": taken})


@bot.group
def gaps() -> None:
    """Gaps: periods without a scan, which may lack requests."""


_GAPS = "List the gaps that were not acknowledged.\n\nCheck the requests of these periods on the service's website."
_add_list(gaps, "Gap", "gaps", "gaps", _GAPS)


@gaps.command
@opt.store
@opt.yes
def ack(store: str, name: str | None, out: Out) -> None:
    """Acknowledge the gaps, after you have checked their requests.

    $ bot gaps ack --store bot.db
    """
    file = _open(store, name)
    if count := len(file.gaps()):
        _ask(f"Acknowledge {counted(count, 'gap')}?", out)
        count = file.acknowledge_gaps()
    out.result(f"{counted(count, 'gap')} acknowledged." if count else "There are no gaps.", {"acknowledged": count})


@bot.command
@click.argument("target", metavar="FILE")
@opt.store
def backup(store: str, name: str | None, target: str, out: Out) -> None:
    """Copy the file of a bot into the new FILE, at any time. A database is backed up with pg_dump.

    $ bot backup bot-backup.db --store bot.db
    """
    from freight_exchange.store import copy as copying

    run(partial(copying.backup, store, target))
    out.result(f"Copied {store} to {target}.", {"file": target})


@click.group(cls=Group)
def store() -> None:
    """Move a bot into the database of a fleet."""


@store.command
@click.argument("file")
@click.argument("database", metavar="URL")
@opt.yes
def copy(file: str, database: str, out: Out) -> None:
    """Copy the bot of FILE into the empty database at URL.

    Stop the bot first. The command verifies the copy and marks FILE as moved, so that no bot starts with it again.
    After an interruption, run it again. Give the password in PGPASSWORD, .pgpass or a service file.

    $ store copy bot.db postgresql://bots@db.internal/freight
    """
    from freight_exchange.store import copy as copying
    from freight_exchange.store.database_url import is_database

    # The address of a database may have a password: no message shows it.
    if is_database(file) or not is_database(database):
        raise click.UsageError("give the path of a file, and a URL such as postgresql://bots@db.internal/freight")
    _ask(f"Copy {file} into the database, and mark the file as moved?", out)
    counts = run(partial(copying.move, file, database))
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    out.result(f"Copied and verified: {listed}. The file is marked as moved.", dict(counts))
