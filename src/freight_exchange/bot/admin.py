"""Administration of a bot: replay, drop, resolve, acknowledge; in its program, and beside a running bot.

A change is one transaction of the process that makes it. A running bot notices it within a second.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar, cast

import anyio

from freight_exchange.bot.ledger import Ledger
from freight_exchange.bot.status import DeadLetter, Doubt, Handling, LedgerEntry, StoreStatus
from freight_exchange.client import FreightExchange
from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.events import Gap, load_event
from freight_exchange.feed.feed import Explanation, explain
from freight_exchange.store import effects, feeds, fleet, work
from freight_exchange.store.database import SQLite, Store
from freight_exchange.store.database_url import masked

if TYPE_CHECKING:
    from freight_exchange.store.database import Database
    from freight_exchange.store.effects import Effect

T = TypeVar("T")

DEFAULT_NAME: Final = "bot"
"""Default name of a bot in its store. `exchange.watch` has another one, so it shares nothing with the bot."""
_EFFECT_STATES: Final = ("sending", "unknown", "parked", "confirmed", "refused", "absent")


# In a bot


def dead_letters(db: Database, binding: int) -> Sequence[DeadLetter]:
    return [DeadLetter.from_row(row) for row in work.dead_letters(db, binding)]


def describe_doubts(db: Database, binding: int, found: Sequence[Effect]) -> Sequence[Doubt]:
    """Return effects in doubt as a person sees them."""
    names = _handler_names(db, binding)
    return [Doubt.from_effect(effect, names) for effect in found]


def gaps(db: Database, binding: int) -> Sequence[Gap]:
    return [cast(Gap, load_event(gap.kind, gap.payload)) for gap in work.pending_gaps(db, binding)]


# From outside


class BotFile:
    """File or database of a bot, read and changed from outside of its program.

    A read sees the last commit of the bot, at any time. All methods block: call them outside of an event loop. Those
    that `Bot` has do the same. `name` is needed if the store has several bots, and none has the default name.
    """

    def __init__(self, path: str | os.PathLike[str], *, name: str | None = None) -> None:
        self._path = masked(path)
        self._name = name

    def status(self) -> StoreStatus:
        return self._read(_status)

    def dead_letters(self) -> Sequence[DeadLetter]:
        return self._read(dead_letters)

    def doubts(self) -> Sequence[Doubt]:
        """Return the doubts, and the writes that are being sent, or were when the bot ended."""
        return self._read(lambda db, binding: describe_doubts(db, binding, effects.open_effects(db, binding)))

    def gaps(self) -> Sequence[Gap]:
        return self._read(gaps)

    def explain(self, index: int) -> Handling:
        """Return the history of a request; `ConfigurationError` before the first complete scan."""

        def read(db: Database, binding: int) -> Handling:
            names = _handler_names(db, binding)
            entries = [LedgerEntry.from_effect(one, names) for one in effects.of_subject(db, binding, index)]
            return Handling(
                explanation=_explain(db, binding, index),
                deliveries=work.deliveries_of(db, binding, index),
                offers=[entry for entry in entries if entry.kind == "offer"],
                answers=[entry for entry in entries if entry.kind != "offer"],
            )

        return self._read(read)

    def replay(self, event: int, handler: str) -> bool:
        """Deliver a dead letter again. That of a removed handler waits for a handler of that id."""
        return self._change(lambda store: store.run(work.replay, store.binding, event, handler))

    def drop(self, event: int, handler: str) -> bool:
        return self._change(lambda store: store.run(work.drop, store.binding, event, handler))

    def resolve(self, request: int, *, taken: bool, revision: int = 0, offer: int | None = None) -> None:
        async def resolve(store: Store) -> None:
            url, *_ = await store.run(_binding_of, store.binding)
            # A client that is never entered: a decision sends nothing.
            client = FreightExchange(url, email="unused", password="none")
            ledger = Ledger(store, client, settle=0.0, interval=1.0)
            await ledger.resolve(request, taken=taken, revision=revision, offer=offer)

        self._change(resolve)

    def acknowledge_gaps(self) -> int:
        return self._change(lambda store: store.run(work.acknowledge_gaps, store.binding))

    def _read(self, read: Callable[[Database, int], T]) -> T:
        async def run() -> T:
            async with Store(self._path, beside=True) as store:
                return await store.run(lambda db: read(db, self._choose(db)))

        return anyio.run(run)

    def _change(self, change: Callable[[Store], Awaitable[T]]) -> T:
        async def run() -> T:
            async with Store(self._path, beside=True) as store:
                await store.run(fleet.check_not_moved)
                store.binding = await store.run(self._choose)
                return await change(store)

        return anyio.run(run)

    def _choose(self, db: Database) -> int:
        rows = db.run("SELECT id, name FROM binding ORDER BY id").fetchall()
        # The others belong to `exchange.watch`.
        wanted = DEFAULT_NAME if self._name is None and len(rows) > 1 else self._name
        for row, name in rows:
            if wanted in (None, name):
                return int(row)
        if not rows:
            raise ConfigurationError(f"{db.place} has no bot: none has run with it yet")
        names = ", ".join(repr(name) for _, name in rows)
        raise ConfigurationError(f"{db.place} has no bot named {wanted!r}; the name of one is needed: {names}")


def _status(db: Database, binding: int) -> StoreStatus:
    url, account, name = _binding_of(db, binding)
    counts = effects.counts(db, binding)
    watermark = _watermark(db, binding, "requests") or _watermark(db, binding, "offers")
    replicas = _replicas(db, binding)
    scanning = db.run(
        "SELECT holder FROM replica JOIN feed ON feed.owner = replica.id WHERE feed.binding = :binding"
        " AND feed.lease_until > {NOW} AND replica.lease_until > {NOW} ORDER BY feed.id",
        binding=binding,
    ).fetchone()
    holder = None if scanning is None else scanning[0]
    deliveries = db.run(
        "SELECT state, count(*) FROM delivery WHERE handler IN (SELECT id FROM handler WHERE binding = :binding)"
        " GROUP BY state",
        binding=binding,
    ).fetchall()
    (waiting,) = db.run(
        "SELECT count(*) FROM event JOIN feed ON feed.id = event.feed WHERE binding = :binding AND NOT acked",
        binding=binding,
    ).fetchone()
    answers = {state: sum(counts.get((kind, state), 0) for kind in ("approval", "decline")) for state in _EFFECT_STATES}
    return StoreStatus(
        name=name,
        base_url=url,
        account=account,
        # The only replica of a file has all of it.
        holder=next(iter(replicas), None) if isinstance(db, SQLite) else holder,
        replicas=replicas,
        covered_until=None if watermark is None else datetime.fromtimestamp(watermark[1], UTC),
        unacknowledged=waiting,
        deliveries=dict.fromkeys(("ready", "claimed", "done", "dead"), 0) | dict(deliveries),
        offers={state: counts.get(("offer", state), 0) for state in _EFFECT_STATES},
        answers=answers,
        gaps=gaps(db, binding),
    )


def _watermark(db: Database, binding: int, name: str) -> tuple[float, float] | None:
    """Return the watermark of a feed on its own clock and on the wall clock, once a scan is complete."""
    (text,) = db.run("SELECT state FROM feed WHERE binding = :b AND name = :name", b=binding, name=name).fetchone()
    state = {} if text is None else json.loads(text)
    return None if state.get("stage", "new") == "new" else (state["time"], state["reading"]["wall"])


def _explain(db: Database, binding: int, index: int) -> Explanation:
    """Explain by the feed that knows the request; if neither does, by the one that reads."""
    for name in ("requests", "offers"):
        (feed,) = db.run("SELECT id FROM feed WHERE binding = :b AND name = :name", b=binding, name=name).fetchone()
        items, events = feeds.history(db, feed, index)
        watermark = _watermark(db, binding, name)
        if watermark is None or (not items and not events and name == "requests" and _watermark(db, binding, "offers")):
            continue
        time, wall = watermark

        def to_utc(at: float, *, time: float = time, wall: float = wall) -> datetime:
            return datetime.fromtimestamp(wall - (time - at), UTC)

        item = items.get(str(index)) or next(iter(items.values()), None)
        if item is not None and name == "offers":
            item = item._replace(record=None)
        unseen = f"was in no scan: the scans cover updates before {to_utc(time):%Y-%m-%d %H:%M:%S} UTC"
        return explain(index, f"request {index}", item, events, to_utc, unseen=unseen)
    raise ConfigurationError(f"{db.place} has no complete scan yet: let the bot finish its first one")


def _binding_of(db: Database, binding: int) -> tuple[str, str, str]:
    row = db.run("SELECT url, account, name FROM binding WHERE id = :binding", binding=binding).fetchone()
    return cast("tuple[str, str, str]", tuple(row))


def _replicas(db: Database, binding: int) -> list[str]:
    """Return the processes that have the file, or share the database."""
    if isinstance(db, SQLite) and not db.is_locked():
        # The only replica of a file never loses its lease, and ends with its lock.
        return []
    sql = "SELECT holder FROM replica WHERE binding = :binding AND lease_until > {NOW} ORDER BY joined"
    return [holder for (holder,) in db.run(sql, binding=binding).fetchall()]


def _handler_names(db: Database, binding: int) -> dict[int, str]:
    return dict(db.run("SELECT id, name FROM handler WHERE binding = :binding", binding=binding).fetchall())
