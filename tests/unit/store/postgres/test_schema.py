"""Tests of migrations of a database that several replicas start to use at once."""

from __future__ import annotations

import threading

import pytest
from tests.unit.store.postgres.databases import database_url, drop_schema, empty_store, execute
from tests.unit.store.postgres.replicas import await_lock, join
from tests.unit.store.rows import effect

from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.store.postgres import schema
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.store import PostgresStore


def test_replica_waits_for_the_migration_of_another_one() -> None:
    drop_schema()
    first, second = DatabaseConnection(database_url()), DatabaseConnection(database_url())
    errors = list[StoreError]()

    def migrate() -> None:
        try:
            schema.prepare(second)
        except StoreError as error:
            errors.append(error)

    migrating = threading.Thread(target=migrate)
    with first.transaction():
        schema.prepare(first)
        migrating.start()
        await_lock(migrating)
    migrating.join()
    for connection in (first, second):
        connection.close()
    assert errors == []
    versions = execute("SELECT version FROM freight_exchange.migration ORDER BY version")
    assert versions == [(version,) for version in schema.pending(0)]


class TestReplicaThatRunsWhileADumpIsRestored:
    """A restore drops the tables, and creates them one by one. The replica waits for them, and creates none."""

    def test_waits_for_the_schema(self) -> None:
        store = empty_store()
        seat = join(store)
        execute("ALTER SCHEMA freight_exchange RENAME TO away")
        with pytest.raises(StoreAwayError, match="has no such table at present"):
            seat.heartbeat()
        with pytest.raises(StoreAwayError, match="has no such table at present"):
            seat.work.put_effect(effect("offer:1:0"), expected_state=None)
        with pytest.raises(StoreAwayError, match="has no tables of this store at present"):
            join(store)
        execute("ALTER SCHEMA away RENAME TO freight_exchange")
        join(store).heartbeat()
        store.close()

    @pytest.mark.parametrize("table", ["binding", "migration"])
    def test_waits_for_all_tables(self, table: str) -> None:
        store = empty_store()
        join(store)
        execute(f"ALTER TABLE freight_exchange.{table} RENAME TO away")
        with pytest.raises(StoreAwayError, match="at present"):
            join(store)
        execute(f"ALTER TABLE freight_exchange.away RENAME TO {table}")
        join(store).heartbeat()
        store.close()

    def test_waits_for_the_rows_that_tell_the_version(self) -> None:
        store = empty_store()
        join(store)
        execute("CREATE TABLE public.rows AS TABLE freight_exchange.migration")
        execute("DELETE FROM freight_exchange.migration")
        with pytest.raises(StoreAwayError, match="has no tables of this store at present"):
            join(store)
        execute("INSERT INTO freight_exchange.migration TABLE public.rows")
        execute("DROP TABLE public.rows")
        join(store).heartbeat()
        store.close()


def test_replica_makes_the_schema_at_its_start() -> None:
    drop_schema()
    store = PostgresStore(database_url())
    join(store).heartbeat()
    store.close()
