"""Commands `store migrate` and `store copy`: the database of a fleet."""

from __future__ import annotations

from typing import Any, Final

import click

from freight_exchange.cli.options import STORE_FILE, json_option, yes_option
from freight_exchange.cli.render.record import print_result
from freight_exchange.cli.terminal import confirm, require_confirmation
from freight_exchange.store.database_url import is_database
from freight_exchange.store.factory import make_store

__all__ = ["store"]

_REPLY_TIMEOUT: Final = 300.0
"""Time limit of a statement of a migration, in seconds. A new index on millions of rows takes long."""


class _Database(click.ParamType):  # type: ignore[type-arg]  # generic only in recent releases of click
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not is_database(value):
            # The value may have a password.
            self.fail("give the URL of a database, such as postgresql://bots@db.internal/freight", param, ctx)
        # Checks the address, and that the extra is installed.
        make_store(value)
        return value


_DATABASE = _Database()


@click.group
def store() -> None:
    """Prepare the database of a fleet of bots.

    Give the password in a way that libpq supports: in PGPASSWORD, .pgpass or a service file.
    """


@store.command
@click.argument("database", metavar="URL", type=_DATABASE)
@yes_option
@json_option
def migrate(database: str, yes: bool, as_json: bool) -> None:
    """Create or migrate the schema in the database at URL.

    The schema is called freight_exchange. A bot does the same when it starts, if its database user has the
    right. Bots of the previous version keep working.

    \b
    Example:
      freight-exchange store migrate postgresql://bots@db.internal/freight
    """
    from freight_exchange.store.postgres import schema
    from freight_exchange.store.postgres.connection import DatabaseConnection

    require_confirmation(yes=yes, action="changed")
    connection = DatabaseConnection(database, reply_timeout=_REPLY_TIMEOUT)
    try:
        before = schema.read_version(connection)
        if before < schema.VERSION:
            confirm(
                f"Migrate {connection.address} from version {before} to {schema.VERSION}?", yes=yes, action="changed"
            )
            schema.prepare(connection)
    finally:
        connection.close()
    after = max(before, schema.VERSION)
    sentence = f"The schema has version {after}; it had {before or 'none'}."
    if before >= schema.VERSION:
        sentence = f"The schema has version {before} already."
    print_result(sentence, {"before": before, "after": after}, as_json=as_json)


@store.command
@click.argument("file", type=STORE_FILE)
@click.argument("database", metavar="URL", type=_DATABASE)
@yes_option
@json_option
def copy(file: str, database: str, yes: bool, as_json: bool) -> None:
    """Copy the bots and feeds of FILE into the empty database at URL.

    Stop the bot first. The command verifies the copy and marks FILE as moved, so that no bot starts with it again. If
    the command is interrupted, run it again.

    \b
    Example:
      freight-exchange store copy bot.db postgresql://bots@db.internal/freight
    """
    from freight_exchange.store.postgres.copy import copy_file

    require_confirmation(yes=yes, action="changed")
    confirm(f"Copy {file} into the database, and mark the file as moved?", yes=yes, action="changed")
    counts = copy_file(file, database)
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    print_result(f"Copied and verified: {listed}. The file is marked as moved.", dict(counts), as_json=as_json)
