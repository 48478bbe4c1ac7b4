"""Tests of the SQL of requests and events."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.unit.store.rows import BINDING, LEASE

from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite.sql import feed_sql


def test_no_statement_scans_a_table(tmp_path: Path) -> None:
    with closing(SQLiteStore(tmp_path / "bot.db")) as store:
        store.open(BINDING, lease=LEASE)
    statements = {
        feed_sql._ABSENT: (1, 0.0, 1),
        feed_sql._LIVE: (1, 0.0, 1, 1),
        feed_sql._PENDING: (1, 0, 1),
        feed_sql._PENDING_OF_KIND: (1, "new"),
        feed_sql._OF_REQUEST: (1, 1),
        feed_sql._OLD_REQUESTS: (1, 0.0, 1),
        feed_sql._DELETE_EVENTS: (1, 0.0, 1),
        feed_sql._DELETE_DELIVERIES: (1, 1, 0.0, 1),
        feed_sql._CAN_PRUNE: (1, 0.0, 1, 0.0),
        feed_sql._ACKNOWLEDGE: (b"", 0.0, 1, 1),
        feed_sql._PROPOSE_AGAIN: (0.0, 1, "a", 0.0),
        feed_sql._UNACKNOWLEDGED: (1,),
    }
    with closing(sqlite3.connect(tmp_path / "bot.db")) as plain:
        for statement, values in statements.items():
            plan = [row[3] for row in plain.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
            assert plan
            assert [step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step] == [], statement
            assert not any("TEMP B-TREE" in step for step in plan), statement
