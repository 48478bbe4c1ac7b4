"""Migrations of a database that several replicas begin to use at once."""

from __future__ import annotations

import threading

from tests.unit.store.postgres.databases import database_url, drop_schema, execute
from tests.unit.store.postgres.replicas import await_lock

from freight_exchange.errors import StoreError
from freight_exchange.store.postgres import schema
from freight_exchange.store.postgres.connection import DatabaseConnection


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
