"""SQL of effects, run inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final

from freight_exchange.store.rows import read_effect
from freight_exchange.store.work import Effect

__all__ = ["count_effects", "effect", "effects", "effects_under", "put_effect", "used_prefixes"]

_EFFECTS: Final = "SELECT key, state, payload, at FROM effect WHERE feed = ?"
_EFFECT: Final = f"{_EFFECTS} AND key = ?"
_EFFECTS_IN: Final = "SELECT key, state, payload, at FROM effect INDEXED BY effect_state WHERE feed = ? AND state = ?"
# The highest character ends the range: keys are compared byte by byte.
_IS_UNDER: Final = "key >= ? AND key < ? || '\U0010ffff'"
_EFFECTS_UNDER: Final = f"{_EFFECTS} AND {_IS_UNDER} ORDER BY key"
_IS_USED: Final = f"SELECT 1 FROM effect WHERE feed = ? AND {_IS_UNDER} AND state IN ({{places}}) LIMIT 1"
_COUNT_EFFECTS: Final = f"SELECT state, count(*) FROM effect WHERE feed = ? AND {_IS_UNDER} GROUP BY state"
_ADD_EFFECT: Final = """
    INSERT INTO effect (feed, key, state, payload, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (feed, key) DO NOTHING
"""
_UPDATE_EFFECT: Final = """
    UPDATE effect SET state = ?, payload = ?, at = ?
    WHERE feed = ? AND key = ? AND state = ? AND at = coalesce(?, at)
"""


def effect(connection: sqlite3.Connection, feed: int, key: str) -> Effect | None:
    """Read one effect."""
    row = connection.execute(_EFFECT, (feed, key)).fetchone()
    return None if row is None else read_effect(row)


def put_effect(
    connection: sqlite3.Connection,
    feed: int,
    effect: Effect,
    *,
    expected_state: str | None,
    expected_at: float | None = None,
) -> bool:
    """Write an effect if the stored one is the expected one, and return whether it was written."""
    if expected_state is None:
        values = (feed, effect.key, effect.state, effect.payload, effect.at)
        return connection.execute(_ADD_EFFECT, values).rowcount == 1
    changes = (effect.state, effect.payload, effect.at, feed, effect.key, expected_state, expected_at)
    return connection.execute(_UPDATE_EFFECT, changes).rowcount == 1


def effects(connection: sqlite3.Connection, feed: int, states: Sequence[str]) -> list[Effect]:
    """Read the effects in these states, or all, by time and key."""
    if not states:
        found = [read_effect(row) for row in connection.execute(_EFFECTS, (feed,))]
    else:
        found = [read_effect(row) for state in set(states) for row in connection.execute(_EFFECTS_IN, (feed, state))]
    return sorted(found, key=lambda effect: (effect.at, effect.key))


def effects_under(connection: sqlite3.Connection, feed: int, prefix: str) -> list[Effect]:
    """Read the effects whose keys begin with this text."""
    return [read_effect(row) for row in connection.execute(_EFFECTS_UNDER, (feed, prefix, prefix))]


def used_prefixes(
    connection: sqlite3.Connection, feed: int, prefixes: Collection[str], states: Collection[str]
) -> set[str]:
    """Return those of the prefixes with which the key of an effect in one of these states begins."""
    query = _IS_USED.format(places=", ".join("?" * len(states)))
    return {
        prefix
        for prefix in prefixes
        if connection.execute(query, (feed, prefix, prefix, *states)).fetchone() is not None
    }


def count_effects(connection: sqlite3.Connection, feed: int, prefix: str) -> dict[str, int]:
    """Count the effects whose keys begin with this text, by state."""
    return dict(connection.execute(_COUNT_EFFECTS, (feed, prefix, prefix)).fetchall())
