"""Locks of other programs by which no replica can scan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from tests.unit.store.postgres.databases import database_url
from tests.unit.store.postgres.replicas import join, lapse, take_term

from freight_exchange.store.postgres import session
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.errors import NotPermittedError
from freight_exchange.store.postgres.fleet import lock_log
from freight_exchange.store.postgres.fleet.seat import PostgresSeat
from freight_exchange.store.postgres.store import PostgresStore


@pytest.fixture
def seat(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> PostgresSeat:
    """A replica that waits for locks only for a moment, beside one that has died with the term."""
    monkeypatch.setattr(session, "_LOCK_WAIT", "20ms")
    dead, seat = join(store), join(store)
    take_term(dead)
    lapse(dead)
    return seat


@contextmanager
def locked() -> Iterator[int]:
    """Lock the row of the bot in a session of another program, and yield its process id."""
    with psycopg.connect(database_url(), application_name="nightly job") as program:
        program.execute("UPDATE freight_exchange.binding SET state = state")
        yield program.info.backend_pid


def test_lock_on_a_free_term_is_logged_once_a_minute(
    seat: PostgresSeat, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked() as pid:
        assert [seat.take_term() for _ in range(3)] == [None] * 3
        (warning,) = caplog.messages
        assert "the right to scan for the bot 'requests' in the database" in warning
        assert f"is free, but another session (pid {pid}, application 'nightly job') has locked" in warning
        monkeypatch.setattr(lock_log, "_INTERVAL", 0.0)
        seat.replica._lock_log = lock_log.LockLog()
        assert [seat.take_term() for _ in range(2)] == [None] * 2
    assert len(caplog.messages) == 3
    take_term(seat)
    assert len(caplog.messages) == 3


def test_session_with_the_lock_is_not_named_to_a_user_who_may_not_see_it(
    seat: PostgresSeat, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = DatabaseConnection.row

    def refuse(self: DatabaseConnection, query: str, parameters: Any = None) -> Any:
        if query == lock_log._OWNER:
            raise NotPermittedError("permission denied for view pg_locks")
        return row(self, query, parameters)

    monkeypatch.setattr(DatabaseConnection, "row", refuse)
    with locked():
        assert seat.take_term() is None
    assert "is free, but another session has locked its table or row" in caplog.text
