"""Defaults of a server, a role or a table on which a session must not depend."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest
from tests.support.postgres import find_programs, running_server
from tests.unit.store.postgres.databases import database_url, server
from tests.unit.store.postgres.replicas import join
from tests.unit.store.rows import effect

from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres.connection import DatabaseConnection


def test_standby_is_away_where_serializable_is_the_default() -> None:
    """A standby refuses each query at that level. During a fail-over an address may lead to it."""
    if find_programs() is None:
        pytest.skip("no PostgreSQL server is installed")
    with running_server(fsync="off", default_transaction_isolation="serializable") as standby:
        standby.stop()
        (standby.data / "standby.signal").touch()
        standby.start()
        store = PostgresStore(standby.url())
        with pytest.raises(StoreAwayError, match="is read-only: give the address of the primary"):
            join(store)
        store.close()


def test_rows_that_a_policy_hides_do_not_count_as_absent() -> None:
    """Otherwise a ledger whose offers are hidden has none."""
    with closing(psycopg.connect(server().url(), autocommit=True)) as administrator:
        administrator.execute("CREATE ROLE restricted LOGIN")
        administrator.execute("CREATE DATABASE restricted OWNER restricted")
    store = PostgresStore(server().url("restricted").replace("postgres@", "restricted@"))
    seat = join(store)
    assert seat.work.put_effect(effect("offer:1:0"), expected_state=None)
    with closing(psycopg.connect(server().url("restricted"), autocommit=True)) as administrator:
        administrator.execute("ALTER TABLE freight_exchange.effect ENABLE ROW LEVEL SECURITY")
        administrator.execute("ALTER TABLE freight_exchange.effect FORCE ROW LEVEL SECURITY")
    with pytest.raises(StoreError, match="grant this user the attribute BYPASSRLS, or turn the row-level security"):
        seat.work.effect("offer:1:0")
    store.close()


@pytest.mark.parametrize("missed", ["EXECUTE statement", "PREPARE twice AS SELECT 1; PREPARE twice AS SELECT 1"])
def test_pooler_without_prepared_statements_is_named(missed: str) -> None:
    """The pooler leads each transaction of a connection to any session of the server."""
    database = DatabaseConnection(database_url())
    with pytest.raises(StoreError, match="is behind a pooler that keeps no prepared statements"):
        database.execute(missed)
    database.close()
