"""Statements of a bot's work: handlers and cursors, claims and results of deliveries, dead letters, commands.

A delivery is one event for one handler: `ready`, `claimed` by a replica, `done`, or `dead`. Every write names the state
that it expects. So a replica that was declared dead changes nothing when it wakes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from freight_exchange.store.schema import OPEN

if TYPE_CHECKING:
    from freight_exchange.store.database import Database

__all__ = [
    "Claimed", "Command", "Cursor", "DeliveryState", "NewDelivery", "Overdue", "Result", "StoredEvent", "acknowledge",
    "add_earlier", "add_gap", "answer_command", "ask_command", "claim", "commands", "count_overdue", "cursors",
    "dead_letters", "deliveries_of", "drop", "end_backfill", "events_after", "has_open_effect", "introduce",
    "is_busy", "is_silent", "live_items", "lost", "next_due", "orphans", "passed_over", "pending_gaps",
    "release_others", "replay", "result_of", "route", "settle",
]  # fmt: skip

DeliveryState = Literal["ready", "claimed", "done", "dead"]

_COUNTED: Final = 10_000
"""Limit of a count of deliveries: to count a million would take a database longer than its reply limit."""


@attrs.frozen
class Cursor:
    """Place of a handler in the events of a feed.

    Attributes:
        position: Number of the last event that was routed. Negative until the requests from before the handler are
            delivered; `-1 - position` is then the last event before it.
        at: When it was last moved.
    """

    id: int
    handler: str
    feed: int
    position: int
    at: float


@attrs.frozen
class StoredEvent:
    """Event of a feed, as stored."""

    id: int
    subject: int | None
    kind: str
    payload: bytes
    at: float


@attrs.frozen
class NewDelivery:
    """Events to route to one handler, and its next position."""

    cursor: Cursor
    position: int
    events: Sequence[tuple[int, int | None]]


@attrs.frozen
class Claimed:
    """Delivery that this replica has claimed. The attempt is counted already.

    Attributes:
        stored: Its event.
        later: Events of the same request that wait behind it for the same handler.
    """

    event: int
    handler: int
    subject: int | None
    attempts: int
    error: str | None
    stored: StoredEvent
    later: Sequence[StoredEvent] = ()


@attrs.frozen(kw_only=True)
class Result:
    """Result of an attempt.

    Attributes:
        delay: Seconds until it is due again.
        refund: Whether the attempt does not count.
        merged: Later events that were delivered with it.
    """

    state: Literal["ready", "done", "dead"]
    delay: float = 0.0
    error: str | None = None
    refund: bool = False
    merged: Sequence[int] = ()


@attrs.frozen
class Overdue:
    """Number of deliveries that are due and not claimed, up to 10,000, and since when the first one is due."""

    count: int
    since: float | None


@attrs.frozen
class Command:
    """Request of a person, for the bot that runs."""

    id: int
    name: str
    arguments: Mapping[str, Any]


# Handlers


def introduce(db: Database, binding: int, handlers: Sequence[tuple[str, int, bool]], *, selected: int) -> None:
    """Record handlers that are new: they begin with the next event.

    Args:
        binding: The bot.
        handlers: Name, feed, and whether the handler also gets what was listed before.
        selected: The feed of selected bids. If its first handler comes to a bot that has run without it, earlier
            selections are not news.
    """
    is_first_run = db.run("SELECT 1 FROM handler WHERE binding = :binding", binding=binding).fetchone() is None
    for name, feed, from_start in handlers:
        last = "coalesce((SELECT max(id) FROM event WHERE feed = :feed), 0)"
        db.run(
            "INSERT INTO handler (binding, name, feed, cursor, at) VALUES (:binding, :name, :feed,"
            f" {f'-1 - {last}' if from_start else last}, :at) ON CONFLICT (binding, name, feed) DO NOTHING",
            binding=binding, name=name, feed=feed, at=db.now,
        )  # fmt: skip
        if feed == selected and not is_first_run:
            db.run(
                "INSERT INTO meta (key, value) SELECT :key, '' WHERE EXISTS"
                " (SELECT 1 FROM feed WHERE id = :feed AND state IS NULL) ON CONFLICT (key) DO NOTHING",
                key=f"silent {feed}", feed=feed,
            )  # fmt: skip


def is_silent(db: Database, feed: int) -> bool:
    """Return whether a feed's first scan makes no events, with any `start`."""
    return db.run("SELECT 1 FROM meta WHERE key = :key", key=f"silent {feed}").fetchone() is not None


def passed_over(db: Database, binding: int, feed: int) -> list[int]:
    """Return the requests of this bot's offers that were selected before their feed began."""
    found = db.run(
        "SELECT DISTINCT item.subject FROM item JOIN effect ON effect.subject = item.subject AND binding = :binding"
        " WHERE feed = :feed AND item.version = 0 AND effect.kind = 'offer' AND effect.state = 'confirmed'"
        " ORDER BY item.subject",
        binding=binding, feed=feed,
    )  # fmt: skip
    return [subject for (subject,) in found.fetchall()]


def lost(db: Database, cursor: Cursor) -> float | None:
    """Return the time of the last event that was deleted before a handler got it, if one was."""
    row = db.run("SELECT value FROM meta WHERE key = :key", key=f"pruned {cursor.feed}").fetchone()
    number, at = (0, 0.0) if row is None else json.loads(row[0])
    return at if number > abs(cursor.position) else None


def cursors(db: Database, binding: int, names: Sequence[str]) -> list[Cursor]:
    """Return the places of the handlers with these names."""
    found = db.among(
        "SELECT id, name, feed, cursor, at FROM handler WHERE binding = :binding AND name IN ({names}) ORDER BY id",
        "names", names, binding=binding,
    )  # fmt: skip
    return [Cursor(*row) for row in found]


def orphans(db: Database, binding: int, names: Sequence[str]) -> list[tuple[str, int]]:
    """Return the other handlers that have deliveries ready, and how many."""
    return [
        (name, count)
        for name, count in db.among(
            "SELECT name, count(*) FROM handler JOIN delivery ON delivery.handler = handler.id AND state = 'ready'"
            " WHERE binding = :binding AND name NOT IN ({names}) GROUP BY name ORDER BY name",
            "names", names, binding=binding,
        )
    ]  # fmt: skip


def live_items(db: Database, feed: int, after: str, limit: int) -> list[tuple[str, int | None, bytes]]:
    """Return listed items in the order of their keys: key, subject and record."""
    found = db.run(
        "SELECT key, subject, record FROM item WHERE feed = :feed AND record IS NOT NULL AND length(digest) > 0"
        " AND key > :after ORDER BY key LIMIT :limit",
        feed=feed, after=after, limit=limit,
    )  # fmt: skip
    return [(key, subject, bytes(record)) for key, subject, record in found.fetchall()]


def add_earlier(db: Database, cursor: Cursor, kind: str, items: Sequence[tuple[str, int | None, bytes]]) -> None:
    """Deliver items from before a handler to it alone, unless an event has reported them since.

    Args:
        kind: Kind of an event that reports an item for the first time.
        items: Key, subject and payload.
    """
    # An event's ids follow its commits only if each transaction takes the feed's row first.
    db.run("UPDATE feed SET epoch = epoch WHERE id = :feed", feed=cursor.feed)
    for key, subject, payload in items:
        reported = db.run(
            "SELECT 1 FROM event WHERE feed = :feed AND subject = :subject AND id > :last AND kind = :kind",
            feed=cursor.feed, subject=subject, last=-1 - cursor.position, kind=kind,
        )  # fmt: skip
        if reported.fetchone() is not None:
            continue
        row = db.run(
            "INSERT INTO event (feed, key, subject, kind, payload, at, acked) VALUES (:feed, :key, :subject, :kind,"
            " :payload, :at, true) ON CONFLICT (feed, key) DO NOTHING RETURNING id",
            feed=cursor.feed, key=f"earlier:{cursor.id}:{key}", subject=subject, kind=f"earlier:{kind}",
            payload=payload, at=db.now,
        ).fetchone()  # fmt: skip
        if row is not None:
            _deliver(db, cursor.id, [(row[0], subject)])


def add_gap(db: Database, cursor: Cursor, payload: bytes) -> None:
    """Report a gap of one handler, once."""
    db.run("UPDATE feed SET epoch = epoch WHERE id = :feed", feed=cursor.feed)
    db.run(
        "INSERT INTO event (feed, key, kind, payload, at) VALUES (:feed, :key, 'gap', :payload, :now)"
        " ON CONFLICT (feed, key) DO NOTHING",
        feed=cursor.feed, key=f"away:{cursor.id}:{cursor.position}", payload=payload, now=db.now,
    )  # fmt: skip


def end_backfill(db: Database, cursor: Cursor) -> None:
    """Let a handler that has got what was listed before go on with the events since."""
    db.run(
        "UPDATE handler SET cursor = :position, at = :at WHERE id = :id AND cursor = :before",
        id=cursor.id, position=-1 - cursor.position, before=cursor.position, at=db.now,
    )  # fmt: skip
    db.wake("feed")


# Routing


def events_after(db: Database, feed: int, position: int) -> list[StoredEvent]:
    """Return the next events of a feed after a number, up to 500."""
    return _events(db, "feed = :feed AND event.id > :position", "", feed=feed, position=position)


def route(db: Database, feed: int, routed: Sequence[NewDelivery], *, kept: Sequence[int]) -> int:
    """Make deliveries and move the cursors, those alone that no other replica has moved. Return how many were made.

    Args:
        feed: The feed.
        routed: New deliveries, by handler.
        kept: Gaps that no handler gets: they wait for a person.
    """
    made = 0
    for one in routed:
        moved = db.run(
            "UPDATE handler SET cursor = :position, at = :at WHERE id = :id AND cursor = :before",
            id=one.cursor.id, position=one.position, before=one.cursor.position, at=db.now,
        )  # fmt: skip
        if moved.rowcount == 1:
            made += _deliver(db, one.cursor.id, one.events)
    if routed:
        first, last = min(one.cursor.position for one in routed), max(one.position for one in routed)
        db.among(
            "UPDATE event SET acked = true WHERE feed = :feed AND id > :first AND id <= :last AND NOT acked"
            " AND id NOT IN ({kept}) RETURNING id",
            "kept", kept, feed=feed, first=first, last=last,
        )  # fmt: skip
    if made:
        db.wake("work")
    return made


def _deliver(db: Database, handler: int, events: Sequence[tuple[int, int | None]]) -> int:
    db.many(
        "INSERT INTO delivery (event, handler, subject, state, not_before)"
        " VALUES (:event, :handler, :subject, 'ready', :now) ON CONFLICT (event, handler) DO NOTHING",
        [{"event": event, "handler": handler, "subject": subject, "now": db.now} for event, subject in events],
    )
    return len(events)


# Work

_CLAIM: Final = f"""WITH due AS (
        SELECT event, handler FROM delivery AS one
        WHERE state = 'ready' AND not_before <= :now AND handler IN ({{handlers}})
            AND EXISTS (SELECT 1 FROM replica WHERE id = :me AND lease_until > {{NOW}})
            AND NOT EXISTS (
                SELECT 1 FROM delivery AS earlier WHERE earlier.handler = one.handler AND earlier.subject = one.subject
                    AND earlier.event < one.event AND earlier.state IN ('ready', 'claimed') {{ONCE}})
            AND NOT (coalesce(one.error, '') = :doubt AND EXISTS (
                SELECT 1 FROM effect WHERE effect.binding = :binding AND effect.subject = one.subject
                    AND effect.state IN {OPEN} {{ONCE}}))
        ORDER BY not_before, event LIMIT :limit {{SKIP}})
    UPDATE delivery SET state = 'claimed', owner = :me, attempts = attempts + 1 FROM due
    WHERE delivery.event = due.event AND delivery.handler = due.handler
    RETURNING delivery.event, delivery.handler, delivery.subject, delivery.attempts, delivery.error"""


def claim(db: Database, binding: int, me: int, handlers: Sequence[int], limit: int, *, in_doubt: str) -> list[Claimed]:
    """Claim deliveries that are due, the longest due first: for each handler and request one at a time, in order.

    Args:
        binding: The bot.
        me: This replica.
        handlers: Handlers that it has.
        limit: Number of deliveries.
        in_doubt: Error of a delivery that waits for the outcome of the open effect on its request.
    """
    found = db.among(
        _CLAIM, "handlers", handlers, binding=binding, me=me, now=db.now, limit=limit, doubt=in_doubt
    )  # fmt: skip
    claimed = []
    for event, handler, subject, attempts, error in sorted(found):
        stored = _events(db, "event.id = :event", "", event=event)[0]
        later = () if stored.kind != "updated" else _events(
            db,
            "handler = :handler AND delivery.subject = :subject AND state = 'ready' AND delivery.event > :event",
            "JOIN delivery ON event.id = delivery.event",
            handler=handler, subject=subject, event=event,
        )  # fmt: skip
        claimed.append(Claimed(event, handler, subject, attempts, error, stored, later))
    return claimed


def _events(db: Database, condition: str, join: str, **values: Any) -> list[StoredEvent]:
    found = db.run(
        f"SELECT event.id, event.subject, kind, payload, at FROM event {join} WHERE {condition}"
        " ORDER BY event.id LIMIT 500",
        **values,
    )
    return [StoredEvent(id, subject, kind, bytes(payload), at) for id, subject, kind, payload, at in found.fetchall()]


def next_due(db: Database, handlers: Sequence[int]) -> float | None:
    """Return the seconds until another delivery is due."""
    ((due,),) = db.among(
        "SELECT min(not_before) FROM delivery WHERE state = 'ready' AND not_before > :now AND handler IN ({handlers})",
        "handlers", handlers, now=db.now,
    )  # fmt: skip
    return None if due is None else due - db.now


def has_open_effect(db: Database, binding: int, events: Sequence[int]) -> bool:
    """Return whether an offer or an answer that one of these events has caused has no outcome yet."""
    found = db.among(
        f"SELECT 1 FROM effect WHERE binding = :binding AND event IN ({{events}}) AND state IN {OPEN} LIMIT 1",
        "events", events, binding=binding,
    )  # fmt: skip
    return bool(found)


def settle(db: Database, me: int, claimed: Claimed, result: Result) -> bool:
    """Record the result of a delivery, unless another replica has taken it over; return whether it was recorded."""
    settled = db.run(
        "UPDATE delivery SET state = :state, not_before = :not_before, error = :error, owner = NULL,"
        " attempts = attempts - :refund WHERE event = :event AND handler = :handler AND state = 'claimed'"
        " AND owner = :me",
        event=claimed.event, handler=claimed.handler, me=me, state=result.state,
        not_before=db.now + result.delay, error=result.error, refund=int(result.refund),
    )  # fmt: skip
    if settled.rowcount != 1:
        return False
    if result.merged:
        db.among(
            "UPDATE delivery SET state = 'done', not_before = :now WHERE handler = :handler AND state = 'ready'"
            " AND event IN ({events}) RETURNING event",
            "events", result.merged, handler=claimed.handler, now=db.now,
        )  # fmt: skip
    db.wake("work")
    return True


def release_others(db: Database, me: int, running: Sequence[int]) -> None:
    """Return the claims of this replica whose commit had no reply: it does not run them.

    Args:
        running: Numbers of the events that its handlers work on.
    """
    db.among(
        "UPDATE delivery SET state = 'ready', owner = NULL, attempts = attempts - 1, not_before = :now"
        " WHERE state = 'claimed' AND owner = :me AND event NOT IN ({running}) RETURNING event",
        "running", running, me=me, now=db.now,
    )  # fmt: skip


def is_busy(db: Database, handlers: Sequence[int]) -> bool:
    """Return whether an event waits for its deliveries, or a delivery waits or runs."""
    return bool(
        db.among(
            "SELECT 1 FROM delivery WHERE state IN ('ready', 'claimed') AND handler IN ({handlers}) LIMIT 1",
            "handlers", handlers,
        )
        or db.among(
            "SELECT 1 FROM handler WHERE id IN ({handlers}) AND (cursor < 0 OR EXISTS (SELECT 1 FROM event"
            " WHERE event.feed = handler.feed AND event.id > handler.cursor)) LIMIT 1",
            "handlers", handlers,
        )
    )  # fmt: skip


def count_overdue(db: Database, handlers: Sequence[int]) -> Overdue:
    """Count the deliveries that are due and not claimed."""
    ((count, since),) = db.among(
        "SELECT count(*), min(not_before) FROM (SELECT not_before FROM delivery WHERE state = 'ready'"
        " AND not_before <= :now AND handler IN ({handlers}) ORDER BY not_before LIMIT :limit) AS overdue",
        "handlers", handlers, now=db.now, limit=_COUNTED,
    )  # fmt: skip
    return Overdue(count, since)


# Dead letters, gaps and history

_LETTERS: Final = """SELECT delivery.event, handler.name, delivery.subject, kind, attempts, error, not_before
    FROM delivery JOIN handler ON handler.id = delivery.handler JOIN event ON event.id = delivery.event
    WHERE handler.binding = :binding AND {condition} ORDER BY delivery.event, handler.id"""


def dead_letters(db: Database, binding: int) -> list[tuple[int, str, int | None, str, int, str | None, float]]:
    """Return the dead letters: event, handler, request, kind, attempts, error, and when they died."""
    return db.run(_LETTERS.format(condition="state = 'dead'"), binding=binding).fetchall()  # type: ignore[no-any-return]


def deliveries_of(db: Database, binding: int, subject: int) -> list[tuple[str, str, DeliveryState, str | None]]:
    """Return the deliveries of a request: kind of event, handler, state and error."""
    found = db.run(
        "SELECT kind, name, state, error FROM delivery JOIN handler ON handler.id = delivery.handler"
        " JOIN event ON event.id = delivery.event WHERE binding = :binding AND delivery.subject = :subject"
        " ORDER BY delivery.event, handler.id",
        binding=binding, subject=subject,
    )  # fmt: skip
    return [(kind.removeprefix("earlier:"), *rest) for kind, *rest in found.fetchall()]


def replay(db: Database, binding: int, event: int, handler: str) -> bool:
    """Deliver a dead letter again, with new attempts. Return whether there was one."""
    return _change_letter(db, binding, event, handler, "state = 'ready', attempts = 0, error = NULL, not_before = :now")


def drop(db: Database, binding: int, event: int, handler: str) -> bool:
    """Discard a dead letter, or a delivery that waits. Return whether there was one."""
    return _change_letter(
        db, binding, event, handler, "state = 'done', error = 'dropped by hand', not_before = :now", "'ready', 'dead'"
    )


def _change_letter(db: Database, binding: int, event: int, handler: str, change: str, states: str = "'dead'") -> bool:
    changed = db.run(
        f"UPDATE delivery SET {change} WHERE event = :event AND state IN ({states}) AND handler IN"
        " (SELECT id FROM handler WHERE binding = :binding AND name = :handler)",
        event=event, binding=binding, handler=handler, now=db.now,
    )  # fmt: skip
    db.wake("work")
    return bool(changed.rowcount > 0)


def pending_gaps(db: Database, binding: int) -> list[StoredEvent]:
    """Return the gaps that wait for a person."""
    return _events(
        db, "binding = :binding AND kind = 'gap' AND NOT acked", "JOIN feed ON feed.id = event.feed", binding=binding
    )


def acknowledge(db: Database, events: Sequence[int]) -> int:
    """Acknowledge events. Return how many were not acknowledged yet."""
    return len(
        db.among("UPDATE event SET acked = true WHERE id IN ({events}) AND NOT acked RETURNING id", "events", events)
    )


# Commands to a bot that runs


def ask_command(db: Database, binding: int, name: str, arguments: Mapping[str, Any]) -> int:
    """Ask the bot to carry out a command, and return its number."""
    row = db.run(
        "INSERT INTO command (binding, name, arguments, state, at) VALUES (:binding, :name, :arguments, 'waiting', :at)"
        " RETURNING id",
        binding=binding, name=name, arguments=json.dumps(arguments), at=db.now,
    ).fetchone()  # fmt: skip
    return int(row[0])


def commands(db: Database, binding: int) -> list[Command]:
    """Take the commands that wait, for this replica alone."""
    found = db.run(
        "UPDATE command SET state = 'taken' WHERE id IN (SELECT id FROM command WHERE binding = :binding"
        " AND state = 'waiting' ORDER BY id {SKIP}) RETURNING id, name, arguments",
        binding=binding,
    ).fetchall()  # fmt: skip
    return [Command(id, name, json.loads(arguments)) for id, name, arguments in sorted(found)]


def answer_command(db: Database, id: int, result: Mapping[str, Any]) -> None:
    """Record the result of a command."""
    db.run("UPDATE command SET state = 'done', result = :result WHERE id = :id", id=id, result=json.dumps(result))


def result_of(db: Database, id: int) -> Mapping[str, Any] | None:
    """Take the result of a command, or return `None` if there is none yet."""
    row = db.run("DELETE FROM command WHERE id = :id AND state = 'done' RETURNING result", id=id).fetchone()
    return None if row is None else json.loads(row[0])
