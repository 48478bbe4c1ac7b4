"""Items, events and states of feeds. Statements only.

An item is what a feed tracks: a request, an offer, a selected bid, or a row that cannot be read. It keeps the digest
of its last state for good, and its record for as long as `prune` allows. An empty digest means that it is told as gone.

Item times are on the feed's own clock, event times on the store's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from freight_exchange.errors import FencedError
from freight_exchange.store import fleet

if TYPE_CHECKING:
    from freight_exchange.store.database import Database

__all__ = [
    "EventRow", "Item", "NewEvent", "acknowledge", "add_events", "count_open", "events_after",
    "find_feed", "history", "hold", "item", "items", "live_items", "load_state", "owner_of", "prune", "put_items",
    "put_state", "take", "touch_items",
]  # fmt: skip

_PRUNED_AT_A_TIME: Final = 5000


class Item(NamedTuple):
    """Item of a feed.

    Attributes:
        key: Its key in the feed.
        subject: Index of its request, or `None`.
        digest: Digest of its last state; empty once it is reported as gone.
        record: Its last state; `None` for one that was last seen long ago, or cannot be read.
        version: Number of its events; 0 for one that was there before the feed.
        first_seen: When a scan first listed it.
        last_seen: When a scan last listed it, or a look-up denied it.
        scan: Unused.
        updated_after: Time after which it was last updated, at the earliest.
    """

    key: str
    subject: int | None
    digest: bytes
    record: bytes | None
    version: int
    first_seen: float
    last_seen: float
    scan: int
    updated_after: float


class NewEvent(NamedTuple):
    """Event to add. Its key is unique in its feed: a second one is ignored."""

    key: str
    subject: int | None
    kind: str
    payload: bytes


class EventRow(NamedTuple):
    """Event in the store."""

    id: int
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
    WHERE id = :feed AND owner = :me AND epoch = :epoch"""


# The feed


def find_feed(db: Database, binding: int, name: str) -> int:
    """Return the row of a feed; insert it if it is new."""
    select = "SELECT id FROM feed WHERE binding = :binding AND name = :name"
    row = db.run(select, binding=binding, name=name).fetchone()
    if row is None:
        db.run("INSERT INTO feed (binding, name) VALUES (:binding, :name)", binding=binding, name=name)
        row = db.run(select, binding=binding, name=name).fetchone()
    return int(row[0])


def take(db: Database, me: int, feed: int, lease: float) -> int | None:
    """Take the right to scan a feed for a reader without a bot, which does not beat; return its epoch, or `None`."""
    fleet.beat(db, me)
    return fleet.take_feed(db, me, feed, lease=lease)


def hold(db: Database, me: int, feed: int, epoch: int, lease: float) -> None:
    """Lock the feed until the commit, and extend its lease: the first statement of each transaction that adds events.

    Raises:
        FencedError: Another scan has taken the feed over.
    """
    if not db.run(_HOLD, feed=feed, me=me, epoch=epoch, lease=lease).rowcount:
        raise FencedError(f"the lease of this feed in {db.place} is over: another process reads it")


def owner_of(db: Database, feed: int) -> tuple[int, str]:
    """Return the replica that scans a feed, and a description of its process."""
    row = db.run(
        "SELECT replica.id, replica.holder FROM feed JOIN replica ON replica.id = feed.owner WHERE feed.id = :feed",
        feed=feed,
    ).fetchone()
    return (0, "another process") if row is None else (int(row[0]), str(row[1]))


def load_state(db: Database, feed: int) -> str | None:
    """Return the state of a feed; `None` before its first scan."""
    row = db.run("SELECT state FROM feed WHERE id = :feed", feed=feed).fetchone()
    return None if row is None else row[0]


def put_state(db: Database, feed: int, state: str) -> None:
    """Replace the state of a feed."""
    db.run("UPDATE feed SET state = :state WHERE id = :feed", feed=feed, state=state)


# Items


def items(db: Database, feed: int, keys: Sequence[str]) -> dict[str, Item]:
    """Return the items with these keys."""
    rows = db.among(f"SELECT {_COLUMNS} FROM item WHERE feed = :feed AND key IN ({{keys}})", "keys", keys, feed=feed)
    return {row[0]: _item(row) for row in rows}


def item(db: Database, feed: int, key: str) -> Item | None:
    """Return the item with this key."""
    return items(db, feed, [key]).get(key)


def live_items(db: Database, feed: int, updated_after: float) -> list[Item]:
    """Return the items, without their records, that were last updated after a time and are not told as gone."""
    columns = _COLUMNS.replace("record", "NULL")
    rows = db.run(
        f"SELECT {columns} FROM item WHERE feed = :feed AND updated_after >= :after AND record IS NOT NULL",
        feed=feed,
        after=updated_after,
    )
    return [item for item in map(_item, rows) if item.digest]


def put_items(db: Database, feed: int, rows: Sequence[Item]) -> None:
    """Insert or replace items."""
    db.many(_PUT_ITEM, [{"feed": feed, **row._asdict()} for row in rows])


def touch_items(db: Database, feed: int, rows: Sequence[Item]) -> None:
    """Record when items without a change were last seen."""
    db.many(
        _TOUCH_ITEM,
        [
            {"feed": feed, "key": row.key, "last_seen": row.last_seen, "updated_after": row.updated_after}
            for row in rows
        ],
    )


def _item(row: Sequence[object]) -> Item:
    made = Item(*row)  # type: ignore[arg-type]  # the columns are in this order
    return made._replace(digest=bytes(made.digest), record=None if made.record is None else bytes(made.record))


# Events


def add_events(db: Database, feed: int, events: Sequence[NewEvent]) -> int:
    """Add events, without those that are there already, and return how many are new. The feed is held."""
    if not events:
        return 0
    added = db.many(_ADD_EVENT, [{"feed": feed, "at": db.now, **event._asdict()} for event in events])
    db.wake("feed")
    return added


def events_after(db: Database, feed: int, after: int, limit: int, kind: str | None = None) -> list[EventRow]:
    """Return unacknowledged events in their order, of all kinds or of one."""
    rows = db.run(
        "SELECT id, kind, payload, acked FROM event WHERE feed = :feed AND id > :after AND NOT acked"
        + (" AND kind = :kind" if kind else "")
        + " ORDER BY id LIMIT :limit",
        feed=feed,
        after=after,
        limit=limit,
        **({"kind": kind} if kind else {}),
    )
    return [EventRow(*row) for row in rows]


def count_open(db: Database, feed: int) -> int:
    """Return the number of unacknowledged events."""
    row = db.run("SELECT count(*) FROM event WHERE feed = :feed AND NOT acked", feed=feed).fetchone()
    return int(row[0])


def acknowledge(db: Database, feed: int, ids: Sequence[int]) -> int:
    """Acknowledge events, and return how many are left. The feed is held."""
    db.among("UPDATE event SET acked = true WHERE id IN ({ids}) RETURNING id", "ids", ids)
    return count_open(db, feed)


def prune(db: Database, feed: int, *, items_before: float, retention: float, acked_only: bool) -> bool:
    """Delete a part of the old events and records, and return whether more are due.

    Args:
        db: The database, with the feed held.
        feed: The feed.
        items_before: Items that were last seen before this time lose their record, and keep their digest.
        retention: Age of events in seconds. Those with an open delivery stay.
        acked_only: Whether unacknowledged events stay too: a reader still has to get them.
    """
    records = db.run(
        "UPDATE item SET record = NULL WHERE feed = :feed AND key IN (SELECT key FROM item"
        " WHERE feed = :feed AND record IS NOT NULL AND last_seen < :before LIMIT :limit)",
        feed=feed,
        before=items_before,
        limit=_PRUNED_AT_A_TIME,
    ).rowcount
    events = db.run(
        "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE feed = :feed AND at < :before"
        + (" AND acked" if acked_only else "")
        + " AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.event = event.id AND state <> 'done')"
        " ORDER BY id LIMIT :limit)",
        feed=feed,
        before=db.now - retention,
        limit=_PRUNED_AT_A_TIME,
    ).rowcount
    if events:
        db.run(
            "DELETE FROM delivery WHERE state = 'done' AND NOT EXISTS (SELECT 1 FROM event WHERE id = delivery.event)"
        )
    return bool(max(records, events) == _PRUNED_AT_A_TIME)


def history(db: Database, feed: int, subject: int) -> tuple[dict[str, Item], list[EventRow]]:
    """Return the items of a request by their keys, and its events that the store still has, oldest first."""
    where = "WHERE feed = :feed AND subject = :subject"
    found = db.run(f"SELECT {_COLUMNS} FROM item {where}", feed=feed, subject=subject)
    events = db.run(f"SELECT id, kind, payload, acked FROM event {where} ORDER BY id", feed=feed, subject=subject)
    return {row[0]: _item(row) for row in found}, [EventRow(*row) for row in events]
