"""Commands on a bot's store: `bot dead`, `bot doubts`, `bot gaps`, `bot backup`, `store migrate` and `store copy`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from freight_exchange import DeadLetter, Doubt, Gap
from freight_exchange.bot.admin import BotFile
from freight_exchange.cli import options as opt
from freight_exchange.cli.run import Failure, Status, confirm, run, warn, yes_option
from freight_exchange.cli.show import Out, counted, csv_columns
from freight_exchange.errors import ValidationError
from freight_exchange.store import copy as copying
from freight_exchange.store import schema
from freight_exchange.store.database import as_store
from freight_exchange.store.database_url import is_database

__all__ = ["backup", "dead", "doubts", "gaps", "store"]


def _ask(question: str, *, yes: bool) -> None:
    run(partial(confirm, question, yes=yes, effect="changed"))


def _add_list(
    group: click.Group, record: type, read: Callable[[BotFile], Sequence[Any]], empty: str, help: str
) -> None:
    @group.command("list", help=f"{help}\n\n$ bot {group.name} list --store bot.db")
    @opt.store
    @opt.as_json
    @opt.as_csv
    def command(store: str, name: str | None, out: Out) -> None:
        out.records(read(BotFile(store, name=name)), empty, csv_columns(record))


@click.group(cls=opt.Group)
def dead() -> None:
    """Dead letters: deliveries whose handler failed too often."""


_add_list(dead, DeadLetter, BotFile.dead_letters, "There are no dead letters.", "List the dead letters, oldest first.")


def _add_change(
    word: str, key: str, question: str, done: str, change: Callable[[BotFile, int, str], object], help: str
) -> None:
    @dead.command(
        word, help=f"{help}\n\n$ bot dead {word} 17 quote --store bot.db\n$ bot dead {word} --all --store bot.db"
    )
    @click.argument("event", type=opt.index, required=False)
    @click.argument("handler", required=False)
    @click.option("--all", "every", is_flag=True, help="All dead letters.")
    @opt.store
    @yes_option("changed")
    @opt.as_json
    def command(
        store: str, name: str | None, event: int | None, handler: str | None, every: bool, yes: bool, out: Out
    ) -> None:
        letters = _chosen(file := BotFile(store, name=name), event, handler, every=every)
        count = counted(len(letters), "dead letter")
        if letters:
            _ask(question.format(count), yes=yes)
        for letter in letters:
            change(file, letter.event, letter.handler)
        out.result(done.format(count) if letters else "There are no dead letters.", {key: len(letters)})


def _chosen(file: BotFile, event: int | None, handler: str | None, *, every: bool) -> list[DeadLetter]:
    if every == (event is not None) or (event is None) != (handler is None):
        raise click.UsageError("give the EVENT and the HANDLER of one dead letter, or --all")
    letters = [one for one in file.dead_letters() if every or (one.event, one.handler) == (event, handler)]
    if not (letters or every):
        message = f"there is no dead letter of event {event} and handler {handler}: see `bot dead list`"
        raise Failure(message, Status.NOT_FOUND)
    return letters


_add_change(
    "replay", "replayed", "Deliver {} again?", "The bot delivers {} again, as soon as it runs.", BotFile.replay,
    "Call HANDLER again for EVENT, as if for the first time. Fix the handler first.",
)  # fmt: skip
_add_change(
    "drop", "dropped", "Discard {}?", "Discarded {}.", BotFile.drop,
    "Discard a dead letter: HANDLER is never called for EVENT again.",
)  # fmt: skip


@click.group(cls=opt.Group)
def doubts() -> None:
    """Offers, approvals and declines in doubt.

    The service may or may not have carried them out.
    """


_add_list(
    doubts, Doubt, lambda file: sorted(file.doubts(), key=lambda one: (one.kind != "offer", one.since)),
    "There are no offers in doubt.",
    "List the offers, approvals and declines in doubt.\n\nThe parked ones need your decision;"
    " the bot resolves the others.",
)  # fmt: skip


@doubts.command
@click.argument("request", type=opt.index)
@click.option("--taken/--not-taken", default=None, help="Whether the service shows the offer on its website.")
@click.option("--revision", type=click.IntRange(min=0), default=0, show_default=True, help="Revision of your offer.")
@click.option("--offer", type=opt.index, help="The offer of another that you approved or declined.")
@opt.store
@yes_option("changed")
@opt.as_json
def resolve(store: str, name: str | None, request: int, taken: bool | None, yes: bool, out: Out, **key: Any) -> None:
    """Record whether the service took an offer in doubt.

    The command is about your offer on REQUEST or, with --offer, about your approval or decline of another's offer.
    Check the service's website first: after --not-taken, the bot may send it again. While no bot runs, --not-taken
    waits for 20 seconds if the service may still receive it.

    $ bot doubts resolve 4 --taken --store bot.db
    $ bot doubts resolve 4 --offer 5001 --not-taken --store tender.db
    """
    if taken is None:
        raise click.UsageError("give --taken or --not-taken")
    subject = "The offer" if key["offer"] is None else f"The answer to offer {key['offer']}"
    effect = "it counts as made" if taken else "it may be made again"
    _ask(f"{subject} on request {request} is {'' if taken else 'not '}there, and {effect}?", yes=yes)
    try:
        BotFile(store, name=name).resolve(request, taken=taken, **key, on_wait=warn)
    except ValidationError as error:
        # The options are valid: there is no such doubt, or it is too early to say that it was not taken.
        status = Status.TRY_LATER if error.field == "taken" else Status.NOT_FOUND
        raise Failure(str(error), status) from error
    if not taken:
        effect = "its handler makes it again, if the bot still has that handler"
    about = {name: value for name, value in key.items() if (name == "offer") == (key["offer"] is not None)}
    out.result(f"Noted: {effect}.", {"request": request, **about, "taken": taken})


@click.group(cls=opt.Group)
def gaps() -> None:
    """Gaps: periods without a scan, which may lack requests."""


_add_list(
    gaps, Gap, BotFile.gaps, "There are no gaps.",
    "List the gaps that were not acknowledged.\n\nCheck the requests of these periods on the service's website.",
)  # fmt: skip


@gaps.command
@opt.store
@yes_option("changed")
@opt.as_json
def ack(store: str, name: str | None, yes: bool, out: Out) -> None:
    """Acknowledge the gaps, after you have checked their requests.

    $ bot gaps ack --store bot.db
    """
    file = BotFile(store, name=name)
    if count := len(file.gaps()):
        _ask(f"Acknowledge {counted(count, 'gap')}?", yes=yes)
        count = file.acknowledge_gaps()
        out.result(f"{counted(count, 'gap')} acknowledged.", {"acknowledged": count})
    else:
        out.result("There are no gaps.", {"acknowledged": 0})


@click.command(cls=opt.Command)
@click.argument("target", metavar="FILE", type=opt.file_path)
@opt.store
@opt.as_json
def backup(store: str, name: str | None, target: str, out: Out) -> None:
    """Copy the file of a bot into the new FILE, at any time. A database is backed up with pg_dump.

    $ bot backup bot-backup.db --store bot.db
    """
    run(partial(copying.backup, store, target))
    out.result(f"Copied {store} to {target}.", {"file": target})


# Databases of fleets


class _Database(click.ParamType):  # type: ignore[type-arg]  # generic only in recent releases of click
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not is_database(value):
            self.fail("give the URL of a database, such as postgresql://bots@db.internal/freight", param, ctx)
        as_store(value)  # checks the address, and that the extra is installed
        return value


@click.group(cls=opt.Group)
def store() -> None:
    """Prepare the database of a fleet of bots.

    Give the password in a way that libpq supports: in PGPASSWORD, .pgpass or a service file.
    """


@store.command
@click.argument("database", metavar="URL", type=_Database())
@yes_option("changed")
@opt.as_json
def migrate(database: str, yes: bool, out: Out) -> None:
    """Create or migrate the schema in the database at URL.

    The schema is called freight_exchange. A bot does the same when it starts, if its database user has the right.

    $ store migrate postgresql://bots@db.internal/freight
    """
    db = as_store(database).database
    try:
        with db.transaction():
            before = schema.find_version(db, db.tables())
        if before < schema.VERSION:
            _ask(f"Migrate {db.place} from version {before} to {schema.VERSION}?", yes=yes)
            db.open()
    finally:
        db.close()
    after = max(before, schema.VERSION)
    sentence = f"The schema has version {after}; it had {before or 'none'}."
    if before >= schema.VERSION:
        sentence = f"The schema has version {before} already."
    out.result(sentence, {"before": before, "after": after})


@store.command
@click.argument("file", type=opt.file_path)
@click.argument("database", metavar="URL", type=_Database())
@click.option("--name", help="Name of the bot, if the file has several.")
@yes_option("changed")
@opt.as_json
def copy(file: str, database: str, name: str | None, yes: bool, out: Out) -> None:
    """Copy the bot of FILE into the empty database at URL.

    Stop the bot first. The command verifies the copy and marks FILE as moved, so that no bot starts with it again. If
    the command is interrupted, run it again.

    $ store copy bot.db postgresql://bots@db.internal/freight
    """
    if is_database(file):
        # It may have a password.
        raise click.UsageError("give the path of a file, not the address of a database")
    _ask(f"Copy {file} into the database, and mark the file as moved?", yes=yes)
    counts = run(partial(copying.move, file, database, name=name))
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    out.result(f"Copied and verified: {listed}. The file is marked as moved.", dict(counts))
