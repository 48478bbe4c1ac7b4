"""End of a seat: how often it is tried to give it back."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import pytest
from tests.unit.store.postgres.cutter import Cutter
from tests.unit.store.postgres.databases import execute
from tests.unit.store.postgres.replicas import join, take_term

from freight_exchange.errors import StoreAwayError
from freight_exchange.store.postgres import connection
from freight_exchange.store.postgres.fleet.replica import Replica
from freight_exchange.store.postgres.store import PostgresStore


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record each call that gives back a seat or a term."""
    calls = list[str]()

    def record(name: str) -> None:
        method = getattr(Replica, name)

        def recording(*arguments: Any) -> None:
            calls.append(name)
            method(*arguments)

        monkeypatch.setattr(Replica, name, recording)

    record("leave")
    record("resign")
    return calls


def test_seat_is_given_back_though_its_connections_were_cut(store: PostgresStore, calls: list[str]) -> None:
    seat = join(store)
    seat.work.effects("sending")
    execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'freight-exchange'")
    seat.leave()
    assert execute("SELECT has_left FROM freight_exchange.replica") == [(True,)]
    assert calls == ["leave", "leave"]


def test_seat_is_not_given_back_twice_to_a_database_that_does_not_answer(
    store: PostgresStore, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call takes ten seconds: a process that was stopped would be killed meanwhile."""
    monkeypatch.setattr(connection, "_REPLY_TIMEOUT", 0.2)
    with closing(Cutter()) as link:
        seat = join(PostgresStore(link.url))
        seat.work.effects("sending")
        link.left = 0
        seat.leave()
    assert calls == ["leave"]


@pytest.mark.parametrize("is_back", [False, True])
def test_seat_is_given_back_by_one_call_after_another_was_not_answered(
    store: PostgresStore, calls: list[str], monkeypatch: pytest.MonkeyPatch, *, is_back: bool
) -> None:
    """Otherwise this process would wait for the end of its own lease, though the database is back."""
    monkeypatch.setattr(connection, "_REPLY_TIMEOUT", 0.2)
    with closing(Cutter()) as link:
        seat = join(PostgresStore(link.url))
        term = take_term(seat)
        link.left = 0
        with pytest.raises(StoreAwayError, match="no reply for"):
            term.pending()
        link.left = sys.maxsize if is_back else 0
        term.release()
        seat.leave()
    assert calls == ["leave"]
    assert execute("SELECT has_left FROM freight_exchange.replica") == [(is_back,)]
