"""What operators ask of a store, and what they change: statements that work beside running replicas.

Each change names the state that it expects, so it needs neither a lease nor the lock of a file: open the store by
`open_store(target, beside=True)`. A running bot sees the change at its next claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange.errors import ConfigurationError
from freight_exchange.store.schema import OPEN

if TYPE_CHECKING:
    from freight_exchange.store.database import Database

__all__ = [
    "BindingRow", "DeadLetter", "FeedRow", "OpenEffect", "Overview", "StoredGap", "ack_gaps", "bindings", "choose",
    "dead_letters", "doubts", "drop", "gaps", "overview", "replay",
]  # fmt: skip

DEFAULT_NAME: Final = "default"


@attrs.frozen
class BindingRow:
    """A bot or a feed in a store: its row, and the service, account and name that it belongs to."""

    id: int
    url: str
    account: str
    name: str


@attrs.frozen
class DeadLetter:
    """A delivery that its handler has failed for good.

    Attributes:
        event, kind, payload, subject: The event's number, kind and content, and its request.
        handler: The handler's name.
        feed: The feed's name.
        attempts: How often it was claimed.
        error: The error of the last attempt.
        at: When it died, on the store's clock.
    """

    event: int
    handler: str
    feed: str
    kind: str
    payload: bytes
    subject: int | None
    attempts: int
    error: str | None
    at: float


@attrs.frozen
class OpenEffect:
    """A write whose outcome is open; `holder` describes the living replica that resolves it, if there is one."""

    id: int
    key: str
    kind: str
    subject: int | None
    state: str
    version: int
    revision: int
    event: int | None
    payload: bytes
    at: float
    holder: str | None


@attrs.frozen
class StoredGap:
    """An event that requests may have been missed, and that nobody has acknowledged."""

    event: int
    feed: str
    payload: bytes
    at: float


@attrs.frozen
class FeedRow:
    """A feed's name, its state, and the living replica that scans it, if there is one."""

    name: str
    state: str | None
    holder: str | None


@attrs.frozen(kw_only=True)
class Overview:
    """State of a bot at one moment.

    Attributes:
        deliveries: The number of deliveries by state.
        handlers: The number of ready deliveries by handler.
        effects: The number of effects by kind and state.
        unacked: The number of events that were not acknowledged, by feed.
        gaps: The number of gaps that were not acknowledged.
        due_since: The earliest time from which a ready delivery could be claimed, or `None`.
        replicas: Descriptions of the living replicas.
        feeds: Its feeds.
    """

    deliveries: Mapping[str, int]
    handlers: Mapping[str, int]
    effects: Mapping[tuple[str, str], int]
    unacked: Mapping[str, int]
    gaps: int
    due_since: float | None
    replicas: tuple[str, ...]
    feeds: tuple[FeedRow, ...]


_HANDLERS: Final = "SELECT id FROM handler WHERE binding = :binding"
_FEEDS: Final = "SELECT id FROM feed WHERE binding = :binding"
_GAP: Final = f"kind = 'gap' AND NOT acked AND feed IN ({_FEEDS})"

_COUNTS: Final = f"""
SELECT 'delivery' AS what, state AS a, '' AS b, count(*) AS n FROM delivery
    WHERE handler IN ({_HANDLERS}) GROUP BY state
UNION ALL SELECT 'handler', handler.name, '', count(*) FROM delivery JOIN handler ON handler.id = delivery.handler
    WHERE handler.binding = :binding AND state = 'ready' GROUP BY handler.name
UNION ALL SELECT 'effect', kind, state, count(*) FROM effect WHERE binding = :binding GROUP BY kind, state
UNION ALL SELECT 'unacked', feed.name, '', count(*) FROM event JOIN feed ON feed.id = event.feed
    WHERE feed.binding = :binding AND NOT event.acked GROUP BY feed.name
UNION ALL SELECT 'gap', '', '', count(*) FROM event WHERE {_GAP}
"""
_DEAD: Final = """
SELECT event.id, handler.name, feed.name, event.kind, event.payload, delivery.subject, delivery.attempts,
    delivery.error, delivery.not_before
FROM delivery JOIN event ON event.id = delivery.event JOIN handler ON handler.id = delivery.handler
    JOIN feed ON feed.id = event.feed
WHERE delivery.state = 'dead' AND handler.binding = :binding
ORDER BY event.id, handler.name LIMIT :limit
"""
_DOUBTS: Final = f"""
SELECT effect.id, key, kind, subject, state, version, revision, event, payload, at, holder
FROM effect LEFT JOIN replica ON replica.id = effect.owner AND replica.lease_until > {{NOW}}
WHERE effect.binding = :binding AND state IN {OPEN} ORDER BY at, effect.id
"""


def bindings(db: Database) -> list[BindingRow]:
    """Return the bots and feeds of the store, in the order of their creation."""
    return [BindingRow(*row) for row in db.run("SELECT id, url, account, name FROM binding ORDER BY id")]


def choose(db: Database, name: str | None = None) -> BindingRow:
    """Return the bot of this name, or the only one.

    Raises:
        ConfigurationError: There is none, or there are several.
    """
    found = bindings(db)
    chosen = [row for row in found if name in (None, row.name)]
    if name is None and len(chosen) > 1:
        chosen = [row for row in found if row.name == DEFAULT_NAME]
    if len(chosen) == 1:
        return chosen[0]
    if not found:
        raise ConfigurationError(f"{db.place} has no bot yet: start one with it first")
    names = ", ".join(f"{row.name!r} ({row.account} at {row.url})" for row in found)
    if name is None:
        raise ConfigurationError(f"the name of a bot is needed: {db.place} has {names}")
    raise ConfigurationError(f"{db.place} has {'several bots' if chosen else 'no bot'} {name!r}: it has {names}")


def dead_letters(db: Database, binding: int, *, limit: int = 1000) -> list[DeadLetter]:
    """Return the first dead letters, by event and handler. A settlement as dead writes its time into `not_before`."""
    return [DeadLetter(*row) for row in db.run(_DEAD, binding=binding, limit=limit)]


def replay(db: Database, binding: int, event: int, handler: str) -> bool:
    """Make a dead letter ready again with its attempts reset; its error is kept. Return whether there was one."""
    db.wake("work")
    replayed = db.run(
        "UPDATE delivery SET state = 'ready', attempts = 0, not_before = :now WHERE event = :event AND state = 'dead'"
        f" AND handler IN ({_HANDLERS} AND name = :handler)",
        binding=binding,
        event=event,
        handler=handler,
        now=db.now,
    )
    return bool(replayed.rowcount)


def drop(db: Database, binding: int, event: int, handler: str) -> bool:
    """Discard a dead letter, or a delivery that waits: it counts as done. Return whether there was one."""
    dropped = db.run(
        "UPDATE delivery SET state = 'done', not_before = :now WHERE event = :event AND state IN ('dead', 'ready')"
        f" AND handler IN ({_HANDLERS} AND name = :handler)",
        binding=binding,
        event=event,
        handler=handler,
        now=db.now,
    )
    return bool(dropped.rowcount)


def doubts(db: Database, binding: int) -> list[OpenEffect]:
    """Return the effects whose outcome is open, by time."""
    return [OpenEffect(*row) for row in db.run(_DOUBTS, binding=binding)]


def gaps(db: Database, binding: int) -> list[StoredGap]:
    """Return the gaps that were not acknowledged, by event."""
    found = db.run(
        "SELECT event.id, feed.name, payload, at FROM event JOIN feed ON feed.id = event.feed"
        f" WHERE {_GAP} ORDER BY event.id",
        binding=binding,
    )
    return [StoredGap(*row) for row in found]


def ack_gaps(db: Database, binding: int) -> int:
    """Acknowledge all gaps, and return their number."""
    return int(db.run(f"UPDATE event SET acked = true WHERE {_GAP}", binding=binding).rowcount)


def overview(db: Database, binding: int) -> Overview:
    """Return the state of a bot."""
    counts: dict[str, dict[tuple[str, str], int]] = {}
    for what, first, second, number in db.run(_COUNTS, binding=binding):
        counts.setdefault(what, {})[first, second] = number
    (due_since,) = db.run(
        f"SELECT min(not_before) FROM delivery WHERE state = 'ready' AND handler IN ({_HANDLERS})", binding=binding
    ).fetchone()
    replicas = db.run(
        "SELECT holder FROM replica WHERE binding = :binding AND lease_until > {NOW} ORDER BY joined", binding=binding
    )
    feeds = db.run(
        "SELECT feed.name, feed.state, holder FROM feed LEFT JOIN replica ON replica.id = feed.owner"
        " AND feed.lease_until > {NOW} AND replica.lease_until > {NOW} WHERE feed.binding = :binding ORDER BY feed.id",
        binding=binding,
    )
    return Overview(
        deliveries=_by_first(counts.get("delivery", {})),
        handlers=_by_first(counts.get("handler", {})),
        effects=counts.get("effect", {}),
        unacked=_by_first(counts.get("unacked", {})),
        gaps=sum(counts.get("gap", {}).values()),
        due_since=due_since,
        replicas=tuple(holder for (holder,) in replicas),
        feeds=tuple(FeedRow(*row) for row in feeds),
    )


def _by_first(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    return {first: number for (first, _), number in counts.items()}
