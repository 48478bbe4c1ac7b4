"""Tests of database connections: failures, and databases that cannot be used."""

from __future__ import annotations

import random
import string
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import count
from types import SimpleNamespace
from typing import Any

import attrs
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.unit.store.postgres.databases import database_url, empty_store, execute, server
from tests.unit.store.rows import BINDING, LEASE, effect

from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres import connection, schema, session
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.protocol import ConflictError


def test_standby_is_away() -> None:
    """After a fail-over the address may lead to the primary, for which a replica waits."""
    database = DatabaseConnection(make_conninfo(database_url(), options="-c default_transaction_read_only=on"))
    with pytest.raises(StoreAwayError, match="is read-only: give the address of the primary"):
        database.execute("CREATE TABLE written ()")
    database.close()


def test_schema_that_a_newer_replica_has_migrated_is_used() -> None:
    empty_store().open(BINDING, lease=LEASE).release()
    execute("INSERT INTO freight_exchange.migration (version) VALUES (%s)", schema.VERSION + 1)
    PostgresStore(database_url()).open(BINDING, lease=LEASE).release()
    execute("DELETE FROM freight_exchange.migration WHERE version = %s", schema.VERSION + 1)


def test_commits_are_durable_on_a_server_that_does_not_wait_for_its_disk() -> None:
    database = DatabaseConnection(make_conninfo(database_url(), options="-c synchronous_commit=off"))
    assert database.row("SHOW synchronous_commit") == ("on",), "a heartbeat is a statement of its own"
    # A pooler may lead a transaction to another session.
    database.execute("SET synchronous_commit = off")
    with database.transaction():
        assert database.row("SHOW synchronous_commit") == ("on",)
    database.close()


def test_ledger_is_durable_on_a_server_that_does_not_wait_for_its_disk() -> None:
    """The database itself refuses each state of an offer whose commit would not wait for the disk."""
    empty_store().open(BINDING, lease=LEASE).release()
    execute(
        """
        CREATE FUNCTION freight_exchange.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF current_setting('synchronous_commit') <> 'on' THEN RAISE 'it may be lost'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON freight_exchange.effect
            FOR EACH ROW EXECUTE FUNCTION freight_exchange.refuse()
        """
    )
    store = PostgresStore(make_conninfo(database_url(), options="-c synchronous_commit=off"))
    try:
        work = store.join(BINDING, handlers=["quote"], version="1", lease=LEASE).work
        assert work.put_effect(effect("1/0"), expected_state=None)
        assert work.put_effect(effect("1/0", state="sending"), expected_state="intent")
        assert work.amend_effect(effect("1/0", state="confirmed"), replaces=lambda _: True)
        with pytest.raises(psycopg.errors.RaiseException, match="it may be lost"):
            execute("SET synchronous_commit = off; UPDATE freight_exchange.effect SET state = 'sending'")
    finally:
        store.close()
        execute("DROP FUNCTION freight_exchange.refuse CASCADE")


def test_reply_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_REPLY_TIMEOUT", 0.05)
    database = DatabaseConnection(database_url())
    assert database.row("SELECT 1") == (1,)
    with pytest.raises(StoreAwayError, match=r"no reply for 0\.05 s"):
        database.row("SELECT pg_sleep(10)")
    assert not database.is_open
    assert database.row("SELECT 2") == (2,)
    database.close()


def test_transaction_that_was_idle_for_too_long_is_away() -> None:
    """The replica joins again, as after a freeze."""
    database = DatabaseConnection(database_url())
    (process,) = database.row("SELECT pg_backend_pid()")

    def freeze() -> None:
        with database.transaction():
            database.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
            while execute("SELECT pid FROM pg_stat_activity WHERE pid = %s", process):
                pass

    with pytest.raises(StoreAwayError, match="is away"):
        freeze()
    assert database.row("SELECT 2") == (2,)
    database.close()


def test_process_that_is_frozen_inside_a_transaction_does_not_keep_its_locks() -> None:
    database = DatabaseConnection(database_url())
    with database.transaction():
        assert database.row("SHOW idle_in_transaction_session_timeout") == ("5s",)
        assert database.row("SHOW lock_timeout") == ("5s",)
    database.close()


def test_isolation_level_does_not_follow_the_defaults_of_the_server() -> None:
    options = "-c default_transaction_isolation=serializable"
    database = DatabaseConnection(make_conninfo(database_url(), options=options))
    assert database.row("SHOW transaction_isolation") == ("read committed",)
    with database.transaction():
        assert database.row("SHOW transaction_isolation") == ("read committed",)
    database.close()


@pytest.mark.parametrize("setting", ["standard_conforming_strings=off", "array_nulls=off", "extra_float_digits=-10"])
def test_values_do_not_follow_the_defaults_of_the_server(setting: str) -> None:
    database = DatabaseConnection(make_conninfo(database_url(), options=f"-c {setting}"))
    values = (b"\0\\", [b"\\", None], 1764230000.123456)
    assert database.row("SELECT %s::bytea, %s::bytea[], %s::float8", values) == values
    database.close()


def test_connection_is_not_ended_for_being_idle() -> None:
    """It is idle between two scans. A server that ended it would cost a replica its seat at each scan."""
    if server_version() < 14:
        pytest.skip("the setting came with PostgreSQL 14")
    database = DatabaseConnection(make_conninfo(database_url(), options="-c idle_session_timeout=60s"))
    assert database.row("SHOW idle_session_timeout") == ("0",)
    database.close()


@pytest.mark.parametrize(("reply_timeout", "limit"), [(None, "12s"), (60.0, "62s")])
def test_server_ends_a_statement_soon_after_it_was_given_up(reply_timeout: float | None, limit: str) -> None:
    """Otherwise abandoned statements would run on beside later ones. A role may have a shorter limit."""
    database = DatabaseConnection(
        make_conninfo(database_url(), options="-c statement_timeout=5s"), reply_timeout=reply_timeout
    )
    assert database.row("SHOW statement_timeout") == (limit,)
    database.close()


def test_limits_of_a_role_do_not_end_the_statements_that_replace_them() -> None:
    """The role may write no temporary file, which a list of all settings would need."""
    options = "-c temp_file_limit=0 -c work_mem=64kB -c statement_timeout=1h -c array_nulls=off"
    database = DatabaseConnection(make_conninfo(server().url(), options=options))
    assert database.row("SHOW array_nulls") == ("on",)
    database.close()


def test_limit_of_a_statement_is_the_first_setting() -> None:
    """The limit of a role may be too short for any other statement."""
    statements = list[str]()

    def run(statement: str, *_: object, **__: object) -> SimpleNamespace:
        statements.append(statement)
        return SimpleNamespace(fetchall=list)

    connection: Any = SimpleNamespace(execute=run)
    session.set_defaults(connection, reply_timeout=10.0)
    assert statements[0].startswith("SET statement_timeout = 12000")


@pytest.mark.parametrize("function", ["pg_control_system()", "pg_walfile_name(pg_lsn)"])
def test_function_that_a_user_may_not_call_is_named(function: str) -> None:
    name = function.partition("(")[0]
    with closing(psycopg.connect(server().url(), autocommit=True)) as administrator:
        administrator.execute(f"CREATE ROLE no_{name} LOGIN")
        administrator.execute(f"CREATE DATABASE no_{name} OWNER no_{name}")
    with closing(psycopg.connect(server().url(f"no_{name}"), autocommit=True)) as administrator:
        administrator.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
    store = PostgresStore(server().url(f"no_{name}").replace("postgres@", f"no_{name}@"))
    with pytest.raises(StoreError, match=f"grant this user the right to use {name}, which every user has by default"):
        store.join(BINDING, handlers=["quote"], version="1", lease=LEASE)
    store.close()


def test_wait_for_a_reply_begins_again_with_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a long reply may take longer than its first part."""
    database = DatabaseConnection(database_url(), reply_timeout=5.0)
    opened = database._open()
    moments = iter([0.0, 4.0, 8.0, 9.0, 13.9, 14.1])
    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: next(moments)))

    def reply() -> Generator[str, bool]:
        while True:
            yield "the next part"

    wait = connection._limited(reply(), opened)
    next(wait)
    for is_ready in (True, False, True, False):
        wait.send(is_ready)
    with pytest.raises(psycopg.OperationalError, match="no reply for 5 s"):
        wait.send(False)
    monkeypatch.undo()
    database.close()


def test_reply_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy may deliver a reply byte by byte, and its replica would wait until the end."""
    database = DatabaseConnection(database_url(), reply_timeout=5.0)
    opened = database._open()
    seconds = count(step=4.0)
    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: next(seconds)))

    def reply() -> Generator[str, bool]:
        while True:
            yield "the next byte"

    wait = connection._limited(reply(), opened)
    next(wait)
    for _ in range(7):
        wait.send(True)
    with pytest.raises(psycopg.OperationalError, match="no complete reply within 30 s"):
        wait.send(True)
    monkeypatch.undo()
    assert not database.is_open
    database.close()


def test_statement_that_waits_for_a_lock_does_not_stay_in_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each abandoned statement would keep a connection of the server while a person locks a table."""
    assert "lock_timeout" in session._DEFAULTS
    monkeypatch.setitem(session._DEFAULTS, "lock_timeout", "100")
    empty_store().open(BINDING, lease=LEASE).release()
    database = DatabaseConnection(database_url())
    with psycopg.connect(database_url()) as person:
        person.execute("LOCK TABLE freight_exchange.delivery")
        with pytest.raises(ConflictError, match="lock timeout"):
            database.row("SELECT count(*) FROM freight_exchange.delivery")
    assert database.row("SELECT count(*) FROM freight_exchange.delivery") == (0,)
    database.close()


def server_version() -> int:
    ((version,),) = execute("SHOW server_version_num")
    return int(version) // 10_000


def test_name_that_no_index_can_hold_is_refused() -> None:
    """The database is not away: another attempt would fail in the same way."""
    name = "".join(random.Random(1).choices(string.printable, k=5000))
    with pytest.raises(StoreError, match="cannot store a value: index row size") as caught:
        empty_store().open(attrs.evolve(BINDING, feed=name), lease=LEASE)
    assert not isinstance(caught.value, StoreAwayError)


def test_connection_that_was_cut_is_made_again() -> None:
    database = DatabaseConnection(database_url())
    (process,) = database.row("SELECT pg_backend_pid()")
    execute("SELECT pg_terminate_backend(%s, 5000)", process)
    with pytest.raises(StoreAwayError, match="is away"):
        database.row("SELECT 1")
    assert database.row("SELECT 2") == (2,)
    database.close()


class TestConnectionCutWhileIdle:
    """A proxy or an administrator may cut the connection."""

    @pytest.fixture
    def database(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseConnection]:
        monkeypatch.setattr(connection, "_IDLE", 0.0)
        database = DatabaseConnection(database_url())
        yield database
        database.close()

    def cut(self, database: DatabaseConnection) -> None:
        (backend,) = database.row("SELECT pg_backend_pid()")
        execute("SELECT pg_terminate_backend(%s, 10000)", backend)

    def test_is_replaced(self, database: DatabaseConnection) -> None:
        self.cut(database)
        with database.transaction():
            assert database.row("SELECT 1") == (1,)
        assert database.count == 2

    def test_is_not_replaced_if_the_server_has_started_anew(
        self, database: DatabaseConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.cut(database)
        monkeypatch.setattr(connection, "_STARTED", "SELECT now()::text")
        with pytest.raises(StoreAwayError, match="has restarted"):
            database.row("SELECT 1")
        assert database.row("SELECT 1") == (1,)

    def test_is_away_inside_a_transaction(self, database: DatabaseConnection) -> None:
        def write() -> None:
            with database.transaction():
                self.cut(database)
                database.row("SELECT 1")

        with pytest.raises(StoreAwayError):
            write()

    def test_listens_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "_IDLE", 0.0)
        store = empty_store()
        first, second = (store.join(BINDING, handlers=["quote"], version="1", lease=LEASE) for _ in range(2))
        first.wait(0.0)
        self.cut(first._heartbeat_connection)
        first.heartbeat()
        first.wait(0.0)
        second.leave()
        assert first.wait(10.0)
        store.close()


def test_keepalive_of_an_address_is_kept() -> None:
    for address, seconds in ((database_url(), "10"), (make_conninfo(database_url(), keepalives_idle=7), "7")):
        database = DatabaseConnection(address)
        assert database._open().info.get_parameters()["keepalives_idle"] == seconds
        database.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems lack some of these options")
def test_server_ends_the_connection_of_a_machine_that_is_lost() -> None:
    """Until then its transaction keeps locks."""
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
    with closing(DatabaseConnection(database_url())) as database:
        assert [database.row(f"SHOW {name}")[0] for name in names] == ["10", "5", "3", "25000"]


def test_transaction_ends_though_its_client_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may freeze in the middle of a message. A copy has no limit."""
    if server_version() < 17:
        pytest.skip("the limit came with PostgreSQL 17")
    monkeypatch.setattr(session, "_LONGEST", "50ms")
    with closing(DatabaseConnection(database_url())) as database:
        with database.transaction(is_limited=False):
            database.row("SELECT pg_sleep(0.1)")
        with pytest.raises(StoreAwayError, match="transaction timeout"), database.transaction():
            database.row("SELECT pg_sleep(10)")
