"""Tests of processes that freeze, or are cut off, in the middle of a message: the database releases their locks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.unit.store.postgres.cutter import Cutter
from tests.unit.store.postgres.databases import empty_store, execute, server
from tests.unit.store.postgres.replicas import join, lapse, take_term
from tests.unit.store.rows import effect, put, seen

from freight_exchange.errors import StoreAwayError
from freight_exchange.store.postgres import connection, session
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.fleet import frozen_sessions
from freight_exchange.store.postgres.fleet.replica import Replica
from freight_exchange.store.postgres.fleet.seat import PostgresSeat
from freight_exchange.store.postgres.store import PostgresStore
from freight_exchange.store.protocol import ConflictError
from freight_exchange.store.work import Effect

UNFINISHED = b"P\0\0\0\x0e\0SELECT\0\0\0"
"""Beginning of a statement, after which the server waits for the rest without a limit."""

LAPSED = "lease_until = '2000-01-01'"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """Return a store whose replicas wait only briefly for locks, and count as frozen after half a second."""
    monkeypatch.setattr(frozen_sessions, "_SILENCE", 0.5)
    monkeypatch.setattr(session, "_LOCK_WAIT", "200ms")
    store = empty_store()
    yield store
    store.close()


@contextmanager
def frozen_inside(work: Any) -> Iterator[None]:
    """Freeze a process inside a transaction until the server ends its connection."""
    with suppress(StoreAwayError):
        with work.transaction():
            stop_sending(work)
            yield
        pytest.fail("it kept its connection")


def stop_sending(work: Any) -> None:
    """Send a part of a message."""
    database: DatabaseConnection = work._connection
    os.write(database._open().pgconn.socket, UNFINISHED)


def adopted_by(seat: PostgresSeat) -> Sequence[Effect]:
    """Adopt the work of dead replicas, unless a lock prevents that."""
    with suppress(ConflictError):
        return seat.adopt().effects
    return ()


def eventually(call: Callable[[], Any]) -> Any:
    """Call until there is a result, once a second as a replica does."""
    for _ in range(200):
        if result := call():
            return result
        time.sleep(0.02)
    raise AssertionError("there was no result")


def test_frozen_replica_loses_the_term(store: PostgresStore) -> None:
    first, second = join(store), join(store)
    term = take_term(first)
    lapse(first)
    with frozen_inside(term):
        assert eventually(second.take_term)


def test_work_of_a_frozen_replica_is_adopted(store: PostgresStore) -> None:
    first, second = join(store), join(store)
    first.work.put_effect(effect("offer:1:0", "sending"), expected_state=None)
    lapse(first)
    with frozen_inside(first.work):
        (adopted,) = eventually(lambda: second.adopt().effects)
    assert adopted.key == "offer:1:0"


def test_replica_that_is_frozen_while_it_records_a_late_reply_does_not_keep_the_offer(store: PostgresStore) -> None:
    """It has neither a lease nor a fence any more."""
    first, second, third = join(store), join(store), join(store)
    first.work.put_effect(effect("offer:1:0", "sending"), expected_state=None)
    lapse(first)
    assert second.adopt().effects
    lapse(second)

    def freeze(stored: Effect) -> bool:
        stop_sending(first.work)
        assert eventually(lambda: adopted_by(third))
        return True

    with pytest.raises(StoreAwayError):
        first.work.amend_effect(effect("offer:1:0", "confirmed"), replaces=freeze)


def test_replica_that_is_frozen_while_it_gives_the_term_back_does_not_keep_it(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = join(store), join(store)
    term = take_term(first)
    taken = list[Any]()

    def freeze(*_: object) -> None:
        stop_sending(term)
        taken.append(eventually(second.take_term))

    lapse(first)
    with monkeypatch.context() as giving_back:
        giving_back.setattr(Replica, "notify", freeze)
        term.release()
    assert len(taken) == 1


def test_frozen_replica_keeps_no_other_one_from_joining(store: PostgresStore) -> None:
    with frozen_inside(take_term(join(store))):
        join(store)


@contextmanager
def store_of_its_own(name: str, *statements: str, options: str = "", login: str = "") -> Iterator[PostgresStore]:
    """Return a store in a database and of a user of this name, after these statements of an administrator."""
    with closing(psycopg.connect(server().url(), autocommit=True)) as session:
        session.execute(f"CREATE ROLE {name}_owner; CREATE ROLE {name} LOGIN {login} IN ROLE {name}_owner")
        session.execute(f"CREATE DATABASE {name} OWNER {name}_owner")
    with closing(psycopg.connect(server().url(name), autocommit=True)) as session:
        for statement in statements:
            session.execute(statement)
    url = make_conninfo(server().url(name).replace("postgres@", f"{name}@"), options=options)
    with closing(PostgresStore(url)) as store:
        yield store


@pytest.mark.usefixtures("store")
def test_frozen_replica_whose_role_differs_from_its_login_loses_the_term() -> None:
    with store_of_its_own("role_of_replica", options="-c role=role_of_replica_owner") as store:
        first, second = join(store), join(store)
        term = take_term(first)
        first._heartbeat_connection.execute(
            f"UPDATE freight_exchange.replica SET {LAPSED} WHERE id = {first.replica.id}"
        )
        with frozen_inside(term):
            assert eventually(second.take_term)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("pg_stat_activity", "SELECT ON pg_stat_activity"),
        ("pg_locks", "SELECT ON pg_locks"),
        ("pg_terminate_backend", "EXECUTE ON FUNCTION pg_terminate_backend(int, bigint)"),
    ],
)
def test_replica_that_may_not_end_frozen_ones_says_so_once(
    name: str, right: str, caplog: pytest.LogCaptureFixture
) -> None:
    with store_of_its_own(f"no{name[2:]}", f"REVOKE {right} FROM PUBLIC") as store:
        seat = join(store)
        seat.adopt()
        seat.adopt()
    (message,) = [record.message for record in caplog.records if "cannot end" in record.message]
    assert f"permission denied for {'function' if 'FUNCTION' in right else 'view'} {name}" in message
    assert f"the right to use {name}" in message


def check_adoption_in_a_transaction(store: PostgresStore) -> None:
    """Adopt an effect inside a transaction, as a command that resolves a doubt does, and write more."""
    first, second = join(store), join(store)
    first.work.put_effect(effect("offer:1:0", "sending"), expected_state=None)
    first.leave()
    with second.work.transaction():
        assert [one.key for one in second.adopt().effects] == ["offer:1:0"]
        assert second.work.put_effect(effect("offer:1:0", "confirmed"), expected_state="sending")
    stored = second.work.effect("offer:1:0")
    assert stored is not None
    assert stored.state == "confirmed"


def test_adoption_in_a_transaction_keeps_the_role_of_the_session() -> None:
    """Without it, a login that does not inherit has no right to the tables."""
    role = "-c role=heirless_owner"
    with store_of_its_own("heirless", options=role, login="NOINHERIT") as store:
        check_adoption_in_a_transaction(store)


def test_adoption_in_a_transaction_without_the_right_to_end_sessions() -> None:
    right = "EXECUTE ON FUNCTION pg_terminate_backend(int, bigint)"
    with store_of_its_own("harmless", f"REVOKE {right} FROM PUBLIC") as store:
        check_adoption_in_a_transaction(store)


def test_frozen_replica_is_ended_by_an_adoption_in_a_transaction(store: PostgresStore) -> None:
    first, second = join(store), join(store)
    term = take_term(first)
    lapse(first)
    with frozen_inside(term):
        time.sleep(0.6)
        with second.work.transaction():
            second.adopt()
        assert eventually(second.take_term)


def test_replica_is_not_ended_while_a_living_one_may_be_silent(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen_sessions, "_SILENCE", 10.0)
    first, second = join(store), join(store)
    term = take_term(first)
    lapse(first)
    with term.transaction():
        assert second.take_term() is None
        put(term, [seen(1)])
    assert second.take_term() is not None


def test_replica_that_is_cut_off_in_the_middle_of_a_page_does_not_keep_its_locks(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server itself ends it, even without another replica."""
    monkeypatch.setattr(session, "_IDLE", "1s")
    monkeypatch.setattr(connection, "_REPLY_TIMEOUT", 4.0)
    with closing(Cutter()) as cutter, closing(PostgresStore(cutter.url)) as other:
        term = take_term(join(other))
        cutter.left = 50_000
        with pytest.raises(StoreAwayError):
            put(term, [seen(index, record=bytes(1000)) for index in range(200)])
        assert cutter.left == 0
        assert execute("SELECT pid FROM pg_locks WHERE mode = 'RowShareLock'") == []
        cutter.left = sys.maxsize
