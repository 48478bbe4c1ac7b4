"""Tests of the pages that the replica with the term writes into a database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import psycopg
import pytest
from tests.unit.store.postgres.cutter import Cutter
from tests.unit.store.postgres.databases import database_url, execute
from tests.unit.store.postgres.replicas import join, lapse, take_term
from tests.unit.store.rows import event, put, seen

from freight_exchange.errors import FencedError
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.store import PostgresStore

LIMIT = 65_536


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the bytes of the records and payloads of each statement."""
    sizes = list[int]()
    execute = DatabaseConnection.execute

    def measure(self: DatabaseConnection, query: str, parameters: Any = None) -> Any:
        if isinstance(parameters, Mapping):
            arrays = [value for value in parameters.values() if isinstance(value, list)]
            sizes.append(sum(len(item) for array in arrays for item in array if isinstance(item, bytes)))
        return execute(self, query, parameters)

    monkeypatch.setattr(DatabaseConnection, "execute", measure)
    return sizes


def test_replica_that_asks_for_a_taken_term_writes_nothing(store: PostgresStore) -> None:
    holder, other = join(store), join(store)
    take_term(holder)
    assert other.take_term() is None
    row = "SELECT xmax::text FROM freight_exchange.replica WHERE id = %s"
    # It has not even locked its row.
    assert execute(row, other.replica.id) == [("0",)]


def test_replica_asks_for_a_taken_term_by_one_statement(store: PostgresStore, sizes: list[int]) -> None:
    """Each replica asks once a second, and at each notification."""
    holder, other = join(store), join(store)
    take_term(holder)
    sizes.clear()
    assert other.take_term() is None
    assert len(sizes) == 1
    assert other.holder.startswith(f"process {os.getpid()} on ")


def test_replica_whose_work_was_taken_over_finds_that_out_though_the_term_is_taken(store: PostgresStore) -> None:
    holder, other = join(store), join(store)
    take_term(holder)
    lapse(other)
    holder.adopt()
    with pytest.raises(FencedError):
        other.take_term()


def test_replica_keeps_its_seat_while_another_program_locks_the_terms(store: PostgresStore) -> None:
    """The lock of a long migration or of `VACUUM FULL` must cancel no handlers."""
    holder, other = join(store), join(store)
    take_term(holder)
    other._term_connection.execute("SET lock_timeout = '10ms'")
    with psycopg.connect(database_url()) as program:
        program.execute("LOCK TABLE freight_exchange.binding")
        assert other.take_term() is None
    other.heartbeat()
    assert other.take_term() is None


def test_long_page_is_sent_in_parts(store: PostgresStore, sizes: list[int]) -> None:
    """Over a slow link, a long statement would look like a client that froze inside its transaction."""
    term, numbers = take_term(join(store)), range(1, 301)
    page = [seen(number, record=bytes(1000), digest=b"d") for number in numbers]
    events = [event(f"{number}", number, payload=bytes(1000)) for number in numbers]
    assert put(term, page, events) == len(numbers)
    assert max(sizes) <= LIMIT
    assert sum(sizes) == 300 * (1001 + 1000)
    assert [one.index for one in term.pending(limit=1000)] == [*numbers]
    assert execute("SELECT count(*), min(length(record)) FROM freight_exchange.seen") == [(300, 1000)]


def test_record_that_is_longer_than_a_part_is_one(store: PostgresStore, sizes: list[int]) -> None:
    term = take_term(join(store))
    put(term, [seen(number, record=bytes(LIMIT), digest=b"d") for number in (1, 2)])
    assert [size for size in sizes if size] == [LIMIT + 1] * 2
    assert execute("SELECT count(*) FROM freight_exchange.seen") == [(2,)]


def test_events_that_are_there_already_are_proposed_again_in_each_part(store: PostgresStore) -> None:
    term, keys = take_term(join(store)), [f"{number}" for number in range(200)]
    events = [event(key, payload=bytes(1000)) for key in keys]
    assert put(term, events=events[::2], at=1.0) == 100
    assert put(term, events=events, at=2.0) == 100
    assert term.unacknowledged == 200
    assert execute("SELECT DISTINCT at FROM freight_exchange.event") == [(2.0,)]


def test_page_is_sent_as_the_bytes_that_it_has(store: PostgresStore) -> None:
    with closing(Cutter()) as link, closing(PostgresStore(link.url)) as other:
        term = take_term(join(other))
        before = link.left
        put(term, [seen(number, record=bytes(1000)) for number in range(200)], [event("1", payload=bytes(100_000))])
        assert 300_000 < before - link.left < 400_000
