"""Tests of the SQL of deliveries and effects: its cost does not grow with finished work."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.store.rows import BINDING, LEASE, effect, event, put

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite.feed import SQLiteFeed
from freight_exchange.store.sqlite.sql import effect_sql, work_sql
from freight_exchange.store.work import WorkStore


class Counter:
    """Counter of the steps of SQLite's virtual machine."""

    def __init__(self, feed: SQLiteFeed) -> None:
        self.steps = 0
        with feed._database.using(feed.lease) as self.connection:
            pass

    def _count(self) -> int:
        self.steps += 1
        return 0

    def run(self, call: Callable[[], object]) -> int:
        self.steps = 0
        self.connection.set_progress_handler(self._count, 1)
        call()
        self.connection.set_progress_handler(None, 1)
        return self.steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


@pytest.fixture
def feed(path: Path) -> Iterator[SQLiteFeed]:
    store = SQLiteStore(path)
    yield store.open(BINDING, lease=LEASE)
    store.close()


def finish(feed: WorkStore, first: int, count: int) -> None:
    """Add events about this many requests, and enqueue, claim and finish their deliveries."""
    put(feed, events=[event(str(index), index) for index in range(first, first + count)])
    feed.enqueue({one.id: ["log", "quote"] for one in feed.pending(limit=count)}, at=20.0)
    while claimed := feed.claim(now=20.0, limit=count):
        for one in claimed:
            feed.settle(one.event, one.handler, state="done", at=20.0)


def test_no_statement_scans_a_table(path: Path, feed: SQLiteFeed) -> None:
    statements: dict[str, Sequence[object] | dict[str, object]] = {
        work_sql._ACKNOWLEDGE: (0.0, 1, 1),
        work_sql._ADD_DELIVERY: {"handler": "quote", "at": 20.0, "event": 1},
        work_sql._PUT_OFF_LATER: {"feed": 1, "event": 1, "handler": "quote", "not_before": 20.0},
        work_sql._ONE: (1, 1, "quote"),
        **dict.fromkeys(work_sql._IN_STATE.values(), (1, 1)),
        work_sql._OF_REQUEST: (1, 1, "ready", 1),
        work_sql._LATER: (1, 1, "quote", 1),
        work_sql._HAS_DELIVERY: (1, "quote", "new"),
        work_sql._CLAIM: (1, 1, "quote"),
        work_sql._SETTLE: ("done", 0.0, None, 1, 1, "quote"),
        work_sql._SETTLE_WITH_REFUND: ("done", 0.0, None, 1, 1, "quote"),
        work_sql._FINISH_READY: (1, 1, "quote"),
        work_sql._REPLAY: (0.0, 1, 1, "quote"),
        work_sql._TOUCH: (0.0, 1),
        work_sql._FINISH_EVENT: (1, 1, 1),
        effect_sql._EFFECTS: (1,),
        effect_sql._EFFECT: (1, "1/0"),
        effect_sql._EFFECTS_UNDER: (1, "1/", "1/"),
        effect_sql._EFFECTS_IN: (1, "intent"),
        effect_sql._IS_USED.format(places="?"): (1, "1/", "1/", "intent"),
        effect_sql._ADD_EFFECT: (1, "1/0", "intent", b"", 0.0),
        effect_sql._UPDATE_EFFECT: ("sending", b"", 0.0, 1, "1/0", "intent", 0.0),
    }
    for handlers in (None, ["quote"], ["quote", "log", "late"]):
        condition, values = work_sql._handler_filter(handlers)
        for statement in (work_sql._CLAIMABLE, work_sql._NEXT_DUE, work_sql._ANY_DUE):
            statements[statement.format(handler_filter=condition)] = {"feed": 1, "now": 0.0, **values}
    with closing(sqlite3.connect(path)) as plain:
        for statement, parameters in statements.items():
            plan = [row[3] for row in plain.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            assert [step for step in plan if step.startswith("SCAN")] == [], statement
            # At most one claimed delivery a handler in flight: these may be sorted.
            if statement != work_sql._IN_STATE["claimed"]:
                assert not any("TEMP B-TREE" in step for step in plan), statement


def test_cost_of_a_call_does_not_grow_with_finished_deliveries(feed: SQLiteFeed) -> None:
    counter = Counter(feed)

    def costs() -> dict[str, int]:
        put(feed, events=[event("next", 7)])
        (number,) = [one.id for one in feed.pending()]
        feed.put_effect(effect("next"), expected_state=None)
        calls: dict[str, Callable[[], object]] = {
            "enqueue": lambda: feed.enqueue({number: ["log", "quote"]}, at=20.0),
            "next due": feed.next_due,
            "overdue": lambda: feed.count_overdue(now=20.0),
            "claim": lambda: feed.claim(now=20.0, limit=8),
            "claim nothing": lambda: feed.claim(now=20.0, limit=8),
            "claimed": lambda: feed.deliveries(state="claimed"),
            "settle": lambda: feed.settle(number, "log", state="dead", at=20.0),
            "dead": lambda: feed.deliveries(state="dead"),
            "replay": lambda: feed.replay(number, "log", at=20.0),
            "effects": lambda: feed.effects("intent"),
            "prefixes": lambda: feed.used_prefixes(["none", "next"], states=["sent", "intent"]),
            "put effect": lambda: feed.put_effect(effect("next", "sent"), expected_state="intent"),
        }
        return {name: counter.run(call) for name, call in calls.items()}

    few = costs()
    for statement in ("delivery WHERE state <> 'done'", "event WHERE key = 'next'", "effect WHERE key = 'next'"):
        counter.connection.execute(f"DELETE FROM {statement}")
    finish(feed, 1000, 150)
    for index in range(300):
        feed.put_effect(effect(str(index), "sent"), expected_state=None)
    many = costs()
    assert {name: cost for name, cost in many.items() if cost > few[name] + 20} == {}


def test_deliveries_for_removed_handlers_cost_a_claim_little(feed: SQLiteFeed) -> None:
    put(feed, events=[event(str(index), index) for index in range(1000)])
    feed.enqueue({one.id: ["gone"] for one in feed.pending(limit=1000)}, at=20.0)
    put(feed, events=[event("new", 1000)])
    feed.enqueue({one.id: ["quote"] for one in feed.pending()}, at=30.0)
    # Two queries, of some 10 steps a row.
    assert Counter(feed).run(lambda: feed.claim(now=40.0, limit=8, handlers=["log", "quote"])) < 2 * 1000 * 10
    assert [one.index for one in feed.deliveries(state="claimed")] == [1000]


def test_invalid_state_or_time_is_refused(feed: SQLiteFeed) -> None:
    put(feed, events=[event("1", 1)])
    feed.enqueue({feed.pending()[0].id: ["quote"]}, at=20.0)
    (one,) = feed.claim(now=20.0, limit=1)
    with pytest.raises(StoreError, match="cannot keep a value"):
        feed.settle(one.event, one.handler, state="lost", at=21.0)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(StoreError, match="cannot keep a value"):
        feed.put_effect(effect("1/0", at=float("nan")), expected_state=None)
    assert feed.deliveries(state="claimed") == [one]


def test_claim_that_finds_nothing_writes_nothing(feed: SQLiteFeed) -> None:
    connection = Counter(feed).connection
    before = connection.total_changes
    assert feed.claim(now=1e9, limit=8) == []
    assert connection.total_changes == before


def test_pruned_events_leave_no_rows(path: Path, feed: SQLiteFeed) -> None:
    finish(feed, 1, 5)
    feed.prune(before=1000.0)
    with closing(sqlite3.connect(path)) as plain:
        counts = "SELECT (SELECT count(*) FROM delivery), (SELECT count(*) FROM event)"
        assert plain.execute(counts).fetchone() == (0, 0)
