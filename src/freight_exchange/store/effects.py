"""Statements of the ledger: effects that happen at most once, and the shared reading of the account's bids.

An effect's `version` is the number of its send. Adoptions change the owner and not the version, so a late answer of the
earlier owner still applies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from freight_exchange.store.database import Database

__all__ = [
    "OPEN",
    "Effect",
    "begin",
    "counts",
    "find",
    "finish",
    "has_read",
    "is_claimed",
    "latest_event",
    "lock_subject",
    "of_kind",
    "of_subject",
    "open_effects",
    "prices",
    "readings",
    "record_reading",
    "release",
    "require_reading",
    "take_parked",
    "time_of_event",
]

OPEN: Final = ("sending", "unknown", "parked")
"""States in which the service may or may not have the effect: being sent; in doubt; in doubt until a person decides.

The others are `confirmed`, `refused` by the service, and `absent`: it certainly has no effect, and may be sent again.
"""

_COLUMNS: Final = "id, key, kind, subject, state, version, revision, event, payload, at, owner"


@attrs.frozen(kw_only=True)
class Effect:
    """One write to the service, in the ledger.

    Attributes:
        id: Number of the row; 0 before it is written.
        key: Identity in the ledger: a key has at most one effect.
        kind: `offer`, `approval`, `decline` or `publication`.
        subject: Index of the request; `None` for a publication. A request has at most one open effect.
        state: One of `OPEN`, or `confirmed`, `refused`, `absent`.
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


def _load(row: Sequence[Any]) -> Effect:
    names = _COLUMNS.split(", ")
    values = dict(zip(names, row, strict=True))
    return Effect(facts=json.loads(bytes(values.pop("payload"))), **values)


def _dump(effect: Effect) -> bytes:
    return json.dumps(dict(effect.facts), separators=(",", ":")).encode()


def of_subject(db: Database, binding: int, subject: int) -> list[Effect]:
    """Return the effects on a request, the oldest first."""
    rows = db.run(
        f"SELECT {_COLUMNS} FROM effect WHERE binding = :binding AND subject = :subject ORDER BY id",
        binding=binding,
        subject=subject,
    )
    return [_load(row) for row in rows.fetchall()]


def find(db: Database, binding: int, key: str) -> Effect | None:
    """Return the effect with a key."""
    row = db.run(
        f"SELECT {_COLUMNS} FROM effect WHERE binding = :binding AND key = :key", binding=binding, key=key
    ).fetchone()
    return None if row is None else _load(row)


def of_kind(db: Database, binding: int, kind: str) -> list[Effect]:
    """Return the effects of a kind."""
    rows = db.run(
        f"SELECT {_COLUMNS} FROM effect WHERE binding = :binding AND kind = :kind", binding=binding, kind=kind
    )
    return [_load(row) for row in rows.fetchall()]


def open_effects(db: Database, binding: int, owner: int | None = None) -> list[Effect]:
    """Return the open effects of a bot, or of one replica, the oldest first."""
    rows = db.run(
        f"SELECT {_COLUMNS} FROM effect WHERE binding = :binding AND state IN ('sending', 'unknown', 'parked')"
        f"{'' if owner is None else ' AND owner = :owner'} ORDER BY at, id",
        binding=binding,
        **({} if owner is None else {"owner": owner}),
    )
    return [_load(row) for row in rows.fetchall()]


def prices(db: Database, binding: int, subjects: Sequence[int]) -> list[Effect]:
    """Return the offers on these requests that the service has, or may have."""
    rows = db.among(
        f"SELECT {_COLUMNS} FROM effect WHERE binding = :binding AND kind = 'offer' AND subject IN ({{subjects}})"
        " AND state IN ('confirmed', 'sending', 'unknown', 'parked')",
        "subjects",
        subjects,
        binding=binding,
    )
    return [_load(row) for row in rows]


def counts(db: Database, binding: int) -> dict[tuple[str, str], int]:
    """Return the number of effects by kind and state."""
    rows = db.run(
        "SELECT kind, state, count(*) FROM effect WHERE binding = :binding GROUP BY kind, state", binding=binding
    )
    return {(kind, state): number for kind, state, number in rows.fetchall()}


def is_claimed(db: Database, event: int, handler: int, me: int) -> bool:
    """Return whether this replica still holds a delivery."""
    return (
        db.run(
            "SELECT 1 FROM delivery WHERE event = :event AND handler = :handler AND state = 'claimed' AND owner = :me",
            event=event,
            handler=handler,
            me=me,
        ).fetchone()
        is not None
    )


def latest_event(db: Database, binding: int) -> int | None:
    """Return the number of the newest event of a bot."""
    row = db.run(
        "SELECT max(event.id) FROM event JOIN feed ON event.feed = feed.id WHERE feed.binding = :binding",
        binding=binding,
    ).fetchone()
    return None if row is None else row[0]


def lock_subject(db: Database, binding: int, subject: int) -> None:
    """Lock the effects on a request, so that what follows in this transaction sees all that were begun."""
    db.run(
        "SELECT id FROM effect WHERE binding = :binding AND subject = :subject {LOCK}", binding=binding, subject=subject
    ).fetchall()


def time_of_event(db: Database, event: int | None) -> float:
    """Return the time of an event; 0 if it is not known any more."""
    row = db.run("SELECT at FROM event WHERE id = :event", event=event).fetchone()
    return 0.0 if row is None else float(row[0])


def take_parked(db: Database, binding: int, me: int) -> None:
    """Take over the parked effects of ended replicas."""
    db.run(
        "UPDATE effect SET owner = :me WHERE binding = :binding AND state = 'parked' AND NOT EXISTS"
        " (SELECT 1 FROM replica WHERE replica.id = effect.owner AND lease_until > 0)",
        binding=binding,
        me=me,
    )


def begin(db: Database, binding: int, effect: Effect, *, replaces: Effect | None) -> Effect | None:
    """Write an effect in place of the one that was read, if any.

    Returns:
        The effect with its number; `None` if another process has begun one with this key or on this request.
    """
    values = {
        "binding": binding,
        "key": effect.key,
        "kind": effect.kind,
        "subject": effect.subject,
        "state": effect.state,
        "revision": effect.revision,
        "event": effect.event,
        "payload": _dump(effect),
        "at": effect.at,
        "owner": effect.owner,
    }
    if replaces is None:
        row = db.run(
            "INSERT INTO effect (binding, key, kind, subject, state, version, revision, event, payload, at, owner)"
            " VALUES (:binding, :key, :kind, :subject, :state, 1, :revision, :event, :payload, :at, :owner)"
            " ON CONFLICT DO NOTHING RETURNING id, version",
            **values,
        ).fetchone()
    else:
        # The row of a request's open effect, written by another process meanwhile, ends the transaction.
        row = db.run(
            "UPDATE effect SET kind = :kind, state = :state, version = version + 1, revision = :revision,"
            " event = :event, payload = :payload, at = :at, owner = :owner"
            " WHERE id = :id AND version = :version AND state = :before RETURNING id, version",
            id=replaces.id,
            version=replaces.version,
            before=replaces.state,
            **{name: value for name, value in values.items() if name not in ("binding", "key", "subject")},
        ).fetchone()
    return None if row is None else attrs.evolve(effect, id=row[0], version=row[1])


def finish(db: Database, effect: Effect, *, replaces: Sequence[str], owner: int | None = None) -> bool:
    """Write a new state of the same send, if the stored one is among `replaces`, and, if given, has this owner.

    No lease is needed: an answer is a fact.
    """
    states = ", ".join(f"'{state}'" for state in replaces)
    done = db.run(
        "UPDATE effect SET state = :state, payload = :payload, at = :at, owner = :new"
        f" WHERE id = :id AND version = :version AND state IN ({states})"
        f"{'' if owner is None else ' AND owner = :owner'}",
        state=effect.state,
        payload=_dump(effect),
        at=effect.at,
        new=effect.owner if effect.is_open else None,
        id=effect.id,
        version=effect.version,
        **({} if owner is None else {"owner": owner}),
    )
    return bool(done.rowcount == 1)


def release(db: Database, binding: int, effect: Effect, *, error: str, now: float) -> bool | None:
    """Make the deliveries due that wait for the end of a doubt.

    Args:
        error: Stored error of a delivery that waits.

    Returns:
        Whether the delivery that made the effect is called again; `None` if another one waits and may do the same.
    """
    own = {"event": effect.event, "handler": effect.facts.get("handler")}
    if effect.state == "absent" and None not in own.values():
        db.run(
            "UPDATE delivery SET state = 'ready', attempts = 0, owner = NULL, not_before = :now"
            " WHERE event = :event AND handler = :handler AND state = 'dead'",
            now=now,
            **own,
        )
    waiting = db.run(
        "UPDATE delivery SET not_before = :now WHERE state = 'ready' AND subject = :subject AND error = :error"
        " AND handler IN (SELECT id FROM handler WHERE binding = :binding) RETURNING event, handler",
        now=now,
        subject=effect.subject,
        error=error,
        binding=binding,
    ).fetchall()
    db.wake("work")
    if None in own.values():
        return False
    alive = db.run(
        "UPDATE delivery SET not_before = CASE WHEN state = 'ready' THEN :now ELSE not_before END"
        " WHERE event = :event AND handler = :handler AND state IN ('ready', 'claimed')",
        now=now,
        **own,
    ).rowcount
    return True if alive else None if waiting else False


def readings(db: Database, binding: int) -> tuple[float, bool, float, bytes | None]:
    """Return the time from which a reading of the bids is required, and whether that is the second one in a row; and
    the last reading: its beginning and content.
    """
    rows = db.run("SELECT name, began, payload FROM reading WHERE binding = :binding", binding=binding).fetchall()
    found = {name: (began, payload) for name, began, payload in rows}
    required, repeats = found.get("required", (0.0, b""))
    began, payload = found.get("bids", (0.0, None))
    return required, bool(repeats), began, None if payload is None else bytes(payload)


def require_reading(db: Database, binding: int, began: float, *, repeats: bool = False) -> None:
    """Require that a reading of the bids begins at this time or later, before any replica offers."""
    # The last reading does not count, whatever its time: clocks go back.
    db.run("UPDATE reading SET began = 0 WHERE binding = :binding AND name = 'bids'", binding=binding)
    _put_reading(db, binding, "required", began, b"again" if repeats else b"")


def record_reading(db: Database, binding: int, began: float, payload: bytes) -> None:
    """Record a reading of the bids for all replicas."""
    _put_reading(db, binding, "bids", began, payload)


def _put_reading(db: Database, binding: int, name: str, began: float, payload: bytes) -> None:
    db.run(
        "INSERT INTO reading (binding, name, began, payload) VALUES (:binding, :name, :began, :payload)"
        " ON CONFLICT (binding, name) DO UPDATE SET began = excluded.began, payload = excluded.payload",
        binding=binding,
        name=name,
        began=began,
        payload=payload,
    )


def has_read(db: Database, binding: int) -> bool:
    """Return whether a reading of the bids is recorded that is new enough to offer."""
    return (
        db.run(
            "SELECT 1 FROM reading AS last WHERE binding = :binding AND name = 'bids' AND NOT EXISTS (SELECT 1 FROM"
            " reading WHERE binding = :binding AND name = 'required' AND began > last.began)",
            binding=binding,
        ).fetchone()
        is not None
    )
