"""A process that ends, or a disk that fails, at any statement: what is found afterwards is all of it or nothing."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.unit.store.rows import BINDING, INDEXES, LEASE, STEPS, Watch, everything, filled

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore


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
        STEPS["commit"](feed)
    with_trouble = False
    assert STEPS["commit"](feed) == 1
    watch(None)
    store.close()
    assert told(tmp_path / "bot.db")[0] == "new"
