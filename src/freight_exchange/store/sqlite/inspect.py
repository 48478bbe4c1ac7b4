"""A store's file, looked into from outside: whoever holds it goes on, and nothing in it changes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import attrs

from freight_exchange.errors import StoreError
from freight_exchange.store.lock import Holder
from freight_exchange.store.protocol import Binding
from freight_exchange.store.sqlite.diagnostics import telling, unbroken, usable
from freight_exchange.store.sqlite.schema import VERSION, recognised

__all__ = ["KeptFeed", "feeds", "looking_into", "reading"]


@attrs.frozen(kw_only=True)
class KeptFeed:
    """A feed in a file.

    Attributes:
        number: Its number in the file.
        binding: What it belongs to.
        state: What it last committed, or `None` before its first commit.
        holder: Who holds it now, as far as this machine can tell; `None` for nobody.
    """

    number: int
    binding: Binding
    state: str | None
    holder: Holder | None


def reading(file: Path) -> contextlib.closing[sqlite3.Connection]:
    """A connection that cannot write, not even what a log has for the file."""
    address = f"file:{quote(str(file))}?mode=ro"
    return contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None))


@contextlib.contextmanager
def looking_into(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A connection that sees the file as it is at one moment, and cannot write.

    Raises:
        StoreError: There is no store of this version there, or it cannot be read.
    """
    file = Path(os.path.realpath(path))
    with telling(str(file)):
        log_is_left = usable(file)
        if not file.exists():
            raise StoreError(f"there is no store {file}: a bot, or a watch with a store, makes it")
        if log_is_left:
            _unbroken(file)
        with reading(file) as connection:
            version = recognised(connection, str(file))
            if version < VERSION:
                raise StoreError(f"the store {file} was last used by an older version: run its bot once with this one")
            connection.execute("BEGIN")
            yield connection


def _unbroken(file: Path) -> None:
    """As `unbroken`, of a store that somebody may have open: a log that begins anew just then looks broken, once."""
    try:
        unbroken(file)
    except StoreError:
        unbroken(file)


def feeds(connection: sqlite3.Connection) -> list[KeptFeed]:
    """The feeds in a file, in the order in which they came there."""
    rows = connection.execute("SELECT id, name, base_url, account, state, holder, lease_until FROM feed ORDER BY id")
    return [
        KeptFeed(
            number=number,
            binding=Binding(base_url, account, name),
            state=state,
            holder=_present(Holder.read(note), until),
        )
        for number, name, base_url, account, state, note, until in rows
    ]


def _present(holder: Holder | None, until: float) -> Holder | None:
    """The holder, unless it is gone: one that was killed has left its note."""
    if holder is None or until <= time.time() or holder.is_gone(Holder.here()):
        return None
    return holder
