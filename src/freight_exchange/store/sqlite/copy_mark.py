"""Marks of a file that is copied into a database: "begun" before the copy is committed, and "moved" after that.

A bot refuses a file with either mark. If the reply to the commit is lost, only a second run can find out whether the
database has the copy. Until then, the file identifies the copy.
"""

from __future__ import annotations

import sqlite3

import attrs

from freight_exchange.store.sqlite.connection import transaction
from freight_exchange.store.sqlite.schema import APPLICATION_ID, COPYING_ID, MOVED_ID

__all__ = ["BegunCopy", "mark_absent", "mark_begun", "mark_moved", "read_begun"]


@attrs.frozen(kw_only=True)
class BegunCopy:
    """A copy that was begun. The database may or may not have it.

    Attributes:
        id: Its identity, which the database stores with the copy.
        database: Identity of the database.
        address: Description of the database for messages, without the password.
    """

    id: str
    database: str
    address: str


def read_begun(connection: sqlite3.Connection) -> BegunCopy | None:
    """Return the copy of the file that was begun, or `None`."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != COPYING_ID:
        return None
    id, database, address = connection.execute("SELECT id, database, address FROM copy").fetchone()
    return BegunCopy(id=id, database=database, address=address)


def mark_begun(connection: sqlite3.Connection, path: str, copy: BegunCopy) -> None:
    """Mark the file: from now on, the database may have a copy of it."""
    with transaction(connection, path):
        connection.execute("CREATE TABLE copy (id TEXT NOT NULL, database TEXT NOT NULL, address TEXT NOT NULL)")
        connection.execute("INSERT INTO copy VALUES (?, ?, ?)", (copy.id, copy.database, copy.address))
        connection.execute(f"PRAGMA application_id = {COPYING_ID}")


def mark_absent(connection: sqlite3.Connection, path: str) -> None:
    """Remove the mark "begun". Call it only if no database has the copy, and its transaction has ended."""
    with transaction(connection, path):
        connection.execute("DROP TABLE copy")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def mark_moved(connection: sqlite3.Connection, path: str) -> None:
    """Mark the file: the database has a copy of it."""
    with transaction(connection, path):
        connection.execute(f"PRAGMA application_id = {MOVED_ID}")
