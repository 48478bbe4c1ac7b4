"""Statements of a bot's work: handlers and cursors, claims and results of deliveries, dead letters.

A delivery is one event for one handler: `ready`, `claimed` by a replica, `done`, or `dead`. Every write names the state
that it expects. So a replica that was declared dead changes nothing when it wakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from freight_exchange.store import feeds
from freight_exchange.store.feeds import EventRow, NewEvent
from freight_exchange.store.fleet import LIVING
from freight_exchange.store.schema import OPEN

if TYPE_CHECKING:
    from freight_exchange.store.database import Database

DeliveryState = Literal["ready", "claimed", "done", "dead"]

_COUNTED: Final = 10_000
"""Limit of a count of deliveries: to count a million would take a database longer than its reply limit."""


class Cursor(NamedTuple):
    """Place of a handler in the events of a feed, and when it was last moved.

    `position` is the number of the last event that was routed. It is negative until the requests from before the
    handler are delivered; `-1 - position` is then the last event before it.
    """

    id: int
    handler: str
    feed: int
    position: int
    at: float


class NewDelivery(NamedTuple):
    """Events to route to one handler, and its next position."""

    cursor: Cursor
    position: int
    events: Sequence[tuple[int, int | None]]


class Claimed(NamedTuple):
    """Delivery that this replica has claimed. The attempt is counted already.

    `stored` is its event; `later` are events of the same request that wait behind it for the same handler.
    """

    event: int
    handler: int
    subject: int | None
    attempts: int
    error: str | None
    stored: EventRow
    later: Sequence[EventRow] = ()


# Handlers


def introduce(db: Database, binding: int, handlers: Sequence[tuple[str, int, bool]], *, selected: int) -> None:
    """Record handlers (name, feed, and whether it also gets what was listed before) that are new.

    If the first handler of the feed `selected` comes to a bot that has run without it, earlier selections are not news.
    """
    is_first_run = db.run("SELECT 1 FROM handler WHERE binding = :binding", binding=binding).fetchone() is None
    for name, feed, from_start in handlers:
        (newest,) = db.run("SELECT coalesce(max(id), 0) FROM event WHERE feed = :feed", feed=feed).fetchone()
        last = max(newest, feeds.last_pruned(db, feed)[0])
        sql = """INSERT INTO handler (binding, name, feed, cursor, at) VALUES (:binding, :name, :feed, :cursor, :at)
            ON CONFLICT DO NOTHING"""
        db.run(sql, binding=binding, name=name, feed=feed, cursor=-1 - last if from_start else last, at=db.now)
        if feed == selected and not is_first_run:
            sql = """INSERT INTO meta (key, value) SELECT :key, '' WHERE EXISTS
                (SELECT 1 FROM feed WHERE id = :feed AND state IS NULL) ON CONFLICT (key) DO NOTHING"""
            db.run(sql, key=f"silent {feed}", feed=feed)


def is_silent(db: Database, feed: int) -> bool:
    """Return whether a feed's first scan makes no events, with any `start`."""
    return db.run("SELECT 1 FROM meta WHERE key = :key", key=f"silent {feed}").fetchone() is not None


def passed_over(db: Database, binding: int, feed: int) -> list[int]:
    """Return the requests of this bot's offers that were selected before their feed began."""
    sql = """SELECT DISTINCT item.subject FROM item
        JOIN effect ON effect.subject = item.subject AND binding = :binding
        WHERE feed = :feed AND item.version = 0 AND effect.kind = 'offer' AND effect.state = 'confirmed'
        ORDER BY item.subject"""
    return [subject for (subject,) in db.run(sql, binding=binding, feed=feed).fetchall()]


def lost(db: Database, cursor: Cursor) -> float | None:
    """Return the time of the last event that was deleted before a handler got it, if one was."""
    number, at = feeds.last_pruned(db, cursor.feed)
    return at if number > abs(cursor.position) else None


def cursors(db: Database, binding: int, names: Sequence[str]) -> list[Cursor]:
    sql = "SELECT id, name, feed, cursor, at FROM handler WHERE binding = :binding AND name IN ({names}) ORDER BY id"
    return [Cursor(*row) for row in db.among(sql, "names", names, binding=binding)]


def orphans(db: Database, binding: int, names: Sequence[str]) -> list[tuple[str, int]]:
    """Return the other handlers that have deliveries ready, and how many."""
    sql = """SELECT name, count(*) FROM handler JOIN delivery ON delivery.handler = handler.id AND state = 'ready'
        WHERE binding = :binding AND name NOT IN ({names}) GROUP BY name ORDER BY name"""
    return db.among(sql, "names", names, binding=binding)


def listed_items(db: Database, feed: int, after: str, limit: int) -> list[tuple[str, int | None, bytes]]:
    """Return listed items in the order of their keys: key, subject and record."""
    sql = """SELECT key, subject, record FROM item WHERE feed = :feed AND record IS NOT NULL AND length(digest) > 0
        AND key > :after ORDER BY key LIMIT :limit"""
    found = db.run(sql, feed=feed, after=after, limit=limit).fetchall()
    return [(key, subject, bytes(record)) for key, subject, record in found]


def add_earlier(db: Database, cursor: Cursor, kind: str, items: Sequence[tuple[str, int | None, bytes]]) -> None:
    """Deliver items from before a handler (key, subject and payload) to it alone.

    Those are left out that an event has reported since, whose kind is that of a first report.
    """
    feeds.lock(db, cursor.feed)
    last = -1 - cursor.position
    for key, subject, payload in items:
        sql = """INSERT INTO event (feed, key, subject, kind, payload, at, acked)
            SELECT :feed, :key, :subject, :earlier, :payload, :at, true WHERE NOT EXISTS
                (SELECT 1 FROM event WHERE feed = :feed AND subject = :subject AND id > :last AND kind = :kind)
            ON CONFLICT (feed, key) DO NOTHING RETURNING id"""
        added = db.run(
            sql, feed=cursor.feed, key=f"earlier:{cursor.id}:{key}", subject=subject, earlier=f"earlier:{kind}",
            payload=payload, at=db.now, last=last, kind=kind,
        ).fetchone()  # fmt: skip
        if added is not None:
            _deliver(db, cursor.id, [(added[0], subject)])


def add_gap(db: Database, cursor: Cursor, payload: bytes) -> None:
    feeds.lock(db, cursor.feed)
    feeds.add_events(db, cursor.feed, [NewEvent(f"away:{cursor.id}:{cursor.position}", None, "gap", payload)])


def end_backfill(db: Database, cursor: Cursor) -> None:
    """Let a handler that has got what was listed before go on with the events since."""
    _move(db, cursor, -1 - cursor.position)
    db.wake("feed")


def _move(db: Database, cursor: Cursor, position: int) -> bool:
    """Move a cursor, unless another replica has; return whether it was moved."""
    sql = "UPDATE handler SET cursor = :position, at = :at WHERE id = :id AND cursor = :before"
    return bool(db.run(sql, id=cursor.id, position=position, before=cursor.position, at=db.now).rowcount == 1)


# Routing


def events_to_route(db: Database, feed: int, position: int) -> list[EventRow]:
    return feeds.select_events(db, "feed = :feed AND event.id > :position", feed=feed, position=position)


def route(db: Database, feed: int, routed: Sequence[NewDelivery], *, kept: Sequence[int]) -> bool:
    """Make deliveries and move the cursors, those alone that no other replica has moved. Return whether one was moved.

    `kept` are gaps that no handler gets: they wait for a person.
    """
    moved = [one for one in routed if _move(db, one.cursor, one.position)]
    made = sum(_deliver(db, one.cursor.id, one.events) for one in moved)
    if routed:
        first, last = min(one.cursor.position for one in routed), max(one.position for one in routed)
        sql = """UPDATE event SET acked = true WHERE feed = :feed AND id > :first AND id <= :last AND NOT acked
            AND id NOT IN ({kept}) RETURNING id"""
        db.among(sql, "kept", kept, feed=feed, first=first, last=last)
    if made:
        db.wake("work")
    return bool(moved)


def _deliver(db: Database, handler: int, events: Sequence[tuple[int, int | None]]) -> int:
    sql = """INSERT INTO delivery (event, handler, subject, state, not_before)
        VALUES (:event, :handler, :subject, 'ready', :now) ON CONFLICT (event, handler) DO NOTHING"""
    db.many(sql, [{"event": event, "handler": handler, "subject": subject, "now": db.now} for event, subject in events])
    return len(events)


# Work

_CLAIM: Final = f"""WITH due AS (
        SELECT event, handler FROM delivery AS one
        WHERE state = 'ready' AND not_before <= :now AND handler IN ({{handlers}}) AND {LIVING}
            AND NOT EXISTS (
                SELECT 1 FROM delivery AS other WHERE other.handler = one.handler AND other.subject = one.subject
                    AND other.state IN ('ready', 'claimed') AND (other.event < one.event OR other.state = 'claimed')
                    {{ONCE}})
            AND NOT (coalesce(one.error, '') = :doubt AND EXISTS (
                SELECT 1 FROM effect WHERE effect.binding = :binding AND effect.subject = one.subject
                    AND effect.state IN {OPEN} {{ONCE}}))
        ORDER BY not_before, event LIMIT :limit {{SKIP}})
    UPDATE delivery SET state = 'claimed', owner = :me, attempts = attempts + 1 FROM due
    WHERE delivery.event = due.event AND delivery.handler = due.handler
    RETURNING delivery.event, delivery.handler, delivery.subject, delivery.attempts, delivery.error"""


def claim(db: Database, binding: int, me: int, handlers: Sequence[int], limit: int, *, in_doubt: str) -> list[Claimed]:
    """Claim deliveries that are due, the longest due first: for each handler and request one at a time, in order.

    `in_doubt` is the error of a delivery that waits for the outcome of the open effect on its request.
    """
    found = db.among(_CLAIM, "handlers", handlers, binding=binding, me=me, now=db.now, limit=limit, doubt=in_doubt)
    claimed = []
    for event, handler, subject, attempts, error in sorted(found):
        (stored,) = feeds.select_events(db, "event.id = :event", event=event)
        later: Sequence[EventRow] = ()
        if stored.kind == "updated":
            join = "JOIN delivery ON event.id = delivery.event AND state = 'ready'"
            behind = "handler = :handler AND delivery.subject = :subject AND delivery.event > :event"
            later = feeds.select_events(db, behind, join, handler=handler, subject=subject, event=event)
        claimed.append(Claimed(event, handler, subject, attempts, error, stored, later))
    return claimed


def next_due(db: Database, handlers: Sequence[int]) -> float | None:
    """Return the seconds until another delivery is due."""
    sql = "SELECT min(not_before) FROM delivery WHERE state = 'ready' AND not_before > :now AND handler IN ({handlers})"
    ((due,),) = db.among(sql, "handlers", handlers, now=db.now)
    return None if due is None else due - db.now


def has_open_effect(db: Database, binding: int, events: Sequence[int]) -> bool:
    """Return whether an effect of one of these events has no outcome yet."""
    sql = f"SELECT 1 FROM effect WHERE binding = :binding AND event IN ({{events}}) AND state IN {OPEN} LIMIT 1"
    return bool(db.among(sql, "events", events, binding=binding))


def settle(
    db: Database,
    me: int,
    claimed: Claimed,
    state: Literal["ready", "done", "dead"],
    *,
    delay: float = 0.0,
    error: str | None = None,
    refund: bool = False,
    merged: Sequence[int] = (),
) -> bool:
    """Record the result of a delivery, unless another replica has taken it over; return whether it was recorded.

    Args:
        delay: Seconds until it is due again.
        refund: Whether the attempt does not count.
        merged: Later events that were delivered with it.
    """
    sql = """UPDATE delivery SET state = :state, not_before = :not_before, error = :error, owner = NULL,
        attempts = attempts - :refund
        WHERE event = :event AND handler = :handler AND state = 'claimed' AND owner = :me"""
    settled = db.run(
        sql, event=claimed.event, handler=claimed.handler, me=me, state=state, not_before=db.now + delay, error=error,
        refund=int(refund),
    )  # fmt: skip
    if settled.rowcount != 1:
        return False
    if merged:
        sql = """UPDATE delivery SET state = 'done', not_before = :now WHERE handler = :handler AND state = 'ready'
            AND event IN ({events}) RETURNING event"""
        db.among(sql, "events", merged, handler=claimed.handler, now=db.now)
    db.wake("work")
    return True


def release_claims(db: Database, me: int) -> None:
    """Return the claims of this replica, before it calls any handler: those whose commit had no reply."""
    sql = """UPDATE delivery SET state = 'ready', owner = NULL, attempts = attempts - 1, not_before = :now
        WHERE state = 'claimed' AND owner = :me"""
    db.run(sql, me=me, now=db.now)


def is_busy(db: Database, handlers: Sequence[int]) -> bool:
    """Return whether an event waits for its deliveries, or a delivery waits or runs."""
    sql = """SELECT 1 FROM handler WHERE id IN ({handlers}) AND (cursor < 0
        OR EXISTS (SELECT 1 FROM event WHERE event.feed = handler.feed AND event.id > handler.cursor)
        OR EXISTS (SELECT 1 FROM delivery WHERE delivery.handler = handler.id AND state IN ('ready', 'claimed')))"""
    return bool(db.among(sql, "handlers", handlers))


def count_overdue(db: Database, handlers: Sequence[int]) -> tuple[int, float | None]:
    """Count the deliveries that are due and not claimed, up to 10,000; also return since when the first one is due."""
    sql = """SELECT count(*), min(not_before) FROM (SELECT not_before FROM delivery WHERE state = 'ready'
        AND not_before <= :now AND handler IN ({handlers}) ORDER BY not_before LIMIT :limit) AS overdue"""
    ((count, since),) = db.among(sql, "handlers", handlers, now=db.now, limit=_COUNTED)
    return count, since


# Dead letters, gaps and history


def dead_letters(db: Database, binding: int) -> list[tuple[int, str, int | None, str, int, str | None, float]]:
    """Return the dead letters: event, handler, request, kind, attempts, error, and when they died."""
    sql = """SELECT delivery.event, handler.name, delivery.subject, kind, attempts, error, not_before
        FROM delivery JOIN handler ON handler.id = delivery.handler JOIN event ON event.id = delivery.event
        WHERE handler.binding = :binding AND state = 'dead' ORDER BY delivery.event, handler.id"""
    return db.run(sql, binding=binding).fetchall()  # type: ignore[no-any-return]


def deliveries_of(db: Database, binding: int, subject: int) -> list[tuple[str, str, DeliveryState, str | None]]:
    """Return the deliveries of a request: kind of event, handler, state and error."""
    sql = """SELECT kind, name, state, error FROM delivery JOIN handler ON handler.id = delivery.handler
        JOIN event ON event.id = delivery.event WHERE binding = :binding AND delivery.subject = :subject
        ORDER BY delivery.event, handler.id"""
    found = db.run(sql, binding=binding, subject=subject)
    return [(kind.removeprefix("earlier:"), *rest) for kind, *rest in found]


def replay(db: Database, binding: int, event: int, handler: str) -> bool:
    """Deliver a dead letter again, with new attempts. Return whether there was one."""
    change = "state = 'ready', attempts = 0, error = NULL, not_before = :now"
    return _change_letter(db, binding, event, handler, change, "'dead'")


def drop(db: Database, binding: int, event: int, handler: str) -> bool:
    """Discard a dead letter, or a delivery that waits. Return whether there was one."""
    change = "state = 'done', error = 'dropped by hand', not_before = :now"
    return _change_letter(db, binding, event, handler, change, "'ready', 'dead'")


def _change_letter(db: Database, binding: int, event: int, handler: str, change: str, states: str) -> bool:
    sql = f"""UPDATE delivery SET {change} WHERE event = :event AND state IN ({states})
        AND handler IN (SELECT id FROM handler WHERE binding = :binding AND name = :handler)"""
    changed = db.run(sql, event=event, binding=binding, handler=handler, now=db.now)
    db.wake("work")
    return bool(changed.rowcount > 0)


def pending_gaps(db: Database, binding: int) -> list[EventRow]:
    join = "JOIN feed ON feed.id = event.feed"
    return feeds.select_events(db, "binding = :binding AND kind = 'gap' AND NOT acked", join, binding=binding)


def acknowledge_gaps(db: Database, binding: int) -> int:
    return feeds.acknowledge(db, [gap.id for gap in pending_gaps(db, binding)])
