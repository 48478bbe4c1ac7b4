"""Connections to a database: trouble, and addresses and databases that cannot be used."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.unit.store.postgres.databases import database_url, drop_schema, empty_store, execute, server
from tests.unit.store.rows import BINDING, LEASE

from freight_exchange.errors import ConfigurationError, StoreAwayError, StoreError
from freight_exchange.feed.factory import make_store
from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres import connection, schema
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.errors import connect_error

CANARY = "c4nary"


def refusal(address: str) -> str:
    """Return why a store cannot be opened."""
    with pytest.raises(StoreError) as caught:
        PostgresStore(address).open(BINDING, lease=LEASE)
    assert CANARY not in str(caught.value)
    return str(caught.value)


def test_url_makes_a_store() -> None:
    store, made_here = make_store(f"postgresql://bots:{CANARY}@db.internal/freight")
    assert isinstance(store, PostgresStore)
    assert made_here
    assert repr(store) == "<PostgresStore of the database postgresql://bots@db.internal/freight>"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:{CANARY}@h:x/d",
        f"postgresql://u:p@{CANARY}@h/d",
        f"{CANARY}",
        f"postgresql://u:{CANARY}@h/d?x=y",
    ],
)
def test_unreadable_address_is_refused_without_the_password(address: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        PostgresStore(address)
    assert CANARY not in str(caught.value)


def test_server_that_does_not_run() -> None:
    assert "cannot be reached" in refusal(f"postgresql://u:{CANARY}@127.0.0.1:1/d")


@pytest.mark.parametrize(
    "reason",
    [
        "the database system is not yet accepting connections",
        "the database system is starting up",
        "sorry, too many clients already",
        "terminating connection due to administrator command",
    ],
)
def test_server_that_is_not_ready_is_away(reason: str) -> None:
    error = connect_error(psycopg.OperationalError(f"connection failed: FATAL:  {reason}\nDETAIL: x"), "the database d")
    assert isinstance(error, StoreAwayError)


def test_wrong_password() -> None:
    text = 'connection failed: FATAL:  password authentication failed for user "bots"'
    error = connect_error(psycopg.OperationalError(text), "the database d")
    assert str(error) == (
        "the database d refused the login: correct the user or the password (PGPASSWORD, .pgpass or a service file)"
    )
    assert not isinstance(error, StoreAwayError)


def test_missing_database() -> None:
    assert refusal(server().url("nothing")).endswith("does not exist: create it, or correct its name")


def test_unknown_user() -> None:
    assert "refused the login" in refusal(server().url().replace("postgres@", f"nobody:{CANARY}@"))


def test_user_without_rights() -> None:
    drop_schema()
    execute("DROP ROLE IF EXISTS guest")
    execute("CREATE ROLE guest LOGIN")
    assert "grant this user CREATE" in refusal(make_conninfo(database_url(), user="guest"))
    assert execute("SELECT to_regnamespace('freight_exchange')") == [(None,)]


def test_foreign_schema() -> None:
    drop_schema()
    execute("CREATE SCHEMA freight_exchange")
    execute("CREATE TABLE freight_exchange.parcel (id int)")
    assert "belongs to another program" in refusal(database_url())
    drop_schema()


def test_newer_schema() -> None:
    empty_store().open(BINDING, lease=LEASE).release()
    execute("INSERT INTO freight_exchange.migration (version) VALUES (99)")
    assert "newer version of this package (schema 99" in refusal(database_url())
    execute("DELETE FROM freight_exchange.migration WHERE version = 99")


def test_schema_that_a_newer_replica_has_migrated_is_used() -> None:
    empty_store().open(BINDING, lease=LEASE).release()
    execute("INSERT INTO freight_exchange.migration (version) VALUES (%s)", schema.VERSION + 1)
    PostgresStore(database_url()).open(BINDING, lease=LEASE).release()
    execute("DELETE FROM freight_exchange.migration WHERE version = %s", schema.VERSION + 1)


def test_standby_that_is_read_only() -> None:
    empty_store()
    assert "read-only standby" in refusal(make_conninfo(database_url(), options="-c default_transaction_read_only=on"))


def test_server_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_OLDEST_SERVER", 99)
    assert "too old: it needs 99 or newer" in refusal(database_url())


def test_commits_are_durable_on_a_server_that_does_not_wait_for_its_disk() -> None:
    database = DatabaseConnection(make_conninfo(database_url(), options="-c synchronous_commit=off"))
    assert database.row("SHOW synchronous_commit") == ("off",)
    with database.transaction():
        assert database.row("SHOW synchronous_commit") == ("on",)
    database.close()


def test_reply_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_REPLY_TIMEOUT", 0.05)
    database = DatabaseConnection(database_url())
    assert database.row("SELECT 1") == (1,)
    with pytest.raises(StoreAwayError, match=r"no reply for 0\.05 s"):
        database.row("SELECT pg_sleep(10)")
    assert not database.is_open
    assert database.row("SELECT 2") == (2,)
    database.close()


def test_connection_that_was_cut_is_made_again() -> None:
    database = DatabaseConnection(database_url())
    (process,) = database.row("SELECT pg_backend_pid()")
    execute("SELECT pg_terminate_backend(%s, 5000)", process)
    with pytest.raises(StoreAwayError, match="is away"):
        database.row("SELECT 1")
    assert database.row("SELECT 2") == (2,)
    database.close()
