"""Items, events and states of feeds. Statements only.

An item is what a feed tracks: a request, an offer, a selected bid, or a row that cannot be read. It keeps the digest
of its last state for good, and its record for as long as `prune` allows. An empty digest means that it is told as gone.

Item times are on the feed's own clock, event times on the store's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from freight_exchange.errors import FencedError

if TYPE_CHECKING:
    from freight_exchange.store.database import Database

_PRUNED_AT_A_TIME: Final = 5000


class Item(NamedTuple):
    """Item of a feed.

    Attributes:
        subject: Index of its request, or `None`.
        digest: Digest of its last state; empty once it is reported as gone.
        record: Its last state; `None` for one that was last seen long ago, or cannot be read.
        version: Number of its events; 0 for one that was there before the feed.
        last_seen: When a scan last listed it, or a look-up denied it.
        updated_after: Time after which it was last updated, at the earliest.
    """

    key: str
    subject: int | None
    digest: bytes
    record: bytes | None
    version: int
    first_seen: float
    last_seen: float
    updated_after: float


class NewEvent(NamedTuple):
    """Event to add. Its key is unique in its feed: a second one is ignored."""

    key: str
    subject: int | None
    kind: str
    payload: bytes


class EventRow(NamedTuple):
    id: int
    subject: int | None
    kind: str
    payload: bytes
    acked: bool


_COLUMNS: Final = ", ".join(Item._fields)
_PUT_ITEM: Final = f"""INSERT INTO item (feed, {_COLUMNS})
    VALUES (:feed, {", ".join(f":{name}" for name in Item._fields)})
    ON CONFLICT (feed, key) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in Item._fields[1:])}"""
_TOUCH_ITEM: Final = """UPDATE item SET last_seen = :last_seen, updated_after = :updated_after
    WHERE feed = :feed AND key = :key"""
_ADD_EVENT: Final = """INSERT INTO event (feed, key, subject, kind, payload, at)
    VALUES (:feed, :key, :subject, :kind, :payload, :at) ON CONFLICT (feed, key) DO NOTHING"""
_HOLD: Final = """UPDATE feed SET lease_until = {NOW} + :lease
    WHERE id = :feed AND owner = :me AND epoch = :epoch AND :state IN ('', coalesce(state, ''))"""


def find_feed(db: Database, binding: int, name: str) -> int:
    """Return the row of a feed; insert it if it is new."""
    sql = "INSERT INTO feed (binding, name) VALUES (:binding, :name) ON CONFLICT (binding, name) DO NOTHING"
    db.run(sql, binding=binding, name=name)
    sql = "SELECT id FROM feed WHERE binding = :binding AND name = :name"
    return int(db.run(sql, binding=binding, name=name).fetchone()[0])


def hold(db: Database, me: int, feed: int, epoch: int, lease: float, state: str = "") -> None:
    """Lock the feed until the commit, and extend its lease: the first statement of each transaction that adds events.

    `state` is the one that this scan has written last; an empty one is not checked.

    Raises:
        FencedError: Another scan has taken the feed over, or an earlier copy of the store was put back.
    """
    if not db.run(_HOLD, feed=feed, me=me, epoch=epoch, lease=lease, state=state).rowcount:
        raise FencedError(
            f"this feed in {db.place} is not held any more: another process reads it, or an earlier copy was put back"
        )


def lock(db: Database, feed: int) -> None:
    """Lock the feed until the commit, without its lease: the ids of its events follow the commits."""
    db.run("UPDATE feed SET epoch = epoch WHERE id = :feed", feed=feed)


def holder_of(db: Database, feed: int) -> str:
    """Return a description of the process that scans a feed."""
    sql = "SELECT holder FROM feed JOIN replica ON replica.id = feed.owner WHERE feed.id = :feed"
    row = db.run(sql, feed=feed).fetchone()
    return "another process" if row is None else str(row[0])


def load_state(db: Database, feed: int) -> str | None:
    """Return the state of a feed; `None` before its first scan."""
    row = db.run("SELECT state FROM feed WHERE id = :feed", feed=feed).fetchone()
    return None if row is None else row[0]


def put_state(db: Database, feed: int, state: str) -> None:
    db.run("UPDATE feed SET state = :state WHERE id = :feed", feed=feed, state=state)


# Items


def items(db: Database, feed: int, keys: Sequence[str]) -> dict[str, Item]:
    rows = db.among(f"SELECT {_COLUMNS} FROM item WHERE feed = :feed AND key IN ({{keys}})", "keys", keys, feed=feed)
    return {row[0]: _item(row) for row in rows}


def items_of(db: Database, feed: int, subject: int) -> list[Item]:
    sql = f"SELECT {_COLUMNS} FROM item WHERE feed = :feed AND subject = :subject"
    return [*map(_item, db.run(sql, feed=feed, subject=subject))]


def live_items(db: Database, feed: int, updated_after: float) -> list[Item]:
    """Return the items, without their records, that were last updated after a time and are not told as gone."""
    columns = _COLUMNS.replace("record", "NULL")
    sql = f"SELECT {columns} FROM item WHERE feed = :feed AND updated_after > :after AND record IS NOT NULL"
    return [item for item in map(_item, db.run(sql, feed=feed, after=updated_after)) if item.digest]


def put_items(db: Database, feed: int, rows: Sequence[Item]) -> None:
    db.many(_PUT_ITEM, [{"feed": feed, **row._asdict()} for row in rows])


def touch_items(db: Database, feed: int, rows: Sequence[Item]) -> None:
    """Record when items without a change were last seen."""
    names = ("key", "last_seen", "updated_after")
    db.many(_TOUCH_ITEM, [{"feed": feed, **{name: getattr(row, name) for name in names}} for row in rows])


def _item(row: Sequence[object]) -> Item:
    made = Item(*row)  # type: ignore[arg-type]  # the columns are in this order
    return made._replace(digest=bytes(made.digest), record=None if made.record is None else bytes(made.record))


# Events


def add_events(db: Database, feed: int, events: Sequence[NewEvent]) -> int:
    """Add events, without those that are there already, and return how many are new. The feed is held."""
    if not events:
        return 0
    db.wake("feed")
    return db.many(_ADD_EVENT, [{"feed": feed, "at": db.now, **event._asdict()} for event in events])


def select_events(db: Database, condition: str, join: str = "", limit: int = 500, **values: Any) -> list[EventRow]:
    """Return events on a condition, in their order."""
    columns = ", ".join(f"event.{name}" for name in EventRow._fields)
    sql = f"SELECT {columns} FROM event {join} WHERE {condition} ORDER BY event.id LIMIT :limit"
    return [EventRow(*row)._replace(payload=bytes(row[3])) for row in db.run(sql, limit=limit, **values)]


def events_after(db: Database, feed: int, after: int, limit: int) -> list[EventRow]:
    return select_events(db, "feed = :feed AND id > :after AND NOT acked", limit=limit, feed=feed, after=after)


def gaps(db: Database, feed: int) -> list[EventRow]:
    return select_events(db, "feed = :feed AND kind = 'gap' AND NOT acked", feed=feed)


def count_open(db: Database, feed: int) -> int:
    """Count the unacknowledged events."""
    return int(db.run("SELECT count(*) FROM event WHERE feed = :feed AND NOT acked", feed=feed).fetchone()[0])


def acknowledge(db: Database, ids: Sequence[int]) -> int:
    """Acknowledge events. Return how many were not acknowledged yet."""
    return len(db.among("UPDATE event SET acked = true WHERE id IN ({ids}) AND NOT acked RETURNING id", "ids", ids))


def prune(db: Database, feed: int, *, items_before: float, retention: float) -> bool:
    """Delete a part of the old events and records; return whether there may be more. The feed is held.

    Args:
        items_before: Items that were last seen before this time lose their record, and keep their digest.
        retention: Age of events in seconds. Those that are not acknowledged, or have an open delivery, stay.
    """
    sql = """UPDATE item SET record = NULL WHERE feed = :feed AND key IN (SELECT key FROM item
        WHERE feed = :feed AND record IS NOT NULL AND last_seen < :before LIMIT :limit)"""
    db.run(sql, feed=feed, before=items_before, limit=_PRUNED_AT_A_TIME)
    sql = """DELETE FROM event WHERE id IN (SELECT id FROM event
        WHERE feed = :feed AND at < :before AND acked
            AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.event = event.id AND state <> 'done')
        ORDER BY id LIMIT :limit) RETURNING id, at"""
    events = db.run(sql, feed=feed, before=db.now - retention, limit=_PRUNED_AT_A_TIME).fetchall()
    if events:
        # None of them has an open delivery.
        db.among("DELETE FROM delivery WHERE event IN ({ids}) RETURNING event", "ids", [id for id, _ in events])
        # A handler whose cursor is behind it has missed events.
        sql = """INSERT INTO meta (key, value) VALUES (:key, :value)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value"""
        db.run(sql, key=f"pruned {feed}", value=json.dumps([*max(events)]))
    return len(events) == _PRUNED_AT_A_TIME


def last_pruned(db: Database, feed: int) -> tuple[int, float]:
    """Return the number and the time of the last event that was deleted; zeros without any."""
    row = db.run("SELECT value FROM meta WHERE key = :key", key=f"pruned {feed}").fetchone()
    number, at = (0, 0.0) if row is None else json.loads(row[0])
    return number, at


def history(db: Database, feed: int, subject: int) -> tuple[dict[str, Item], list[EventRow]]:
    """Return the items of a request by their keys, and its events that the store still has, oldest first."""
    events = select_events(db, "feed = :feed AND subject = :subject", limit=10_000, feed=feed, subject=subject)
    return {item.key: item for item in items_of(db, feed, subject)}, events
