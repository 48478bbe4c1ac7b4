"""Tests of databases that lost commits, and are recognised by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import psycopg
import pytest
from tests.unit.store.postgres.databases import drop_schema, execute
from tests.unit.store.postgres.replicas import enqueue
from tests.unit.store.rows import BINDING, effect

from freight_exchange.errors import FencedError, StoreAwayError
from freight_exchange.store.postgres.connection import _Connection
from freight_exchange.store.postgres.fleet.seat import PostgresSeat
from freight_exchange.store.postgres.store import PostgresStore
from freight_exchange.store.protocol import Binding

OTHER = attrs.evolve(BINDING, feed="another bot")


def join(store: PostgresStore, binding: Binding = BINDING) -> PostgresSeat:
    return store.join(binding, handlers=["quote"], version="1", lease=60.0)


def step_back(seat: PostgresSeat) -> None:
    """Record commits as seen by a replica that the database does not have."""
    seat.replica._history.flushed = "FFFFFFFF/0"


def test_restored_database_is_recognised_by_its_cluster(store: PostgresStore) -> None:
    assert not join(store).is_restored
    assert not join(store).is_restored
    execute("UPDATE freight_exchange.binding SET cluster = 'another/00000001'")
    seat = join(store)
    assert seat.is_restored
    assert join(store).is_restored, "until its offers were looked for"
    seat.trust()
    assert not join(store).is_restored


def restore_dump(table: str) -> None:
    """Recreate a table with its rows, as the restore of a dump does."""
    execute(
        f"""
        CREATE TABLE freight_exchange.dump AS TABLE freight_exchange.{table};
        ALTER TABLE freight_exchange.{table} RENAME TO lost;
        CREATE TABLE freight_exchange.{table} (LIKE freight_exchange.lost INCLUDING ALL);
        INSERT INTO freight_exchange.{table} OVERRIDING SYSTEM VALUE TABLE freight_exchange.dump
        """
    )


def restore_rows(table: str) -> None:
    """Write the rows of a table again after it was emptied, as the restore of a data-only dump does."""
    execute(
        f"""
        CREATE TABLE freight_exchange.dump AS TABLE freight_exchange.{table};
        TRUNCATE freight_exchange.{table} CASCADE;
        INSERT INTO freight_exchange.{table} OVERRIDING SYSTEM VALUE TABLE freight_exchange.dump
        """
    )


@pytest.fixture(params=[restore_dump, restore_rows])
def restore(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return each way to restore a table from a dump."""
    way: Callable[[str], None] = request.param
    return way


@pytest.fixture
def dumped_store(store: PostgresStore) -> Iterator[PostgresStore]:
    """Return a store whose schema is removed after the test."""
    yield store
    drop_schema()


def test_restored_dump_is_recognised_in_its_own_cluster(
    dumped_store: PostgresStore, restore: Callable[[str], None]
) -> None:
    join(dumped_store)
    restore("binding")
    assert join(dumped_store).is_restored


def check_writes_nothing(seat: PostgresSeat) -> None:
    """Check that a replica whose row was restored is fenced off from all writes."""
    with pytest.raises(FencedError, match="backup was restored"):
        seat.heartbeat()
    with pytest.raises(FencedError):
        seat.work.put_effect(effect("offer:1:0"), expected_state=None)
    with pytest.raises(FencedError):
        seat.work.claim(now=2.0, limit=1)


class TestReplicaThatRunsWhileADumpIsRestored:
    """The dump contains its row, and only the table, or the table's file, shows that it is a different row."""

    @pytest.fixture
    def seat(self, dumped_store: PostgresStore, restore: Callable[[str], None]) -> PostgresSeat:
        seat = join(dumped_store)
        enqueue(seat, 1)
        restore("replica")
        return seat

    def test_writes_nothing(self, seat: PostgresSeat) -> None:
        check_writes_nothing(seat)

    def test_ends_no_replica_that_has_its_number(self, seat: PostgresSeat) -> None:
        seat.leave()
        assert execute("SELECT has_left FROM freight_exchange.replica") == [(False,)]


@pytest.mark.parametrize(
    "restore", ["UPDATE freight_exchange.replica SET lease_until = lease_until - interval '1 second'",
                "DELETE FROM freight_exchange.replica"]
)  # fmt: skip
class TestReplicaWhoseEarlierRowIsRestored:
    """Rows are deleted and inserted as they were before the last heartbeat, or before the replica joined."""

    def test_writes_nothing(self, store: PostgresStore, restore: str) -> None:
        seat = join(store)
        enqueue(seat, 1)
        seat.heartbeat()
        execute(restore)
        check_writes_nothing(seat)

    def test_joins_a_restored_database(self, store: PostgresStore, restore: str) -> None:
        join(store).heartbeat()
        assert not join(store).is_restored
        join(store).heartbeat()
        execute(restore)
        assert join(store).is_restored


class TestReplicaThatLookedForOffersOfAnEarlierLoss:
    """The flag is for a later loss too, for which it has not looked."""

    def check_keeps_the_flag(self, seat: PostgresSeat) -> None:
        with pytest.raises(FencedError):
            seat.trust()
        assert execute("SELECT is_restored FROM freight_exchange.binding") == [(True,)]

    @pytest.fixture
    def seat(self, dumped_store: PostgresStore) -> PostgresSeat:
        join(dumped_store)
        execute("UPDATE freight_exchange.binding SET cluster = 'another/00000001'")
        seat = join(dumped_store)
        assert seat.is_restored
        return seat

    def test_does_not_clear_it_after_a_take_over(self, seat: PostgresSeat) -> None:
        execute("UPDATE freight_exchange.replica SET epoch = 1, has_left = true WHERE id = %s", seat.replica.id)
        self.check_keeps_the_flag(seat)

    def test_does_not_clear_it_after_a_restart_of_the_server(self, seat: PostgresSeat) -> None:
        seat.replica.started -= 1.0
        self.check_keeps_the_flag(seat)

    def test_does_not_clear_it_after_a_second_restore(
        self, seat: PostgresSeat, dumped_store: PostgresStore, restore: Callable[[str], None]
    ) -> None:
        restore("binding")
        assert join(dumped_store).is_restored
        self.check_keeps_the_flag(seat)


def test_replica_writes_nothing_at_another_server_to_which_a_pooler_has_led_its_connection(
    store: PostgresStore,
) -> None:
    seat = join(store)
    enqueue(seat, 1)
    seat.replica.started -= 1.0
    check_writes_nothing(seat)
    seat.leave()
    assert execute("SELECT has_left FROM freight_exchange.replica") == [(True,)], "others would wait for its lease"


def test_replica_that_was_taken_over_joins_no_restored_database(store: PostgresStore) -> None:
    seat = join(store)
    seat.heartbeat()
    execute("UPDATE freight_exchange.replica SET epoch = 1, has_left = true")
    with pytest.raises(FencedError):
        seat.heartbeat()
    assert not join(store).is_restored


def test_restored_database_is_recognised_by_a_process_that_has_seen_later_commits(store: PostgresStore) -> None:
    seat = join(store)
    seat.heartbeat()
    assert not join(store).is_restored
    seat.heartbeat()
    step_back(seat)
    assert join(store).is_restored


def test_restored_database_is_recognised_after_a_commit_that_failed(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = join(store)
    seat.heartbeat()
    step_back(seat)
    execute_any = _Connection.execute

    def execute_all_but_commit(connection: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if query == "COMMIT":
            raise psycopg.OperationalError("the server was shut down")
        return execute_any(connection, query, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(_Connection, "execute", execute_all_but_commit)
        with pytest.raises(StoreAwayError, match="shut down"):
            join(store)
    assert join(store).is_restored


def test_each_bot_of_a_process_recognises_a_restored_database(store: PostgresStore) -> None:
    for seat in [join(store, binding) for binding in (BINDING, OTHER)]:
        seat.heartbeat()
        step_back(seat)
    assert [join(store, binding).is_restored for binding in (BINDING, OTHER)] == [True, True]
