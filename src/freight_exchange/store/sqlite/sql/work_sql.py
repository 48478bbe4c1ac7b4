"""SQL of deliveries, run inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Final, get_args

from freight_exchange.store.rows import read_delivery
from freight_exchange.store.sqlite.sql import feed_sql
from freight_exchange.store.work import Delivery, DeliveryState

__all__ = [
    "claim", "count_overdue", "count_ready_by_handler", "deliveries", "enqueue", "has_delivery", "later_deliveries",
    "next_due", "replay", "settle",
]  # fmt: skip

_INDEX_OF: Final = {state: f"INDEXED BY delivery_{state}" for state in ("ready", "claimed", "dead")}
"""Indexes by state. They are forced: without statistics the planner would scan all finished deliveries."""

_ACKNOWLEDGE: Final = """
    UPDATE event SET acknowledged = 1, owed = 1, at = max(at, ?) WHERE id = ? AND feed = ? AND acknowledged = 0
"""
_ADD_DELIVERY: Final = """
    INSERT INTO delivery (feed, event, handler, "index", state, attempts, not_before)
    SELECT feed, id, :handler, "index", 'ready', 0, max(:at, coalesce((
        SELECT max(earlier.not_before) FROM delivery AS earlier INDEXED BY delivery_queue
        WHERE earlier.feed = event.feed AND earlier."index" = event."index" AND earlier.handler = :handler
            AND earlier.event < event.id AND earlier.state = 'ready'
    ), :at))
    FROM event WHERE id = :event
    ON CONFLICT (feed, event, handler) DO NOTHING
"""
_DELIVERY: Final = """
    SELECT delivery.event, delivery.handler, delivery."index", event.kind, event.payload, delivery.attempts,
        delivery.state, delivery.not_before, delivery.error
    FROM delivery {indexed} CROSS JOIN event ON event.id = delivery.event
    WHERE delivery.feed = ? AND {condition}
"""
_ONE: Final = _DELIVERY.format(indexed="", condition="delivery.event = ? AND delivery.handler = ?")
_IN_STATE: Final = {
    state: _DELIVERY.format(indexed=_INDEX_OF.get(state, ""), condition=f"delivery.state = '{state}'")
    + "ORDER BY delivery.event, delivery.handler LIMIT ?"
    for state in get_args(DeliveryState)
}
# Starts from the request's events, which are few.
_OF_REQUEST: Final = """
    SELECT delivery.event, delivery.handler, delivery."index", event.kind, event.payload, delivery.attempts,
        delivery.state, delivery.not_before, delivery.error
    FROM event INDEXED BY event_about CROSS JOIN delivery
    WHERE event.feed = ? AND event."index" = ?
        AND delivery.feed = event.feed AND delivery.event = event.id AND delivery.state = ?
    ORDER BY event.id, delivery.handler LIMIT ?
"""

_HAS_DELIVERY: Final = """
    SELECT 1 FROM delivery CROSS JOIN event ON event.id = delivery.event
    WHERE delivery.feed = ? AND delivery.handler = ? AND event.kind = ? LIMIT 1
"""

# No delivery of its request is claimed, and no earlier one of its request and handler is ready.
_IS_CLAIMABLE: Final = """
    NOT EXISTS (
        SELECT 1 FROM delivery AS claimed INDEXED BY delivery_claimed
        WHERE claimed.feed = delivery.feed AND claimed."index" = delivery."index" AND claimed.state = 'claimed'
    )
    AND NOT EXISTS (
        SELECT 1 FROM delivery AS earlier INDEXED BY delivery_queue
        WHERE earlier.feed = delivery.feed AND earlier."index" = delivery."index"
            AND earlier.handler = delivery.handler AND earlier.event < delivery.event AND earlier.state = 'ready'
    )
"""
# The handler filter comes first: it is cheaper than the two subqueries.
_CLAIMABLE: Final = f"""
    SELECT event, handler, "index" FROM delivery INDEXED BY delivery_due
    WHERE feed = :feed AND state = 'ready' AND not_before <= :now {{handler_filter}} AND {_IS_CLAIMABLE}
    ORDER BY not_before, "index", event, handler
"""
_NEXT_DUE: Final = f"""
    SELECT not_before FROM delivery INDEXED BY delivery_due
    WHERE feed = :feed AND state = 'ready' {{handler_filter}} AND {_IS_CLAIMABLE}
    ORDER BY not_before LIMIT 1
"""
_ANY_DUE: Final = """
    SELECT 1 FROM delivery INDEXED BY delivery_due
    WHERE feed = :feed AND state = 'ready' AND not_before <= :now {handler_filter} LIMIT 1
"""
# Gathers postponed deliveries once: a subquery for each due one would take quadratic time on long queues.
_COUNT_OVERDUE: Final = """
    WITH postponed AS MATERIALIZED (
        SELECT "index", handler, min(event) AS event FROM delivery INDEXED BY delivery_due
        WHERE feed = :feed AND state = 'ready' AND not_before > :now AND "index" IS NOT NULL
        GROUP BY "index", handler
    )
    SELECT count(*), min(not_before) FROM (
        SELECT delivery.not_before FROM delivery INDEXED BY delivery_due
        LEFT JOIN postponed ON postponed."index" = delivery."index" AND postponed.handler = delivery.handler
        WHERE delivery.feed = :feed AND delivery.state = 'ready' AND delivery.not_before <= :now {handler_filter}
            AND (postponed.event IS NULL OR postponed.event > delivery.event)
        ORDER BY delivery.not_before LIMIT :limit
    )
"""
_COUNT_READY: Final = """
    SELECT handler, min(count(*), ?) FROM delivery INDEXED BY delivery_ready
    WHERE feed = ? AND state = 'ready' GROUP BY handler
"""
_CLAIM: Final = """
    UPDATE delivery SET state = 'claimed', attempts = attempts + 1 WHERE feed = ? AND event = ? AND handler = ?
"""
_SETTLE: Final = """
    UPDATE delivery SET state = ?, not_before = ?, error = ? WHERE feed = ? AND event = ? AND handler = ?
        AND state = 'claimed'
"""
_SETTLE_WITH_REFUND: Final = """
    UPDATE delivery SET state = ?, not_before = ?, error = coalesce(?, error), attempts = attempts - 1
    WHERE feed = ? AND event = ? AND handler = ? AND state = 'claimed'
"""
_FINISH_READY: Final = """
    UPDATE delivery SET state = 'done' WHERE feed = ? AND event = ? AND handler = ? AND state = 'ready'
"""
_LATER: Final = (
    _DELIVERY.format(
        indexed="INDEXED BY delivery_queue",
        condition="""delivery.state = 'ready' AND delivery."index" = ? AND delivery.handler = ?
        AND delivery.event > ?""",
    )
    + "ORDER BY delivery.event"
)
_PUT_OFF_LATER: Final = """
    UPDATE delivery INDEXED BY delivery_queue SET not_before = :not_before
    WHERE feed = :feed AND "index" = (
        SELECT "index" FROM delivery WHERE feed = :feed AND event = :event AND handler = :handler
    ) AND handler = :handler AND event > :event AND state = 'ready' AND not_before < :not_before
"""
_REPLAY: Final = """
    UPDATE delivery SET state = 'ready', not_before = ?, attempts = 0 WHERE feed = ? AND event = ? AND handler = ?
        AND state = 'dead'
"""
_TOUCH: Final = "UPDATE event SET at = max(at, ?) WHERE id = ?"
_FINISH_EVENT: Final = """
    UPDATE event SET payload = x'', owed = 0 WHERE id = ?
        AND NOT EXISTS (SELECT 1 FROM delivery WHERE feed = ? AND event = ? AND state <> 'done')
"""


def enqueue(connection: sqlite3.Connection, feed: int, handlers: Mapping[int, Sequence[str]], at: float) -> int:
    """Acknowledge events, add their deliveries, and return how many of the events were pending."""
    count = feed_sql.acknowledge(connection, feed, [event for event, names in handlers.items() if not names], at)
    for event, names in handlers.items():
        if names and connection.execute(_ACKNOWLEDGE, (at, event, feed)).rowcount:
            connection.executemany(_ADD_DELIVERY, [{"handler": name, "at": at, "event": event} for name in names])
            count += 1
    return count


def claim(
    connection: sqlite3.Connection, feed: int, now: float, limit: int, handlers: Collection[str] | None
) -> list[Delivery]:
    """Claim deliveries that are due, at most one for each request."""
    chosen: list[tuple[int, int, str]] = []
    requests: set[int] = set()
    condition, parameters = _handler_filter(handlers)
    select, values = _CLAIMABLE.format(handler_filter=condition), {"feed": feed, "now": now, **parameters}
    with closing(connection.execute(select, values)) as claimable:
        for event, handler, index in claimable:
            if len(chosen) >= limit:
                break
            if index in requests:
                continue
            if index is not None:
                requests.add(index)
            chosen.append((feed, event, handler))
    connection.executemany(_CLAIM, chosen)
    return [read_delivery(connection.execute(_ONE, key).fetchone()) for key in chosen]


def settle(
    connection: sqlite3.Connection,
    feed: int,
    event: int,
    handler: str,
    *,
    state: DeliveryState,
    not_before: float,
    error: str | None,
    refund_attempt: bool,
    also_done: Sequence[int],
    at: float,
) -> bool:
    """Record the result of a claimed delivery, and return whether there was one."""
    values = (state, not_before, error, feed, event, handler)
    if not connection.execute(_SETTLE_WITH_REFUND if refund_attempt else _SETTLE, values).rowcount:
        return False
    if state == "ready":
        _put_off_later(connection, feed, event, handler, not_before)
    _touch_event(connection, feed, event, state == "done", at)
    for later in also_done:
        if connection.execute(_FINISH_READY, (feed, later, handler)).rowcount:
            _touch_event(connection, feed, later, True, at)
    return True


def _put_off_later(connection: sqlite3.Connection, feed: int, event: int, handler: str, not_before: float) -> None:
    values = {"feed": feed, "event": event, "handler": handler, "not_before": not_before}
    connection.execute(_PUT_OFF_LATER, values)


def _touch_event(connection: sqlite3.Connection, feed: int, event: int, is_done: bool, at: float) -> None:
    connection.execute(_TOUCH, (at, event))
    if is_done:
        connection.execute(_FINISH_EVENT, (event, feed, event))


def has_delivery(connection: sqlite3.Connection, feed: int, handler: str, kind: str) -> bool:
    """Look for a delivery of an event of this kind to the handler."""
    return connection.execute(_HAS_DELIVERY, (feed, handler, kind)).fetchone() is not None


def later_deliveries(connection: sqlite3.Connection, feed: int, event: int, handler: str) -> list[Delivery]:
    """Read the ready deliveries of later events to the same handler."""
    row = connection.execute(_ONE, (feed, event, handler)).fetchone()
    if row is None or (index := read_delivery(row).index) is None:
        return []
    return [read_delivery(row) for row in connection.execute(_LATER, (feed, index, handler, event))]


def next_due(connection: sqlite3.Connection, feed: int, handlers: Collection[str] | None) -> float | None:
    """Read the earliest due time of the deliveries that no other one blocks."""
    condition, parameters = _handler_filter(handlers)
    row = connection.execute(_NEXT_DUE.format(handler_filter=condition), {"feed": feed, **parameters}).fetchone()
    return None if row is None else row[0]


def count_overdue(
    connection: sqlite3.Connection, feed: int, now: float, limit: int, handlers: Collection[str] | None
) -> tuple[int, float | None]:
    """Count the due deliveries, and read the due time of the first."""
    condition, parameters = _handler_filter(handlers)
    values = {"feed": feed, "now": now, "limit": limit, **parameters}
    if connection.execute(_ANY_DUE.format(handler_filter=condition), values).fetchone() is None:
        return 0, None
    count, since = connection.execute(_COUNT_OVERDUE.format(handler_filter=condition), values).fetchone()
    return count, since


def count_ready_by_handler(connection: sqlite3.Connection, feed: int, limit: int) -> dict[str, int]:
    """Count the ready deliveries of each handler, up to a limit."""
    return dict(connection.execute(_COUNT_READY, (limit, feed)))


def _handler_filter(handlers: Collection[str] | None) -> tuple[str, Mapping[str, str | None]]:
    """Return an SQL condition that limits deliveries to these handlers, and its parameters."""
    if handlers is None:
        return "", {}
    # With an empty list the planner would reject the forced index.
    parameters = {f"handler{place}": handler for place, handler in enumerate(handlers or (None,))}
    return f"AND delivery.handler IN ({', '.join(f':{name}' for name in parameters)})", parameters


def deliveries(
    connection: sqlite3.Connection, feed: int, state: DeliveryState, limit: int, index: int | None = None
) -> list[Delivery]:
    """Read the first deliveries in one state, of one request or of all."""
    if index is None:
        rows = connection.execute(_IN_STATE[state], (feed, max(0, limit)))
    else:
        rows = connection.execute(_OF_REQUEST, (feed, index, state, max(0, limit)))
    return [read_delivery(row) for row in rows]


def replay(connection: sqlite3.Connection, feed: int, event: int, handler: str, at: float) -> bool:
    """Make a dead delivery ready, and return whether there was one."""
    if not connection.execute(_REPLAY, (at, feed, event, handler)).rowcount:
        return False
    _put_off_later(connection, feed, event, handler, at)
    connection.execute(_TOUCH, (at, event))
    return True
