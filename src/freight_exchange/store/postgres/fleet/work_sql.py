"""Statements on deliveries and effects."""

from __future__ import annotations

from typing import Final

from freight_exchange.store.postgres.fleet.replica_sql import CHECK, FENCE_LOCK

__all__: list[str] = []

DELIVERY: Final = """
    SELECT delivery.event, delivery.handler, delivery."index", event.kind, event.payload, delivery.attempts,
        delivery.state, delivery.not_before, delivery.error
    FROM freight_exchange.delivery JOIN freight_exchange.event ON event.id = delivery.event
    WHERE delivery.binding = %(binding)s
"""
IN_STATE: Final = f"{DELIVERY} AND delivery.state = %(state)s ORDER BY delivery.event, delivery.handler LIMIT %(limit)s"
OF_REQUEST: Final = f"""
    {DELIVERY} AND event.binding = %(binding)s AND event."index" = %(index)s AND delivery.state = %(state)s
    ORDER BY delivery.event, delivery.handler LIMIT %(limit)s
"""
HAS_DELIVERY: Final = """
    SELECT EXISTS (
        SELECT FROM freight_exchange.delivery JOIN freight_exchange.event ON event.id = delivery.event
        WHERE delivery.binding = %(binding)s AND delivery.handler = %(handler)s AND event.kind = %(kind)s
    )
"""
LATER: Final = f"""
    {DELIVERY} AND delivery.state = 'ready' AND delivery.handler = %(handler)s AND delivery.event > %(event)s
        AND delivery."index" = (
            SELECT "index" FROM freight_exchange.delivery
            WHERE binding = %(binding)s AND event = %(event)s AND handler = %(handler)s
        )
    ORDER BY delivery.event
"""

# The expression in the index `delivery_waiting`. By it, the deliveries of each handler are looked up on their own, so
# that no query reads the million deliveries of a handler that the bot no longer has.
_NAME: Final = "(handler || '')"
_READY_HANDLERS: Final = f"""
    WITH RECURSIVE found AS (
        (
            SELECT {_NAME} AS handler FROM freight_exchange.delivery
            WHERE binding = %(binding)s AND state = 'ready' ORDER BY {_NAME} LIMIT 1
        )
        UNION ALL SELECT (
            SELECT {_NAME} FROM freight_exchange.delivery
            WHERE binding = %(binding)s AND state = 'ready' AND {_NAME} > found.handler ORDER BY {_NAME} LIMIT 1
        ) FROM found WHERE handler IS NOT NULL
    )
    SELECT handler FROM found WHERE handler IS NOT NULL
"""
_WANTED: Final = f"""
    unnest(coalesce(%(handlers)s::text[], ARRAY({_READY_HANDLERS})) COLLATE "C") AS wanted (handler)
"""
_IS_WANTED: Final = "(%(handlers)s::text[] IS NULL OR {table}.handler || '' = ANY(%(handlers)s))"
# No earlier delivery of its request and handler is ready. `OFFSET 0` keeps the planner from making the subquery a join:
# without statistics, as after the first scan of a long listing, it expects one row and ignores the index, which takes
# minutes. The order, here and below, is that of `delivery_queue`: otherwise the planner may use an index by time.
_IS_FIRST_OF_HANDLER: Final = """
    NOT EXISTS (
        SELECT FROM freight_exchange.delivery AS earlier
        WHERE earlier.binding = {table}.binding AND earlier."index" = {table}."index"
            AND earlier.handler = {table}.handler AND earlier.event < {table}.event AND earlier.state = 'ready'
        ORDER BY earlier.event OFFSET 0
    )
"""
# Read once, and not for each delivery: until the next vacuum the index also has all deliveries claimed before.
_CLAIMED: Final = """
    SELECT "index" FROM freight_exchange.delivery
    WHERE binding = %(binding)s AND state = 'claimed' AND "index" IS NOT NULL
"""
_IS_CLAIMABLE: Final = f"""
    (delivery."index" IS NULL OR delivery."index" NOT IN ({_CLAIMED}))
    AND {_IS_FIRST_OF_HANDLER.format(table="delivery")}
"""
# Claims only the first due delivery of each request: two replicas then try to lock the same row, and one of them skips
# it. `+ 0` keeps the search for it from using the index of due times, which has all requests. Rows that are locked for
# a handler beyond the limit are claimed next time.
#
# The statement has the fence of `Replica.fence` in it, so it needs no transaction around it: a replica that finds
# nothing to claim writes nothing.
CLAIM: Final = f"""
    WITH due AS (
        SELECT due.event, due.handler FROM {_WANTED} CROSS JOIN LATERAL (
            SELECT not_before, "index", event, handler FROM freight_exchange.delivery
            WHERE binding = %(binding)s AND state = 'ready' AND not_before <= %(now)s
                AND {_NAME} = wanted.handler AND {_IS_CLAIMABLE}
                AND NOT EXISTS (
                    SELECT FROM freight_exchange.delivery AS prior
                    WHERE prior.binding = delivery.binding AND prior."index" = delivery."index"
                        AND prior.state = 'ready' AND (prior.not_before + 0, prior.event, prior.handler)
                            < (delivery.not_before, delivery.event, delivery.handler)
                        AND {_IS_WANTED.format(table="prior")} AND {_IS_FIRST_OF_HANDLER.format(table="prior")}
                    ORDER BY prior.handler OFFSET 0
                )
            ORDER BY not_before, "index" + 0 NULLS FIRST, event
            LIMIT %(limit)s
            FOR UPDATE SKIP LOCKED
        ) AS due
        ORDER BY not_before, "index" NULLS FIRST, event, handler
        LIMIT %(limit)s
    ), fence AS (
        {CHECK} AND EXISTS (SELECT FROM due) {FENCE_LOCK}
    )
    UPDATE freight_exchange.delivery SET state = 'claimed', attempts = attempts + 1, owner = %(replica)s
    FROM due, freight_exchange.event
    WHERE EXISTS (SELECT FROM fence) AND delivery.binding = %(binding)s AND delivery.event = due.event
        AND delivery.handler = due.handler AND event.id = due.event
    RETURNING delivery.event, delivery.handler, delivery."index", event.kind, event.payload, delivery.attempts,
        delivery.state, delivery.not_before, delivery.error
"""
NEXT_DUE: Final = f"""
    SELECT min(not_before) FROM {_WANTED} CROSS JOIN LATERAL (
        SELECT not_before FROM freight_exchange.delivery
        WHERE binding = %(binding)s AND state = 'ready' AND {_NAME} = wanted.handler AND {_IS_CLAIMABLE}
        ORDER BY not_before LIMIT 1
    ) AS first
"""
# `+ 0` keeps each search from using the index of due times, which has all postponed deliveries.
_OVERDUE: Final = f"""
    {_WANTED} CROSS JOIN LATERAL (
        SELECT not_before FROM freight_exchange.delivery
        WHERE binding = %(binding)s AND state = 'ready' AND not_before <= %(now)s AND {_NAME} = wanted.handler
            AND NOT EXISTS (
                SELECT FROM freight_exchange.delivery AS earlier
                WHERE earlier.binding = delivery.binding AND earlier."index" = delivery."index"
                    AND earlier.handler = delivery.handler AND earlier.event < delivery.event
                    AND earlier.state = 'ready' AND earlier.not_before + 0 > %(now)s
                ORDER BY earlier.event OFFSET 0
            )
        ORDER BY not_before LIMIT {{limit}}
    ) AS overdue
"""
COUNT_OVERDUE: Final = f"""
    SELECT
        (SELECT count(*) FROM (SELECT FROM {_OVERDUE.format(limit="%(limit)s")} LIMIT %(limit)s) AS counted),
        (SELECT min(not_before) FROM {_OVERDUE.format(limit="1")})
"""
COUNT_READY: Final = f"""
    SELECT handler, count FROM ({_READY_HANDLERS}) AS wanted CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM freight_exchange.delivery
            WHERE binding = %(binding)s AND state = 'ready' AND {_NAME} = wanted.handler LIMIT %(limit)s
        ) AS ready
    ) AS counted
"""
SETTLE: Final = """
    UPDATE freight_exchange.delivery SET state = %(state)s, not_before = %(not_before)s,
        error = CASE WHEN %(refund)s THEN coalesce(%(error)s, error) ELSE %(error)s END,
        attempts = attempts - %(refund)s::integer, owner = NULL
    WHERE binding = %(binding)s AND event = %(event)s AND handler = %(handler)s AND state = 'claimed'
        AND owner = %(owner)s
    RETURNING "index"
"""
PUT_OFF_LATER: Final = """
    UPDATE freight_exchange.delivery SET not_before = %(not_before)s
    WHERE binding = %(binding)s AND "index" = %(index)s AND handler = %(handler)s AND event > %(event)s
        AND state = 'ready' AND not_before < %(not_before)s
"""
FINISH_READY: Final = """
    UPDATE freight_exchange.delivery SET state = 'done'
    WHERE binding = %(binding)s AND event = ANY(%(events)s) AND handler = %(handler)s AND state = 'ready'
    RETURNING event
"""
REPLAY: Final = """
    UPDATE freight_exchange.delivery SET state = 'ready', not_before = %(at)s, attempts = 0
    WHERE binding = %(binding)s AND event = %(event)s AND handler = %(handler)s AND state = 'dead'
    RETURNING "index"
"""
# Two handlers of an event about no request may settle at the same time, and the second must see what the first did.
LOCK_EVENT: Final = "SELECT FROM freight_exchange.event WHERE id = %(event)s FOR NO KEY UPDATE"
TOUCH: Final = "UPDATE freight_exchange.event SET at = greatest(at, %(at)s) WHERE id = ANY(%(events)s)"
# A separate statement, after that of the delivery: a statement does not see its own writes.
SETTLE_EVENTS: Final = """
    UPDATE freight_exchange.event
    SET at = greatest(at, %(at)s), is_owed = settled.is_owed,
        payload = CASE WHEN settled.is_owed THEN payload ELSE '' END
    FROM (
        SELECT id, EXISTS (
            SELECT FROM freight_exchange.delivery
            WHERE delivery.binding = %(binding)s AND delivery.event = id AND delivery.state <> 'done'
        ) AS is_owed
        FROM unnest(%(events)s::bigint[]) AS id
    ) AS settled
    WHERE event.id = settled.id
"""

ENQUEUE: Final = """
    WITH acknowledged AS (
        UPDATE freight_exchange.event SET is_acknowledged = true, is_owed = true, at = greatest(at, %(at)s)
        WHERE binding = %(binding)s AND id = ANY(%(events)s) AND NOT is_acknowledged
        RETURNING id, "index"
    ), added AS (
        INSERT INTO freight_exchange.delivery (binding, event, handler, "index", state, attempts, not_before)
        SELECT %(binding)s, acknowledged.id, asked.handler, acknowledged."index", 'ready', 0, greatest(%(at)s, (
            SELECT max(earlier.not_before) FROM freight_exchange.delivery AS earlier
            WHERE earlier.binding = %(binding)s AND earlier."index" = acknowledged."index"
                AND earlier.handler = asked.handler AND earlier.event < acknowledged.id AND earlier.state = 'ready'
        ))
        FROM acknowledged JOIN unnest(%(events)s::bigint[], %(handlers)s::text[]) AS asked (event, handler)
            ON asked.event = acknowledged.id
        ON CONFLICT DO NOTHING
    )
    SELECT count(*) FROM acknowledged
"""

EFFECT: Final = "SELECT key, state, payload, at FROM freight_exchange.effect WHERE binding = %(binding)s"
IS_UNDER: Final = "key >= %(prefix)s AND key < %(prefix)s || chr(1114111)"
# `ORDER BY` makes each look-up use the primary key, and end at the first match, instead of the index by state.
USED_PREFIXES: Final = """
    SELECT prefix FROM unnest(%(prefixes)s::text[]) AS prefix
    WHERE EXISTS (
        SELECT FROM freight_exchange.effect
        WHERE binding = %(binding)s AND key >= prefix AND key < prefix || chr(1114111) AND state = ANY(%(states)s)
        ORDER BY key OFFSET 0
    )
"""
COUNT_EFFECTS: Final = f"""
    SELECT state, count(*) FROM freight_exchange.effect WHERE binding = %(binding)s AND {IS_UNDER} GROUP BY state
"""
ADD_EFFECT: Final = """
    INSERT INTO freight_exchange.effect (binding, key, state, payload, at, owner)
    VALUES (%(binding)s, %(key)s, %(state)s, %(payload)s, %(at)s, %(owner)s) ON CONFLICT (binding, key) DO NOTHING
"""
UPDATE_EFFECT: Final = """
    UPDATE freight_exchange.effect SET state = %(state)s, payload = %(payload)s, at = %(at)s, owner = %(owner)s
    WHERE binding = %(binding)s AND key = %(key)s AND state = %(expected_state)s
        AND at = coalesce(%(expected_at)s::double precision, at)
"""
AMEND_EFFECT: Final = """
    UPDATE freight_exchange.effect SET state = %(state)s, payload = %(payload)s, at = %(at)s
    WHERE binding = %(binding)s AND key = %(key)s
"""

ADOPT_DELIVERIES: Final = """
    UPDATE freight_exchange.delivery SET owner = %(owner)s
    WHERE binding = %(binding)s AND state = 'claimed'
        AND owner IN (SELECT id FROM freight_exchange.replica WHERE binding = %(binding)s AND has_left)
    RETURNING event, handler
"""
ADOPT_EFFECTS: Final = """
    UPDATE freight_exchange.effect SET owner = %(owner)s
    WHERE binding = %(binding)s AND state IN ('sending', 'unknown')
        AND owner IN (SELECT id FROM freight_exchange.replica WHERE binding = %(binding)s AND has_left)
    RETURNING key, state, payload, at
"""
