"""Tests of the cost of deleting old rows: each batch looks up its rows, and does not read all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from tests.unit.store.postgres.databases import database_url, empty_store
from tests.unit.store.rows import BINDING

from freight_exchange.store.postgres import feed_sql
from freight_exchange.store.postgres.fleet.seat import PostgresSeat

KEPT = 20_000
BATCH = 2_000
_FILL = """
    WITH added AS (
        INSERT INTO freight_exchange.event (binding, key, "index", kind, payload, is_acknowledged, at)
        SELECT %(binding)s, 'event ' || number, number, 'new', '', true, number
        FROM generate_series(1, %(kept)s) AS number
        RETURNING binding, id, "index", at
    ), delivered AS (
        INSERT INTO freight_exchange.delivery (binding, event, handler, "index", state, attempts, not_before)
        SELECT binding, id, 'quote', "index", 'done', 1, at FROM added
    )
    INSERT INTO freight_exchange.seen
        (binding, "index", digest, record, version, first, last, scan, updated_after, missing)
    SELECT binding, "index", 'digest', 'record', 1, at, at, 1, at, 0 FROM added
"""


@pytest.fixture
def seat() -> Iterator[PostgresSeat]:
    store = empty_store()
    yield store.join(BINDING, handlers=["quote"], version="1", lease=60.0)
    store.close()


def rows_read(plan: Mapping[str, Any]) -> int:
    """Return the largest number of rows of a table that a part of the plan reads."""
    own = 0
    if "Relation Name" in plan and "Operation" not in plan:
        own = int((plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"])
    return max([own, *(rows_read(part) for part in plan.get("Plans", ()))])


@pytest.mark.parametrize("query", [feed_sql.DELETE_EVENTS, feed_sql.MAKE_TOMBSTONES], ids=["events", "requests"])
def test_batch_reads_only_its_own_rows(seat: PostgresSeat, query: str) -> None:
    values = {"binding": seat.replica.binding_id, "kept": KEPT, "before": KEPT + 1.0, "limit": BATCH}
    with psycopg.connect(database_url(), autocommit=True) as connection:
        connection.execute(_FILL, values)
        connection.execute("VACUUM ANALYZE freight_exchange.event, freight_exchange.delivery, freight_exchange.seen")
        row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", values).fetchone()
    assert row is not None
    assert rows_read(row[0][0]["Plan"]) == BATCH
