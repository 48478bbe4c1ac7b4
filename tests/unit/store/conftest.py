"""The stores that must do alike: in memory, in a file, and in SQLite's memory; and a look at each statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.unit.store.rows import BINDING, LEASE, Watch

from freight_exchange.store import MemoryStore, SQLiteStore
from freight_exchange.store.work import BotStore, WorkStore


@pytest.fixture(params=["memory", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], BotStore]]:
    """Makes a store of its own each time."""
    made: list[BotStore] = []
    kinds: dict[str, Callable[[], BotStore]] = {
        "memory": MemoryStore,
        "file": lambda: SQLiteStore(tmp_path / f"bot-{len(made)}.db"),
    }

    def make() -> BotStore:
        made.append(kinds[request.param]())
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make: Callable[[], BotStore]) -> BotStore:
    return make()


@pytest.fixture
def feed(store: BotStore) -> WorkStore:
    return store.open(BINDING, lease=LEASE)


class Watched(sqlite3.Connection):
    """A connection that tells of every statement before and after it runs."""

    listeners: ClassVar[list[Callable[[str], None]]] = []

    def tell(self, statement: str) -> None:
        for listener in self.listeners:
            listener(statement)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.tell(sql)
        done = super().execute(sql, parameters)
        self.tell(f"after {sql}")
        return done

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        self.tell(sql)
        done = super().executemany(sql, parameters)
        self.tell(f"after {sql}")
        return done


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, factory=Watched, **named))

    def tell(told: Callable[[str], None] | None) -> None:
        Watched.listeners[:] = [] if told is None else [told]

    yield tell
    tell(None)
