"""Stores for the tests of the protocols, and a connection that reports its statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from tests.unit.store.postgres.databases import empty_store
from tests.unit.store.rows import BINDING, LEASE, Watch

from freight_exchange.store import MemoryStore
from freight_exchange.store.seat import BotStore
from freight_exchange.store.work import WorkStore


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[BotStore]:
    """Return each kind of store. A memory store has the same statements as a file, without waiting for a disk."""
    store: BotStore = MemoryStore() if request.param == "memory" else empty_store()
    yield store
    store.close()


@pytest.fixture
def feed(store: BotStore) -> WorkStore:
    return store.open(BINDING, lease=LEASE)


class WatchedConnection(sqlite3.Connection):
    """Connection that reports every statement before and after it runs."""

    listeners: ClassVar[list[Callable[[str], None]]] = []

    def report(self, statement: str) -> None:
        for listener in self.listeners:
            listener(statement)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.report(sql)
        cursor = super().execute(sql, parameters)
        self.report(f"after {sql}")
        return cursor

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        self.report(sql)
        cursor = super().executemany(sql, parameters)
        self.report(f"after {sql}")
        return cursor


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **options: connect(*args, factory=WatchedConnection, **options)
    )

    def set_listener(listener: Callable[[str], None] | None) -> None:
        WatchedConnection.listeners[:] = [] if listener is None else [listener]

    yield set_listener
    set_listener(None)
