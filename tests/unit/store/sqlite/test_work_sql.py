"""What deliveries and effects cost in a file: no question looks at what was done long ago."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.store.rows import BINDING, LEASE, effect, event, put

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite import work_sql
from freight_exchange.store.work import WorkStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


def worked_through(feed: WorkStore, first: int, count: int) -> None:
    """Events of so many requests, each handed over, claimed and done."""
    put(feed, events=[event(str(index), index) for index in range(first, first + count)])
    feed.enqueue({one.id: ["log", "quote"] for one in feed.pending(limit=count)}, at=20.0)
    while claimed := feed.claim(now=20.0, limit=count):
        for one in claimed:
            feed.settle(one.event, one.handler, state="done", at=20.0)


def test_no_question_reads_a_whole_table(path: Path) -> None:
    SQLiteStore(path).open(BINDING, lease=LEASE).release()
    questions: dict[str, Sequence[object] | dict[str, object]] = {
        work_sql._ACKNOWLEDGE: (0.0, 1, 1),
        work_sql._ADD_DELIVERY: ("quote", 20.0, 1),
        work_sql._ONE: (1, 1, "quote"),
        **dict.fromkeys(work_sql._IN_STATE.values(), (1, 1)),
        work_sql._OF_REQUEST: (1, 1, "ready", 1),
        work_sql._CLAIM: (1, 1, "quote"),
        work_sql._SETTLE: ("done", 0.0, None, 1, 1, "quote"),
        work_sql._SETTLE_WITH_REFUND: ("done", 0.0, None, 1, 1, "quote"),
        work_sql._REPLAY: (0.0, 1, 1, "quote"),
        work_sql._TOUCH: (0.0, 1),
        work_sql._FINISH_EVENT: (1, 1, 1),
        work_sql._EFFECTS: (1,),
        work_sql._EFFECT: (1, "1/0"),
        work_sql._EFFECTS_IN: (1, "intent"),
        work_sql._ADD_EFFECT: (1, "1/0", "intent", b"", 0.0),
        work_sql._UPDATE_EFFECT: ("sending", b"", 0.0, 1, "1/0", "intent"),
    }
    for handlers in (None, ["quote"], ["quote", "log", "late"]):
        condition, values = work_sql._handler_filter(handlers)
        for question in (work_sql._CLAIMABLE, work_sql._NEXT_DUE, work_sql._ANY_DUE):
            questions[question.format(handler_filter=condition)] = {"feed": 1, "now": 0.0, **values}
    with closing(sqlite3.connect(path)) as plain:
        for question, given in questions.items():
            plan = [row[3] for row in plain.execute(f"EXPLAIN QUERY PLAN {question}", given)]
            assert [step for step in plan if step.startswith("SCAN")] == [], question
            # No more are claimed than there are handlers at work: those may be sorted.
            if question != work_sql._IN_STATE["claimed"]:
                assert not any("TEMP B-TREE" in step for step in plan), question


def test_what_is_done_costs_a_claim_nothing(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    connection = store._database._connection
    assert connection is not None
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    def counted(work: Callable[[], object]) -> int:
        nonlocal steps
        steps = 0
        connection.set_progress_handler(count, 1)
        work()
        connection.set_progress_handler(None, 1)
        return steps

    def costs() -> dict[str, int]:
        put(feed, events=[event("next", 7)])
        (number,) = [one.id for one in feed.pending()]
        feed.put_effect(effect("next"), expected_state=None)
        calls: dict[str, Callable[[], object]] = {
            "deliver": lambda: feed.enqueue({number: ["log", "quote"]}, at=20.0),
            "due": feed.next_due,
            "overdue": lambda: feed.count_overdue(now=20.0),
            "claim": lambda: feed.claim(now=20.0, limit=8),
            "nothing to claim": lambda: feed.claim(now=20.0, limit=8),
            "claimed": lambda: feed.deliveries(state="claimed"),
            "settle": lambda: feed.settle(number, "log", state="dead", at=20.0),
            "dead": lambda: feed.deliveries(state="dead"),
            "replay": lambda: feed.replay(number, "log", at=20.0),
            "in doubt": lambda: feed.effects("intent"),
            "effect": lambda: feed.put_effect(effect("next", "sent"), expected_state="intent"),
        }
        return {name: counted(call) for name, call in calls.items()}

    def undo() -> None:
        connection.execute("DELETE FROM delivery WHERE state <> 'done'")
        connection.execute("DELETE FROM event WHERE key = 'next'")
        connection.execute("DELETE FROM effect WHERE key = 'next'")

    few = costs()
    undo()
    worked_through(feed, 1000, 150)
    for index in range(300):
        feed.put_effect(effect(str(index), "sent"), expected_state=None)
    many = costs()
    store.close()
    assert {name: cost for name, cost in many.items() if cost > few[name] + 20} == {}


def test_what_waits_for_handlers_that_are_gone_is_passed_by_quickly(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    connection = store._database._connection
    assert connection is not None
    put(feed, events=[event(str(index), index) for index in range(1000)])
    feed.enqueue({one.id: ["gone"] for one in feed.pending(limit=1000)}, at=20.0)
    put(feed, events=[event("new", 1000)])
    feed.enqueue({one.id: ["quote"] for one in feed.pending()}, at=30.0)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1)
    (one,) = feed.claim(now=40.0, limit=8, handlers=["log", "quote"])
    connection.set_progress_handler(None, 1)
    store.close()
    assert one.index == 1000
    # It looks for when something is due, and then for what that is.
    assert steps < 2 * 1000 * 10


def test_a_word_that_is_no_state_is_not_kept(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    put(feed, events=[event("1", 1)])
    feed.enqueue({feed.pending()[0].id: ["quote"]}, at=20.0)
    (one,) = feed.claim(now=20.0, limit=1)
    with pytest.raises(StoreError, match="cannot keep a value"):
        feed.settle(one.event, one.handler, state="lost", at=21.0)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(StoreError, match="cannot keep a value"):
        feed.put_effect(effect("1/0", at=float("nan")), expected_state=None)
    assert feed.deliveries(state="claimed") == [one]
    store.close()


def test_a_claim_that_finds_nothing_writes_nothing(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    connection = store._database._connection
    assert connection is not None
    before = connection.total_changes
    assert feed.claim(now=1e9, limit=8) == []
    assert connection.total_changes == before
    store.close()


def test_what_is_pruned_leaves_nothing(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    worked_through(feed, 1, 5)
    feed.prune(before=1000.0)
    store.close()
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT (SELECT count(*) FROM delivery), (SELECT count(*) FROM event)").fetchone() == (
            0,
            0,
        )
