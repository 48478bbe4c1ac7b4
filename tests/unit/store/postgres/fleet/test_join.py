"""Tests of the first steps of a replica in a shared database."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.unit.store.postgres.databases import database_url, empty_store, execute
from tests.unit.store.rows import BINDING, effect

from freight_exchange.errors import StoreAwayError
from freight_exchange.store.postgres import session
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.fleet.replica import Replica


def test_replica_joins_once_a_long_commit_of_another_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of another replica must not end one that starts."""
    store = empty_store()
    store.join(BINDING, handlers=["quote"], version="1", lease=60.0)
    monkeypatch.setattr(session, "_LOCK_WAIT", "1ms")
    join: Any = Replica.join
    tries = list[object]()
    with psycopg.connect(database_url()) as other:
        other.execute("SELECT FROM freight_exchange.binding FOR NO KEY UPDATE")

        def joining(*arguments: Any, **options: Any) -> Replica:
            tries.append(arguments)
            if len(tries) == 2:
                other.rollback()
            return join(*arguments, **options)  # type: ignore[no-any-return]  # a replica

        monkeypatch.setattr(Replica, "join", joining)
        seat = store.join(BINDING, handlers=["quote"], version="1", lease=60.0)
    assert seat.take_term() is not None
    assert len(tries) == 2
    store.close()


@pytest.mark.parametrize("room", [1, 2])
def test_server_with_too_few_connections_gets_no_row(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that tries again each second added a row each time, and took the term from the others."""
    store, connect = empty_store(), DatabaseConnection._connect
    opened = list[Any]()

    def connect_if_there_is_room(self: DatabaseConnection) -> Any:
        if len(opened) == room:
            return StoreAwayError("too many connections")
        opened.append(connect(self))
        return opened[-1]

    monkeypatch.setattr(DatabaseConnection, "_connect", connect_if_there_is_room)
    with pytest.raises(StoreAwayError, match="too many"):
        store.join(BINDING, handlers=["quote"], version="1", lease=60.0)
    assert execute("SELECT count(*) FROM freight_exchange.replica") == [(0,)]
    assert [one.closed for one in opened] == [True] * room


@pytest.mark.parametrize(("version", "count"), [("1", 3), ("", 1)])
def test_command_takes_one_connection_and_a_replica_three(version: str, count: int) -> None:
    """A server may have no more free beside its replicas."""
    store = empty_store()
    seat = store.join(BINDING, handlers=(), version=version, lease=60.0)
    with seat.work.transaction():
        seat.adopt()
        assert seat.work.put_effect(effect("1/0"), expected_state=None)
    assert seat.acknowledge("gap", at=1.0) == 0
    is_open = "application_name = 'freight-exchange' AND datname = current_database()"
    assert execute(f"SELECT count(*) FROM pg_stat_activity WHERE {is_open}") == [(count,)]
    seat.leave()
    assert execute("SELECT has_left FROM freight_exchange.replica") == [(True,)]
    store.close()


def test_logical_copy_is_away_until_its_sequences_are_set() -> None:
    """Logical replication copies only rows. Without the sequences, each attempt would fail with a conflict."""
    store = empty_store()
    store.join(BINDING, handlers=["quote"], version="1", lease=60.0)
    execute("SELECT setval(pg_get_serial_sequence('freight_exchange.replica', 'id'), 1, false)")
    with pytest.raises(StoreAwayError, match="not their sequences") as error:
        store.join(BINDING, handlers=["quote"], version="1", lease=60.0)
    execute(str(error.value).partition("run ")[2])
    assert store.join(BINDING, handlers=["quote"], version="1", lease=60.0).replica.id > 1
    store.close()
