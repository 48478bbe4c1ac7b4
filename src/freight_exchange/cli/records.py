"""Commands on a bot's store: `bot dead`, `bot doubts`, `bot gaps`, `store migrate` and `store copy`.

`dead drop` and `bot backup FILE` belong here, once the store has them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import click

from freight_exchange import DeadLetter, Doubt, Gap
from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.cli import options as opt
from freight_exchange.cli.run import Failure, Status, confirm, run, warn, yes_option
from freight_exchange.cli.show import Out, csv_columns
from freight_exchange.errors import ValidationError
from freight_exchange.store.database_url import is_database

__all__ = ["dead", "doubts", "gaps", "store"]

_REPLY_TIMEOUT: Final = 300.0
"""Time limit of a statement of a migration, in seconds. A new index on millions of rows takes long."""


def _ask(question: str, *, yes: bool) -> None:
    run(partial(confirm, question, yes=yes, effect="changed"))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@click.group(cls=opt.Group)
def dead() -> None:
    """Dead letters: deliveries whose handler failed too often."""


@dead.command("list")
@opt.store
@opt.as_json
@opt.as_csv
def list_dead(store: str, name: str | None, out: Out) -> None:
    """List the dead letters, the oldest first.

    \b
    Example:
      freight-exchange bot dead list --store bot.db
    """
    letters = BotFile(store, name=name).dead_letters()
    out.records(letters, "There are no dead letters.", csv_columns(DeadLetter))


@dead.command
@click.argument("event", type=opt.index, required=False)
@click.argument("handler", required=False)
@click.option("--all", "replays_all", is_flag=True, help="Replay all dead letters.")
@opt.store
@yes_option("changed")
@opt.as_json
def replay(
    store: str, name: str | None, event: int | None, handler: str | None, replays_all: bool, yes: bool, out: Out
) -> None:
    """Call HANDLER again for EVENT.

    The bot calls it as if for the first time, as soon as it runs. Fix the handler first. If the store is a file, stop
    the bot first too.

    \b
    Examples:
      freight-exchange bot dead replay 17 quote --store bot.db
      freight-exchange bot dead replay --all --store bot.db
    """
    if replays_all == (event is not None) or (event is None) != (handler is None):
        raise click.UsageError("give the EVENT and the HANDLER of one dead letter, or --all")
    file = BotFile(store, name=name)
    letters = [one for one in file.dead_letters() if replays_all or (one.event, one.handler) == (event, handler)]
    if not (letters or replays_all):
        message = f"there is no dead letter of event {event} and handler {handler}: see `bot dead list`"
        raise Failure(message, Status.NOT_FOUND)
    count = _count(len(letters), "dead letter")
    if letters:
        _ask(f"Deliver {count} again?", yes=yes)
    for letter in letters:
        file.replay(letter.event, letter.handler)
    sentence = f"The bot delivers {count} again, as soon as it runs." if letters else "There are no dead letters."
    out.result(sentence, {"replayed": len(letters)})


@click.group(cls=opt.Group)
def doubts() -> None:
    """Offers, approvals and declines in doubt.

    The service may or may not have carried them out.
    """


@doubts.command("list")
@opt.store
@opt.as_json
@opt.as_csv
def list_doubts(store: str, name: str | None, out: Out) -> None:
    """List the offers, approvals and declines in doubt.

    Offers come before approvals and declines, the oldest first. The parked ones need your decision; the bot resolves
    the others.

    \b
    Example:
      freight-exchange bot doubts list --store bot.db
    """
    out.records(BotFile(store, name=name).doubts(), "There are no offers in doubt.", csv_columns(Doubt))


@doubts.command
@click.argument("request", type=opt.index)
@click.option("--taken/--not-taken", default=None, help="Whether the service shows the offer on its website.")
@click.option("--revision", type=click.IntRange(min=0), default=0, show_default=True, help="Revision of your offer.")
@click.option("--offer", type=opt.index, help="The offer of another that you approved or declined.")
@opt.store
@yes_option("changed")
@opt.as_json
def resolve(
    store: str,
    name: str | None,
    request: int,
    taken: bool | None,
    revision: int,
    offer: int | None,
    yes: bool,
    out: Out,
) -> None:
    """Record whether the service took an offer in doubt.

    The command is about your offer on REQUEST or, with --offer, about your approval or decline of another's offer.
    Check the service's website first: after --not-taken, the bot may send it again. In a database, --not-taken waits
    for 20 seconds if the service may still receive it.

    \b
    Examples:
      freight-exchange bot doubts resolve 4 --taken --store bot.db
      freight-exchange bot doubts resolve 4 --offer 5001 --not-taken --store tender.db
    """
    if taken is None:
        raise click.UsageError("give --taken or --not-taken")
    subject = "The offer" if offer is None else f"The answer to offer {offer}"
    effect = "it counts as made" if taken else "it may be made again"
    _ask(f"{subject} on request {request} is {'' if taken else 'not '}there, and {effect}?", yes=yes)
    try:
        is_certain = BotFile(store, name=name).resolve(
            request, taken=taken, revision=revision, offer=offer, on_wait=warn
        )
    except ValidationError as error:
        # The options are valid, so there is no such doubt.
        raise Failure(str(error), Status.NOT_FOUND) from error
    if not is_certain:
        effect = "the bot may not make it again: replay its dead letter, if there is one, or make it by hand"
    elif not taken:
        effect = "its handler makes it again, if the bot still has that handler"
    about = {"revision": revision} if offer is None else {"offer": offer}
    out.result(f"Noted: {effect}.", {"request": request, **about, "taken": taken})


@click.group(cls=opt.Group)
def gaps() -> None:
    """Gaps: periods without a scan, which may lack requests."""


@gaps.command("list")
@opt.store
@opt.as_json
@opt.as_csv
def list_gaps(store: str, name: str | None, out: Out) -> None:
    """List the gaps that were not acknowledged.

    Check the requests of these periods on the service's website.

    \b
    Example:
      freight-exchange bot gaps list --store bot.db
    """
    out.records(BotFile(store, name=name).gaps(), "There are no gaps.", csv_columns(Gap))


@gaps.command
@opt.store
@yes_option("changed")
@opt.as_json
def ack(store: str, name: str | None, yes: bool, out: Out) -> None:
    """Acknowledge the gaps, after you have checked their requests.

    \b
    Example:
      freight-exchange bot gaps ack --store bot.db
    """
    file = BotFile(store, name=name)
    if count := len(file.gaps()):
        _ask(f"Acknowledge {_count(count, 'gap')}?", yes=yes)
        count = file.acknowledge_gaps()
        out.result(f"{_count(count, 'gap')} acknowledged.", {"acknowledged": count})
    else:
        out.result("There are no gaps.", {"acknowledged": 0})


# Databases of fleets


class _Database(click.ParamType):  # type: ignore[type-arg]  # generic only in recent releases of click
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not is_database(value):
            self.fail("give the URL of a database, such as postgresql://bots@db.internal/freight", param, ctx)
        from freight_exchange.store.factory import make_store

        # Checks the address, and that the extra is installed.
        make_store(value)
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

    The schema is called freight_exchange. A bot does the same when it starts, if its database user has the
    right. Bots of the previous version keep working.

    \b
    Example:
      freight-exchange store migrate postgresql://bots@db.internal/freight
    """
    from freight_exchange.store.postgres import schema
    from freight_exchange.store.postgres.connection import DatabaseConnection

    connection = DatabaseConnection(database, reply_timeout=_REPLY_TIMEOUT)
    try:
        before = schema.read_version(connection)
        if before < schema.VERSION:
            _ask(f"Migrate {connection.address} from version {before} to {schema.VERSION}?", yes=yes)
            schema.prepare(connection)
    finally:
        connection.close()
    after = max(before, schema.VERSION)
    sentence = f"The schema has version {after}; it had {before or 'none'}."
    if before >= schema.VERSION:
        sentence = f"The schema has version {before} already."
    out.result(sentence, {"before": before, "after": after})


@store.command
@click.argument("file", type=opt.file_path)
@click.argument("database", metavar="URL", type=_Database())
@yes_option("changed")
@opt.as_json
def copy(file: str, database: str, yes: bool, out: Out) -> None:
    """Copy the bots and feeds of FILE into the empty database at URL.

    Stop the bot first. The command verifies the copy and marks FILE as moved, so that no bot starts with it again. If
    the command is interrupted, run it again.

    \b
    Example:
      freight-exchange store copy bot.db postgresql://bots@db.internal/freight
    """
    from freight_exchange.store.postgres.copy import copy_file

    if is_database(file):
        # It may have a password.
        raise click.UsageError("give the path of a file, not the address of a database")
    _ask(f"Copy {file} into the database, and mark the file as moved?", yes=yes)
    counts = copy_file(file, database)
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    out.result(f"Copied and verified: {listed}. The file is marked as moved.", dict(counts))
