"""A process that ends, or a disk that fails, at any statement: what is found afterwards is all of it or nothing."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from tests.unit.store.ledger import BINDING, LEASE, Watch, effect, event, everything, put, seen

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.work import WorkStore

INDEXES = range(8)


def filled(store: SQLiteStore) -> WorkStore:
    feed = store.open(BINDING, lease=LEASE)
    put(feed, [seen(index, last=index * 10.0) for index in range(5)], [event(f"{n}", n) for n in range(5)], state="old")
    feed.acknowledge([feed.pending()[0].id], at=5.0)
    done, dead, claimed, ready = range(100, 104)
    put(feed, events=[event(f"{index}", index) for index in (done, dead, claimed, ready)], at=5.0)
    handlers = {done: ["a", "b"], dead: ["a", "b"], claimed: ["a"], ready: ["a", "b"]}
    feed.deliver({one.id: handlers[one.index] for one in feed.pending() if one.index in handlers}, at=5.0)
    for one in [*feed.claim(now=5.0, limit=3), *feed.claim(now=5.0, limit=1)]:
        if one.index == done:
            feed.settle(one.event, one.handler, state="done", at=6.0)
    (other,) = [one for one in feed.claim(now=5.0, limit=1) if one.index == done]
    feed.settle(other.event, other.handler, state="done", at=6.0)
    (poison,) = [one for one in feed.deliveries(state="claimed") if one.index == dead]
    feed.settle(poison.event, poison.handler, state="dead", error="ValueError", at=6.0)
    feed.put_effect(effect("7/0"), was=None)
    return feed


def _commit(feed: WorkStore) -> object:
    events = [event("4", 4), event("5", 5, "gap")]
    return put(feed, [seen(2, version=2), seen(6)], events, state="new", at=99.0)


def _deliver(feed: WorkStore, *handlers: list[str]) -> None:
    numbers = [one.id for one in feed.pending(limit=len(handlers))]
    feed.deliver(dict(zip(numbers, handlers, strict=True)), at=50.0)


def _settle(feed: WorkStore, state: Literal["ready", "done", "dead"]) -> None:
    one = feed.deliveries(state="claimed")[0]
    feed.settle(one.event, one.handler, state=state, not_before=60.0, error="late", forgive=state == "ready", at=50.0)


STEPS: dict[str, Callable[[WorkStore], object]] = {
    "commit": _commit,
    "acknowledge": lambda feed: feed.acknowledge([one.id for one in feed.pending(limit=2)], at=50.0),
    "pass over": lambda feed: feed.acknowledge(
        [one.id for one in feed.pending(limit=1)], at=50.0, passed_over=[one.id for one in feed.pending(limit=3)]
    ),
    "prune": lambda feed: feed.prune(before=25.0),
    "deliver": lambda feed: _deliver(feed, ["a", "b"], [], ["a"]),
    "claim": lambda feed: feed.claim(now=50.0, limit=2),
    "retry": lambda feed: _settle(feed, "ready"),
    "settle": lambda feed: _settle(feed, "done"),
    "bury": lambda feed: _settle(feed, "dead"),
    "reclaim": lambda feed: feed.reclaim(),
    "replay": lambda feed: [feed.replay(one.event, one.handler, at=50.0) for one in feed.deliveries(state="dead")],
    "add an event": lambda feed: feed.add_event(event("selected:7", 7), at=50.0),
    "begin an effect": lambda feed: feed.put_effect(effect("8/0"), was=None),
    "go on with an effect": lambda feed: feed.put_effect(effect("7/0", "sending"), was="intent"),
}


def told(path: Path) -> tuple[str | None, dict[str, object]]:
    """What the next process finds."""
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    try:
        return feed.state, everything(feed, INDEXES)
    finally:
        store.close()


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_statement_leaves_all_or_nothing(step: str, tmp_path: Path, watch: Watch) -> None:
    copies: list[Path] = []

    def as_it_is_on_the_disk(statement: str) -> None:
        place = tmp_path / str(len(copies))
        place.mkdir()
        for file in tmp_path.glob("bot.db*"):
            # What a crash leaves of the shared memory is made anew.
            if file.suffix in (".db", ".db-wal"):
                shutil.copy(file, place)
        copies.append(place / "bot.db")

    store = SQLiteStore(tmp_path / "bot.db")
    feed = filled(store)
    watch(as_it_is_on_the_disk)
    STEPS[step](feed)
    watch(None)
    store.close()

    found = [told(copy) for copy in copies]
    before, after = found[0], told(tmp_path / "bot.db")
    assert before != after
    changes = [number for number in range(1, len(found)) if found[number] != found[number - 1]]
    assert len(changes) == 1, "it changed at once"
    assert found[-1] == after
    assert len(found) >= 8


@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_statement_leaves_the_feed_usable(step: str, tmp_path: Path, watch: Watch) -> None:
    statements: list[str] = []
    store = SQLiteStore(tmp_path / "bot.db")
    feed = filled(store)
    watch(statements.append)
    # Only counts: what it does is undone with the copy that is not used.
    feed.release()
    shutil.copy(tmp_path / "bot.db", tmp_path / "kept.db")
    feed = store.open(BINDING, lease=LEASE)
    statements.clear()
    STEPS[step](feed)
    watch(None)
    store.close()
    count = sum(not statement.startswith("after") for statement in statements)
    assert count >= 4

    for failing in range(count):
        path = tmp_path / f"{failing}.db"
        shutil.copy(tmp_path / "kept.db", path)
        watch(None)
        again = SQLiteStore(path)
        feed = again.open(BINDING, lease=LEASE)
        before = everything(feed, INDEXES)
        left = failing

        def fail(statement: str) -> None:
            nonlocal left
            if statement.startswith("after") or statement == "ROLLBACK":
                return
            if left == 0:
                left = -1
                raise sqlite3.OperationalError("the disk is gone")
            left -= 1

        watch(fail)
        with pytest.raises(StoreError, match="the disk is gone"):
            STEPS[step](feed)
        watch(None)
        assert left == -1
        assert everything(feed, INDEXES) == before
        STEPS[step](feed)
        assert everything(feed, INDEXES) != before
        assert feed.unacknowledged == len(feed.pending())
        again.close()


def test_a_crash_while_the_file_is_made_loses_nothing(tmp_path: Path, watch: Watch) -> None:
    copies: list[Path] = []

    def as_it_is_on_the_disk(statement: str) -> None:
        place = tmp_path / str(len(copies))
        place.mkdir()
        for file in tmp_path.glob("bot.db*"):
            if file.suffix in (".db", ".db-wal"):
                shutil.copy(file, place)
        copies.append(place / "bot.db")

    watch(as_it_is_on_the_disk)
    store = SQLiteStore(tmp_path / "bot.db")
    store.open(BINDING, lease=LEASE)
    watch(None)
    store.close()
    assert len(copies) > 20
    assert [told(copy)[0] for copy in copies] == [None] * len(copies)


def test_a_rollback_that_fails_is_made_up_for(tmp_path: Path, watch: Watch) -> None:
    with_trouble = True

    def fail(statement: str) -> None:
        if with_trouble and statement in ("COMMIT", "ROLLBACK"):
            raise sqlite3.OperationalError("the disk is gone")

    store = SQLiteStore(tmp_path / "bot.db")
    feed = filled(store)
    watch(fail)
    with pytest.raises(StoreError, match="the disk is gone"):
        _commit(feed)
    with_trouble = False
    assert _commit(feed) == 1
    watch(None)
    store.close()
    assert told(tmp_path / "bot.db")[0] == "new"
