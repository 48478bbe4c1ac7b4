"""Statements on a feed's requests and events."""

from __future__ import annotations

from typing import Final

__all__: list[str] = []

PRUNE_BATCH: Final = 10_000
"""Rows pruned in one transaction, which bounds how long a commit waits for pruning."""

_COLUMNS: Final = ("index", "digest", "record", "version", "first", "last", "scan", "updated_after", "missing")
_REQUEST: Final = ", ".join(f'"{column}"' for column in _COLUMNS)
TRACKED: Final = (
    f'SELECT {_REQUEST} FROM freight_exchange.seen WHERE binding = %(binding)s AND "index" = ANY(%(indexes)s)'
)
ABSENT: Final = f"""
    SELECT {_REQUEST} FROM freight_exchange.seen
    WHERE binding = %(binding)s AND updated_after >= %(after)s AND scan < %(scan)s AND record IS NOT NULL
        AND digest <> ''
    ORDER BY updated_after, "index"
"""
LIVE: Final = f"""
    SELECT {_REQUEST} FROM freight_exchange.seen
    WHERE binding = %(binding)s AND record IS NOT NULL AND digest <> ''
        AND (updated_after, "index") > (%(after)s::float8, %(index)s::bigint)
    ORDER BY updated_after, "index" LIMIT %(limit)s
"""
# Bytes are sent as they are (`b`): as text they would take twice as many.
# One statement writes many rows: for the rest of a pipeline of statements, the server would wait without a limit.
PUT_REQUESTS: Final = f"""
    INSERT INTO freight_exchange.seen (binding, {_REQUEST})
    SELECT %(binding)s, new.* FROM unnest(
        %(indexes)s::bigint[], %(digests)b::bytea[], %(records)b::bytea[], %(versions)s::bigint[], %(first)s::float8[],
        %(last)s::float8[], %(scans)s::bigint[], %(updated_after)s::float8[], %(missing)s::bigint[]
    ) AS new
    ON CONFLICT (binding, "index") DO UPDATE SET
        {", ".join(f'"{column}" = excluded."{column}"' for column in _COLUMNS if column != "index")}
"""
# Inserts in the order of the arrays, so that the numbers of events follow it.
ADD_EVENTS: Final = """
    INSERT INTO freight_exchange.event (binding, key, "index", kind, payload, at)
    SELECT %(binding)s, key, "index", kind, payload, %(at)s
    FROM unnest(%(keys)s::text[], %(indexes)s::bigint[], %(kinds)s::text[], %(payloads)b::bytea[])
        WITH ORDINALITY AS new (key, "index", kind, payload, place)
    ORDER BY place
    ON CONFLICT (binding, key) DO NOTHING
"""
PROPOSE_AGAIN: Final = """
    UPDATE freight_exchange.event SET at = %(at)s WHERE binding = %(binding)s AND key = ANY(%(keys)s) AND at < %(at)s
"""
EVENT: Final = """
    SELECT id, "index", kind, payload, is_acknowledged, is_filtered AND NOT is_owed
    FROM freight_exchange.event WHERE binding = %(binding)s
"""
UNACKNOWLEDGED: Final = """
    SELECT count(*) FROM freight_exchange.event WHERE binding = %(binding)s AND NOT is_acknowledged
"""
ACKNOWLEDGE: Final = """
    UPDATE freight_exchange.event
    SET is_acknowledged = true, payload = '', is_filtered = %(is_filtered)s, at = greatest(at, %(at)s)
    WHERE binding = %(binding)s AND id = ANY(%(ids)s) AND NOT is_acknowledged
"""
ACKNOWLEDGE_KIND: Final = """
    UPDATE freight_exchange.event SET is_acknowledged = true, payload = '', at = greatest(at, %(at)s)
    WHERE binding = %(binding)s AND kind = %(kind)s AND NOT is_acknowledged
"""
# The rows are looked up by arrays. For a join, the planner reads the whole table in each batch.
MAKE_TOMBSTONES: Final = """
    UPDATE freight_exchange.seen SET record = NULL, last = 0, scan = 0, updated_after = 0, missing = 0
    WHERE binding = %(binding)s AND "index" = ANY(ARRAY(
        SELECT "index" FROM freight_exchange.seen
        WHERE binding = %(binding)s AND last < %(before)s AND record IS NOT NULL ORDER BY last LIMIT %(limit)s
    ))
"""
DELETE_EVENTS: Final = """
    WITH finished AS (
        SELECT id FROM freight_exchange.event
        WHERE binding = %(binding)s AND at < %(before)s AND is_acknowledged AND NOT is_owed
        ORDER BY at, id LIMIT %(limit)s
    ), deleted AS (
        DELETE FROM freight_exchange.delivery
        WHERE binding = %(binding)s AND event = ANY(ARRAY(SELECT id FROM finished))
    )
    DELETE FROM freight_exchange.event WHERE id = ANY(ARRAY(SELECT id FROM finished))
"""
CAN_PRUNE: Final = """
    SELECT EXISTS (
        SELECT FROM freight_exchange.seen WHERE binding = %(binding)s AND last < %(before)s AND record IS NOT NULL
    ) OR EXISTS (
        SELECT FROM freight_exchange.event
        WHERE binding = %(binding)s AND at < %(before)s AND is_acknowledged AND NOT is_owed
    )
"""
