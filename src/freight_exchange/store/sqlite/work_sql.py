"""The rows of deliveries and effects, read and written inside a transaction that the caller began."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, get_args

from freight_exchange.store.sqlite import feed_sql
from freight_exchange.store.work import Delivery, DeliveryState, Effect

__all__ = [
    "behind", "claim", "deliver", "deliveries", "effect", "effects", "next_due", "overdue", "put_effect",
    "ready_by_handler", "reclaim", "replay", "settle"
]  # fmt: skip

_BY: Final = {state: f"INDEXED BY delivery_{state}" for state in ("ready", "claimed", "dead")}
"""The indexes are named: a planner that knows no figures would read through what was done long ago."""

_ACKNOWLEDGE: Final = """
    UPDATE event SET acknowledged = 1, owed = 1, at = max(at, ?) WHERE id = ? AND feed = ? AND acknowledged = 0
"""
_DELIVER: Final = """
    INSERT INTO delivery (feed, event, handler, "index", state, attempts, not_before)
    SELECT feed, id, ?, "index", 'ready', 0, ? FROM event WHERE id = ?
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
    state: _DELIVERY.format(indexed=_BY.get(state, ""), condition=f"delivery.state = '{state}'")
    + "ORDER BY delivery.event, delivery.handler LIMIT ?"
    for state in get_args(DeliveryState)
}
# By the request's events, which are few.
_ABOUT: Final = """
    SELECT delivery.event, delivery.handler, delivery."index", event.kind, event.payload, delivery.attempts,
        delivery.state, delivery.not_before, delivery.error
    FROM event INDEXED BY event_about CROSS JOIN delivery
    WHERE event.feed = ? AND event."index" = ?
        AND delivery.feed = event.feed AND delivery.event = event.id AND delivery.state = ?
    ORDER BY event.id, delivery.handler LIMIT ?
"""

# Neither behind a claimed one of its request, nor behind an earlier one of its handler's.
_FREE: Final = """
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
# What is for none of the handlers named is passed by before it is looked for what it stands behind.
_CLAIMABLE: Final = f"""
    SELECT event, handler, "index" FROM delivery INDEXED BY delivery_due
    WHERE feed = :feed AND state = 'ready' AND not_before <= :now {{named}} AND {_FREE}
    ORDER BY not_before, "index", event, handler
"""
_NEXT: Final = f"""
    SELECT not_before FROM delivery INDEXED BY delivery_due
    WHERE feed = :feed AND state = 'ready' {{named}} AND {_FREE}
    ORDER BY not_before LIMIT 1
"""
_DUE: Final = """
    SELECT 1 FROM delivery INDEXED BY delivery_due
    WHERE feed = :feed AND state = 'ready' AND not_before <= :now {named} LIMIT 1
"""
# What is put off is gathered once: a look behind each that is due would take the longer, the more stand in a row.
_OVERDUE: Final = """
    WITH put_off AS MATERIALIZED (
        SELECT "index", handler, min(event) AS event FROM delivery INDEXED BY delivery_due
        WHERE feed = :feed AND state = 'ready' AND not_before > :now AND "index" IS NOT NULL
        GROUP BY "index", handler
    )
    SELECT count(*), min(delivery.not_before) FROM delivery INDEXED BY delivery_due
    LEFT JOIN put_off ON put_off."index" = delivery."index" AND put_off.handler = delivery.handler
    WHERE delivery.feed = :feed AND delivery.state = 'ready' AND delivery.not_before <= :now {named}
        AND (put_off.event IS NULL OR put_off.event > delivery.event)
"""
_BY_HANDLER: Final = f"""
    SELECT handler, count(*) FROM delivery {_BY["ready"]} WHERE feed = ? AND state = 'ready' GROUP BY handler
"""
_CLAIM: Final = """
    UPDATE delivery SET state = 'claimed', attempts = attempts + 1 WHERE feed = ? AND event = ? AND handler = ?
"""
_RECLAIM: Final = """
    UPDATE delivery INDEXED BY delivery_claimed SET state = 'ready' WHERE feed = ? AND state = 'claimed'
"""
_SETTLE: Final = """
    UPDATE delivery SET state = ?, not_before = ?, error = ? WHERE feed = ? AND event = ? AND handler = ?
        AND state = 'claimed'
"""
_FORGIVE: Final = """
    UPDATE delivery SET state = ?, not_before = ?, error = coalesce(?, error), attempts = attempts - 1
    WHERE feed = ? AND event = ? AND handler = ? AND state = 'claimed'
"""
_SKIP: Final = """
    UPDATE delivery SET state = 'done' WHERE feed = ? AND event = ? AND handler = ? AND state = 'ready'
"""
_BEHIND: Final = (
    _DELIVERY.format(
        indexed="INDEXED BY delivery_queue",
        condition="""delivery.state = 'ready' AND delivery."index" = ? AND delivery.handler = ?
        AND delivery.event > ?""",
    )
    + "ORDER BY delivery.event"
)
_REPLAY: Final = """
    UPDATE delivery SET state = 'ready', not_before = ?, attempts = 0 WHERE feed = ? AND event = ? AND handler = ?
        AND state = 'dead'
"""
_TOUCH: Final = "UPDATE event SET at = max(at, ?) WHERE id = ?"
_FINISH: Final = """
    UPDATE event SET payload = x'', owed = 0 WHERE id = ?
        AND NOT EXISTS (SELECT 1 FROM delivery WHERE feed = ? AND event = ? AND state <> 'done')
"""

_EFFECTS: Final = "SELECT key, state, payload, at FROM effect WHERE feed = ?"
_KEYED: Final = f"{_EFFECTS} AND key = ?"
_STATED: Final = "SELECT key, state, payload, at FROM effect INDEXED BY effect_state WHERE feed = ? AND state = ?"
_BEGIN: Final = """
    INSERT INTO effect (feed, key, state, payload, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (feed, key) DO NOTHING
"""
_ADVANCE: Final = "UPDATE effect SET state = ?, payload = ?, at = ? WHERE feed = ? AND key = ? AND state = ?"


def deliver(connection: sqlite3.Connection, feed: int, handlers: Mapping[int, Sequence[str]], at: float) -> int:
    """How many events were not acknowledged before."""
    done = feed_sql.acknowledge(connection, feed, [event for event, names in handlers.items() if not names], at)
    for event, names in handlers.items():
        if names and connection.execute(_ACKNOWLEDGE, (at, event, feed)).rowcount:
            connection.executemany(_DELIVER, [(name, at, event) for name in names])
            done += 1
    return done


def claim(
    connection: sqlite3.Connection, feed: int, now: float, limit: int, handlers: Collection[str] | None
) -> list[Delivery]:
    chosen: list[tuple[int, int, str]] = []
    requests: set[int] = set()
    named, given = _named(handlers)
    with closing(connection.execute(_CLAIMABLE.format(named=named), {"feed": feed, "now": now, **given})) as claimable:
        for event, handler, index in claimable:
            if len(chosen) >= limit:
                break
            if index in requests:
                continue
            if index is not None:
                requests.add(index)
            chosen.append((feed, event, handler))
    connection.executemany(_CLAIM, chosen)
    return [_delivery(connection.execute(_ONE, one).fetchone()) for one in chosen]


def settle(
    connection: sqlite3.Connection,
    feed: int,
    event: int,
    handler: str,
    *,
    state: DeliveryState,
    not_before: float,
    error: str | None,
    forgive: bool,
    also: Sequence[int],
    at: float,
) -> None:
    change = (state, not_before, error, feed, event, handler)
    if not connection.execute(_FORGIVE if forgive else _SETTLE, change).rowcount:
        return
    _settled(connection, feed, event, state == "done", at)
    for later in also:
        if connection.execute(_SKIP, (feed, later, handler)).rowcount:
            _settled(connection, feed, later, True, at)


def _settled(connection: sqlite3.Connection, feed: int, event: int, done: bool, at: float) -> None:
    connection.execute(_TOUCH, (at, event))
    if done:
        connection.execute(_FINISH, (event, feed, event))


def behind(connection: sqlite3.Connection, feed: int, event: int, handler: str) -> list[Delivery]:
    found = connection.execute(_ONE, (feed, event, handler)).fetchone()
    if found is None or (index := _delivery(found).index) is None:
        return []
    return [_delivery(row) for row in connection.execute(_BEHIND, (feed, index, handler, event))]


def reclaim(connection: sqlite3.Connection, feed: int) -> int:
    return connection.execute(_RECLAIM, (feed,)).rowcount


def next_due(connection: sqlite3.Connection, feed: int, handlers: Collection[str] | None) -> float | None:
    named, given = _named(handlers)
    row = connection.execute(_NEXT.format(named=named), {"feed": feed, **given}).fetchone()
    return None if row is None else row[0]


def overdue(
    connection: sqlite3.Connection, feed: int, now: float, handlers: Collection[str] | None
) -> tuple[int, float | None]:
    named, given = _named(handlers)
    values = {"feed": feed, "now": now, **given}
    if connection.execute(_DUE.format(named=named), values).fetchone() is None:
        return 0, None
    count, since = connection.execute(_OVERDUE.format(named=named), values).fetchone()
    return count, since


def ready_by_handler(connection: sqlite3.Connection, feed: int) -> dict[str, int]:
    return dict(connection.execute(_BY_HANDLER, (feed,)))


def _named(handlers: Collection[str] | None) -> tuple[str, Mapping[str, str | None]]:
    """The condition that a delivery is for one of them, and its values."""
    if handlers is None:
        return "", {}
    # Where none is named, the planner finds no use for an index in an empty list, and refuses the one that it is told.
    given = {f"handler{place}": handler for place, handler in enumerate(handlers or (None,))}
    return f"AND delivery.handler IN ({', '.join(f':{name}' for name in given)})", given


def deliveries(
    connection: sqlite3.Connection, feed: int, state: DeliveryState, limit: int, index: int | None = None
) -> list[Delivery]:
    if index is None:
        found = connection.execute(_IN_STATE[state], (feed, max(0, limit)))
    else:
        found = connection.execute(_ABOUT, (feed, index, state, max(0, limit)))
    return [_delivery(row) for row in found]


def replay(connection: sqlite3.Connection, feed: int, event: int, handler: str, at: float) -> bool:
    if not connection.execute(_REPLAY, (at, feed, event, handler)).rowcount:
        return False
    connection.execute(_TOUCH, (at, event))
    return True


def effect(connection: sqlite3.Connection, feed: int, key: str) -> Effect | None:
    row = connection.execute(_KEYED, (feed, key)).fetchone()
    return None if row is None else _effect(row)


def put_effect(connection: sqlite3.Connection, feed: int, effect: Effect, was: str | None) -> bool:
    if was is None:
        begun = (feed, effect.key, effect.state, effect.payload, effect.at)
        return connection.execute(_BEGIN, begun).rowcount == 1
    advanced = (effect.state, effect.payload, effect.at, feed, effect.key, was)
    return connection.execute(_ADVANCE, advanced).rowcount == 1


def effects(connection: sqlite3.Connection, feed: int, states: Sequence[str]) -> list[Effect]:
    if not states:
        found = [_effect(row) for row in connection.execute(_EFFECTS, (feed,))]
    else:
        found = [_effect(row) for state in set(states) for row in connection.execute(_STATED, (feed, state))]
    return sorted(found, key=lambda effect: (effect.at, effect.key))


def _delivery(row: tuple[Any, ...]) -> Delivery:
    event, handler, index, kind, payload, attempts, state, not_before, error = row
    return Delivery(
        event=event,
        handler=handler,
        index=index,
        kind=kind,
        payload=payload,
        attempts=attempts,
        state=state,
        not_before=not_before,
        error=error,
    )


def _effect(row: tuple[Any, ...]) -> Effect:
    key, state, payload, at = row
    return Effect(key=key, state=state, payload=payload, at=at)
