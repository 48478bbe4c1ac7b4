"""Databases on one server that a bot cannot use, each with the reason. Each address has a password."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final
from urllib.parse import quote

import attrs
import psycopg
import pytest
from tests.unit.store.postgres.databases import server
from tests.unit.store.rows import BINDING, LEASE

from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres import connection

__all__ = ["MARK", "PASSWORD", "Unusable", "address", "contents", "unusable", "wants_password"]

# With the characters that an address escapes.
PASSWORD: Final = "c4nary:/é% &"
MARK: Final = "c4nary"
_DATABASE: Final = "refusing"


@attrs.frozen
class Unusable:
    """Database that cannot be used.

    Attributes:
        address: Its address, with a password.
        reason: A part of the sentence that says why.
        status: The same where a command only reads; `None` if it may.
        is_away: Whether it may be usable later.
    """

    address: str = attrs.field(repr=False)
    reason: str
    status: str | None = attrs.field(default=attrs.Factory(lambda self: self.reason, takes_self=True))
    is_away: bool = False


@pytest.fixture(
    params=[
        "no server", "no database", "wrong password", "no rights", "no rights on tables", "newer schema",
        "foreign schema", "read-only", "too old", "other encoding", "no encryption", "unknown setting",
    ]
)  # fmt: skip
def unusable(request: pytest.FixtureRequest) -> Iterator[Unusable]:
    """Yield each of the databases."""
    _run("postgres", f"DROP DATABASE IF EXISTS {_DATABASE}")
    _run("postgres", f"CREATE DATABASE {_DATABASE}")
    wants_password()
    with _MAKERS[request.param]() as made:
        yield made


def address(user: str = "postgres", password: str = PASSWORD) -> str:
    """Return the address of the database, with a password."""
    return server().url(_DATABASE).replace("postgres@", f"{user}:{quote(password, safe='')}@")


def contents() -> list[tuple[str, int]]:
    """Return the relations of the package's schema, with the number of rows of each."""
    names = _run(
        _DATABASE,
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('freight_exchange') AND relkind = 'r'"
        " ORDER BY 1",
    )
    return [(name, _run(_DATABASE, f"SELECT count(*) FROM freight_exchange.{name}")[0][0]) for (name,) in names]


@cache
def wants_password() -> None:
    """Make the server ask the user `bots` for a password."""
    rules = server().data / "pg_hba.conf"
    rules.write_text(f"host all bots 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    _run("postgres", "CREATE ROLE bots LOGIN PASSWORD 'right'")
    _run("postgres", "CREATE ROLE guest LOGIN")
    _run("postgres", "SELECT pg_reload_conf()")


def _run(database: str, statement: str) -> list[Any]:
    with psycopg.connect(server().url(database), autocommit=True) as session:
        cursor = session.execute(statement)
        return cursor.fetchall() if cursor.description else []


def _fill() -> None:
    """Make the schema, with a feed in it."""
    PostgresStore(server().url(_DATABASE)).open(BINDING, lease=LEASE).release()


@contextlib.contextmanager
def _no_server() -> Iterator[Unusable]:
    yield Unusable(
        f"postgresql://bots:{quote(PASSWORD, safe='')}@127.0.0.1:1/freight", "cannot be reached", is_away=True
    )


@contextlib.contextmanager
def _no_database() -> Iterator[Unusable]:
    yield Unusable(address().replace(_DATABASE, "nothing"), "does not exist: create it, or correct its name")


@contextlib.contextmanager
def _wrong_password() -> Iterator[Unusable]:
    yield Unusable(address("bots"), "refused the login: correct the user or the password")


@contextlib.contextmanager
def _no_rights() -> Iterator[Unusable]:
    yield Unusable(address("guest"), "grant this user CREATE on the database once", status="there is no store in")


@contextlib.contextmanager
def _no_rights_on_tables() -> Iterator[Unusable]:
    _fill()
    _run(_DATABASE, "GRANT USAGE ON SCHEMA freight_exchange TO guest")
    yield Unusable(address("guest"), "or all rights on the schema freight_exchange and its tables")


@contextlib.contextmanager
def _newer_schema() -> Iterator[Unusable]:
    _fill()
    _run(_DATABASE, "INSERT INTO freight_exchange.migration (version) VALUES (99)")
    yield Unusable(address(), "was migrated by a newer version of this package (schema 99")


@contextlib.contextmanager
def _foreign_schema() -> Iterator[Unusable]:
    _run(_DATABASE, "CREATE SCHEMA freight_exchange CREATE TABLE parcel (id integer)")
    yield Unusable(address(), "belongs to another program: give another database")


@contextlib.contextmanager
def _read_only() -> Iterator[Unusable]:
    _fill()
    _run("postgres", f"ALTER DATABASE {_DATABASE} SET default_transaction_read_only = on")
    yield Unusable(address(), "is read-only: give the address of the primary", status=None, is_away=True)


@contextlib.contextmanager
def _too_old() -> Iterator[Unusable]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_OLDEST_SERVER", 99)
        yield Unusable(address(), "which is too old: it needs 99 or newer")


@contextlib.contextmanager
def _no_encryption() -> Iterator[Unusable]:
    yield Unusable(f"{address()}?sslmode=require", "turn ssl on in the server, or correct sslmode")


@contextlib.contextmanager
def _unknown_setting() -> Iterator[Unusable]:
    yield Unusable(f"{address()}?options=-c%20work_me%3D1", "refused the setting work_me: correct options")


@contextlib.contextmanager
def _other_encoding() -> Iterator[Unusable]:
    _run("postgres", f"DROP DATABASE {_DATABASE}")
    _run("postgres", f"CREATE DATABASE {_DATABASE} ENCODING 'LATIN1' TEMPLATE template0")
    yield Unusable(address(), "has the encoding LATIN1: create one with the encoding UTF8")


_MAKERS: Final[dict[str, Callable[[], contextlib.AbstractContextManager[Unusable]]]] = {
    "no server": _no_server,
    "no database": _no_database,
    "wrong password": _wrong_password,
    "no rights": _no_rights,
    "no rights on tables": _no_rights_on_tables,
    "newer schema": _newer_schema,
    "foreign schema": _foreign_schema,
    "read-only": _read_only,
    "too old": _too_old,
    "other encoding": _other_encoding,
    "no encryption": _no_encryption,
    "unknown setting": _unknown_setting,
}
