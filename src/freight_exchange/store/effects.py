"""Statements of the ledger: effects that happen at most once, and the shared reading of the account's bids.

An effect's `version` is the number of its send. Adoptions and readings do not change it, so that an answer which an
earlier owner still gets is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from freight_exchange.store.schema import OPEN

if TYPE_CHECKING:
    from freight_exchange.store.database import Database


@attrs.frozen(kw_only=True)
class Effect:
    """One write to the service, in the ledger.

    Attributes:
        id: Number of the row; 0 before it is written.
        key: Identity in the ledger: a key has at most one effect.
        kind: `offer`, `approval`, `decline` or `publication`.
        subject: Index of the request, which has at most one open effect; `None` for a publication.
        version: Number of its sends.
        revision: Number of the price among the offers on the request.
        event: Number of the event that orders it.
        facts: What was sent, the reply, and the history of its doubts, as JSON values.
        at: Time of the last change of state.
        owner: The replica that sends it, or looks for it.
    """

    id: int = 0
    key: str
    kind: str
    subject: int | None
    state: str = "sending"
    version: int = 1
    revision: int = 0
    event: int | None = None
    facts: Mapping[str, Any]
    at: float = 0.0
    owner: int | None = None

    @property
    def is_open(self) -> bool:
        """`True` if the service may or may not have it."""
        return self.state in OPEN

    def with_facts(self, **facts: Any) -> Effect:
        """Return it with more facts."""
        return attrs.evolve(self, facts={**self.facts, **facts})


_SELECT: Final = """SELECT id, key, kind, subject, state, version, revision, event, payload, at, owner FROM effect
    WHERE binding = :binding"""


def _load(rows: Sequence[Sequence[Any]]) -> list[Effect]:
    names = [field.name for field in attrs.fields(Effect)]
    return [Effect(**{**dict(zip(names, row, strict=True)), "facts": json.loads(bytes(row[8]))}) for row in rows]


def of_subject(db: Database, binding: int, subject: int) -> list[Effect]:
    """Return the effects on a request, the oldest first."""
    return _load(db.run(f"{_SELECT} AND subject = :subject ORDER BY id", binding=binding, subject=subject).fetchall())


def find(db: Database, binding: int, key: str) -> Effect | None:
    return next(iter(_load(db.run(f"{_SELECT} AND key = :key", binding=binding, key=key).fetchall())), None)


def of_kind(db: Database, binding: int, kind: str) -> list[Effect]:
    return _load(db.run(f"{_SELECT} AND kind = :kind", binding=binding, kind=kind).fetchall())


def open_effects(db: Database, binding: int, owner: int | None = None) -> list[Effect]:
    """Return the open effects of a bot, or of one replica, the oldest first."""
    sql = f"{_SELECT} AND state IN {OPEN} AND owner = coalesce(:owner, owner) ORDER BY at, id"
    return _load(db.run(sql, binding=binding, owner=owner).fetchall())


def prices(db: Database, binding: int, subjects: Sequence[int]) -> list[Effect]:
    """Return the offers on these requests that the service has, or may have."""
    sql = f"{_SELECT} AND kind = 'offer' AND state NOT IN ('refused', 'absent') AND subject IN ({{subjects}})"
    return _load(db.among(sql, "subjects", subjects, binding=binding))


def counts(db: Database, binding: int) -> dict[tuple[str, str], int]:
    """Return the number of effects by kind and state."""
    sql = "SELECT kind, state, count(*) FROM effect WHERE binding = :binding GROUP BY kind, state"
    return {(kind, state): number for kind, state, number in db.run(sql, binding=binding)}


def is_claimed(db: Database, event: int, handler: int, me: int) -> bool:
    """Return whether this replica still holds a delivery."""
    sql = "SELECT 1 FROM delivery WHERE event = :event AND handler = :handler AND state = 'claimed' AND owner = :me"
    return db.run(sql, event=event, handler=handler, me=me).fetchone() is not None


def latest_event(db: Database, binding: int) -> int | None:
    sql = "SELECT max(event.id) FROM event JOIN feed ON event.feed = feed.id WHERE feed.binding = :binding"
    return db.run(sql, binding=binding).fetchone()[0]  # type: ignore[no-any-return]


def time_of_event(db: Database, event: int | None) -> float:
    """Return the time of an event; 0 if it is not known any more."""
    row = db.run("SELECT at FROM event WHERE id = :event", event=event).fetchone()
    return 0.0 if row is None else float(row[0])


def lock_subject(db: Database, binding: int, subject: int) -> None:
    """Lock the effects on a request, so that what follows in this transaction sees all that were begun."""
    sql = "SELECT id FROM effect WHERE binding = :binding AND subject = :subject {LOCK}"
    db.run(sql, binding=binding, subject=subject).fetchall()


def _values(effect: Effect) -> dict[str, Any]:
    """Return the columns that a new state of an effect may change."""
    payload = json.dumps(dict(effect.facts), separators=(",", ":")).encode()
    return {"state": effect.state, "payload": payload, "at": effect.at, "event": effect.event, "owner": effect.owner}


def begin(db: Database, binding: int, effect: Effect, *, replaces: Effect | None) -> Effect | None:
    """Write an effect in place of the one that was read, if any.

    Returns:
        The effect with its number; `None` if another process has begun one with this key or on this request.
    """
    if replaces is None:
        sql = """INSERT INTO effect (binding, key, kind, subject, state, version, revision, event, payload, at, owner)
            VALUES (:binding, :key, :kind, :subject, :state, 1, :revision, :event, :payload, :at, :owner)
            ON CONFLICT DO NOTHING RETURNING id, version"""
        names = ("key", "kind", "subject", "revision")
        own = {"binding": binding, **{name: getattr(effect, name) for name in names}}
    else:
        sql = """UPDATE effect SET state = :state, version = version + 1, event = :event, payload = :payload, at = :at,
            owner = :owner WHERE id = :id AND version = :version AND state = :before RETURNING id, version"""
        own = {"id": replaces.id, "version": replaces.version, "before": replaces.state}
    row = db.run(sql, **own, **_values(effect)).fetchone()
    return None if row is None else attrs.evolve(effect, id=row[0], version=row[1])


def finish(db: Database, effect: Effect, *, replaces: Sequence[str], owner: int | None = None) -> bool:
    """Write a new state of the same send, if the stored one is among `replaces`, and, if given, has this owner.

    No lease is needed: an answer is a fact.
    """
    sql = f"""UPDATE effect SET state = :state, payload = :payload, at = :at, event = :event, owner = :owner
        WHERE id = :id AND version = :version AND state IN ({", ".join(map(repr, replaces))})
        {"" if owner is None else "AND owner = :before"}"""
    own = {"id": effect.id, "version": effect.version, "before": owner}
    values = _values(effect if effect.is_open else attrs.evolve(effect, owner=None))
    return bool(db.run(sql, **own, **values).rowcount == 1)


def release(db: Database, binding: int, effect: Effect, *, error: str, now: float) -> bool | None:
    """Make the deliveries due that wait for the end of a doubt, with this stored error.

    Returns:
        Whether the delivery that made the effect is called again; `None` if another one waits and may do the same.
    """
    db.wake("work")
    own = {"event": effect.facts.get("delivery"), "handler": effect.facts.get("handler"), "now": now}
    sql = """UPDATE delivery SET not_before = :now WHERE state = 'ready' AND subject = :subject AND error = :error
        AND handler IN (SELECT id FROM handler WHERE binding = :binding) RETURNING event"""
    waiting = db.run(sql, now=now, subject=effect.subject, error=error, binding=binding).fetchall()
    if effect.state == "absent":
        sql = """UPDATE delivery SET state = 'ready', attempts = 0, owner = NULL, not_before = :now
            WHERE event = :event AND handler = :handler AND state = 'dead'"""
        db.run(sql, **own)
    sql = """UPDATE delivery SET not_before = CASE WHEN state = 'ready' THEN :now ELSE not_before END
        WHERE event = :event AND handler = :handler AND state IN ('ready', 'claimed')"""
    alive = db.run(sql, **own).rowcount
    return True if alive else None if waiting else False


class LastReading(NamedTuple):
    """The last reading of the bids, by when it began, and from when a newer one is required, the second in a row."""

    required: float
    repeats: bool
    began: float
    payload: bytes | None


def last_reading(db: Database, binding: int) -> LastReading:
    rows = db.run("SELECT name, began, payload FROM reading WHERE binding = :binding", binding=binding)
    found = {name: (began, bytes(payload)) for name, began, payload in rows}
    required, repeats = found.get("required", (0.0, b""))
    began, payload = found.get("bids", (0.0, None))
    return LastReading(required, bool(repeats), began, payload)


def require_reading(db: Database, binding: int, began: float, *, repeats: bool = False) -> None:
    """Require that a reading of the bids begins at this time or later, before any replica offers."""
    # The last reading does not count, since clocks go back.
    db.run("UPDATE reading SET began = 0 WHERE binding = :binding AND name = 'bids'", binding=binding)
    record_reading(db, binding, began, b"again" if repeats else b"", name="required")


def record_reading(db: Database, binding: int, began: float, payload: bytes, *, name: str = "bids") -> None:
    """Record a reading of the bids for all replicas."""
    sql = """INSERT INTO reading (binding, name, began, payload) VALUES (:binding, :name, :began, :payload)
        ON CONFLICT (binding, name) DO UPDATE SET began = excluded.began, payload = excluded.payload"""
    db.run(sql, binding=binding, name=name, began=began, payload=payload)


def has_read(db: Database, binding: int) -> bool:
    """Return whether a reading of the bids is recorded that is new enough to offer."""
    sql = """SELECT 1 FROM reading AS last WHERE binding = :binding AND name = 'bids' AND NOT EXISTS
        (SELECT 1 FROM reading WHERE binding = :binding AND name = 'required' AND began > last.began)"""
    return db.run(sql, binding=binding).fetchone() is not None
