"""Rows for the tests of stores: helpers that write them, and that read all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, get_args

import attrs

from freight_exchange.store import SQLiteStore
from freight_exchange.store.protocol import (
    AbsenceQuery,
    Binding,
    Commit,
    FeedStore,
    NewEvent,
    StoredEvent,
    TrackedRequest,
)
from freight_exchange.store.seat import BotStore
from freight_exchange.store.work import Delivery, DeliveryState, Effect, WorkStore

BINDING = Binding("https://host/api", "me@co.example", "requests")
LEASE = 60.0
INDEXES = range(8)

Watch = Callable[[Callable[[str], None] | None], None]
"""Function that sets a listener to each statement before and (with `after ` in front) after it runs; `None` ends it."""


def seen(index: int, **changes: Any) -> TrackedRequest:
    values: dict[str, Any] = {
        "digest": b"d%d" % index,
        "record": b"{%d}" % index,
        "version": 1,
        "first_seen": 10.0,
        "last_seen": 20.0,
        "last_scan": 1,
        "updated_after": 5.0,
        "missed_scans": 0,
    }
    return TrackedRequest(index=index, **(values | changes))


def event(key: str, index: int | None = None, kind: str = "new", payload: bytes = b"payload") -> NewEvent:
    return NewEvent(key=key, index=index, kind=kind, payload=payload)


def effect(key: str, state: str = "intent", payload: bytes = b"{}", at: float = 20.0) -> Effect:
    return Effect(key=key, state=state, payload=payload, at=at)


def put(
    feed: FeedStore,
    seen: Sequence[TrackedRequest] = (),
    events: Sequence[NewEvent] = (),
    state: str | None = None,
    at: float = 20.0,
) -> int:
    return feed.commit(lambda read_set: Commit(requests=seen, events=events, state=state, at=at))


def read_state(path: Path) -> str | None:
    """Open a store's file, as the next process does, and return the feed's state."""
    with closing(SQLiteStore(path)) as store:
        return store.open(BINDING, lease=LEASE).state


def absent(feed: FeedStore, scan: int, updated_after: float) -> list[int]:
    found: list[int] = []

    def decide(known: Any) -> Commit:
        found.extend(one.index for one in known.absent)
        return Commit()

    feed.commit(decide, absence=AbsenceQuery(scan=scan, updated_after=updated_after))
    return found


def known(feed: FeedStore, *indexes: int) -> dict[int, TrackedRequest]:
    found: dict[int, TrackedRequest] = {}

    def decide(known: Any) -> Commit:
        found.update(known.requests)
        return Commit()

    feed.commit(decide, indexes=indexes)
    return found


def everything(feed: WorkStore, indexes: Sequence[int], kinds: Sequence[str] = ("new", "gap")) -> dict[str, object]:
    """Read everything that a feed returns."""
    return {
        "unacknowledged": feed.unacknowledged,
        "pending": list(feed.pending(limit=1000)),
        "kinds": {kind: list(feed.pending_of_kind(kind)) for kind in kinds},
        "history": {index: (one, list(events)) for index in indexes for one, events in [feed.history(index)]},
        "known": known(feed, *indexes),
        "absent": [absent(feed, scan, after) for scan in range(4) for after in (float("-inf"), 5.0, 70.0)],
        "live": [live := list(feed.live_requests(limit=3)), live and feed.live_requests(after=live[0], limit=3)],
        "has delivery": [feed.has_delivery(handler, "new") for handler in "ab"],
        "deliveries": {state: list(feed.deliveries(state=state)) for state in get_args(DeliveryState)},
        "next due": feed.next_due(),
        "overdue": [feed.count_overdue(now=now, limit=limit) for now in (0.0, 5.0, 70.0) for limit in (2, 99)],
        "handler a": [
            feed.next_due(handlers={"a"}),
            *(feed.count_overdue(now=now, handlers={"a"}) for now in (5.0, 70.0)),
        ],
        "by handler": feed.count_ready_by_handler(),
        "effects": list(feed.effects()),
    }


def renumbered(result: object) -> object:
    """Renumber events by their places, since an event that was rolled back leaves a gap."""
    numbers: set[int] = set()

    def walk(value: Any, change: Callable[[int], int]) -> Any:
        if isinstance(value, dict):
            return {key: walk(inner, change) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [walk(inner, change) for inner in value]
        if isinstance(value, StoredEvent):
            return attrs.evolve(value, id=change(value.id))
        return attrs.evolve(value, event=change(value.event)) if isinstance(value, Delivery) else value

    def note(number: int) -> int:
        numbers.add(number)
        return number

    walk(result, note)
    return walk(result, sorted(numbers).index)


def filled(store: BotStore) -> WorkStore:
    """Open a feed and write rows of every kind, so that each of the `STEPS` changes it."""
    feed = store.open(BINDING, lease=LEASE)
    put(
        feed,
        [seen(index, last_seen=index * 10.0) for index in range(5)],
        [event(f"{n}", n) for n in range(5)],
        state="old",
    )
    feed.acknowledge([feed.pending()[0].id], at=5.0)
    done, dead, claimed, ready = range(100, 104)
    put(feed, events=[event(f"{index}", index) for index in (done, dead, claimed, ready)], at=5.0)
    handlers = {done: ["a", "b"], dead: ["a", "b"], claimed: ["a"], ready: ["a", "b"]}
    feed.enqueue({one.id: handlers[one.index] for one in feed.pending() if one.index in handlers}, at=5.0)
    for one in [*feed.claim(now=5.0, limit=3), *feed.claim(now=5.0, limit=1)]:
        if one.index == done:
            feed.settle(one.event, one.handler, state="done", at=6.0)
    (other,) = [one for one in feed.claim(now=5.0, limit=1) if one.index == done]
    feed.settle(other.event, other.handler, state="done", at=6.0)
    (poison,) = [one for one in feed.deliveries(state="claimed") if one.index == dead]
    feed.settle(poison.event, poison.handler, state="dead", error="ValueError", at=6.0)
    feed.put_effect(effect("7/0"), expected_state=None)
    return feed


def _commit(feed: WorkStore) -> object:
    events = [event("4", 4), event("5", 5, "gap")]
    return put(feed, [seen(2, version=2), seen(6)], events, state="new", at=99.0)


def _enqueue(feed: WorkStore, *handlers: list[str]) -> None:
    numbers = [one.id for one in feed.pending(limit=len(handlers))]
    feed.enqueue(dict(zip(numbers, handlers, strict=True)), at=50.0)


def _settle(feed: WorkStore, state: Literal["ready", "done", "dead"]) -> None:
    one = feed.deliveries(state="claimed")[0]
    feed.settle(
        one.event, one.handler, state=state, not_before=60.0, error="late", refund_attempt=state == "ready", at=50.0
    )


def _settle_with_later_ones(feed: WorkStore) -> None:
    one = feed.deliveries(state="claimed")[0]
    also = [other.event for other in feed.deliveries(state="ready") if other.handler == one.handler]
    feed.settle(one.event, one.handler, state="done", also_done=also, at=50.0)


STEPS: dict[str, Callable[[WorkStore], object]] = {
    "commit": _commit,
    "acknowledge": lambda feed: feed.acknowledge([one.id for one in feed.pending(limit=2)], at=50.0),
    "acknowledge filtered events": lambda feed: feed.acknowledge(
        [one.id for one in feed.pending(limit=1)], at=50.0, filtered=[one.id for one in feed.pending(limit=3)]
    ),
    "prune": lambda feed: feed.prune(before=25.0),
    "enqueue": lambda feed: _enqueue(feed, ["a", "b"], [], ["a"]),
    "claim": lambda feed: feed.claim(now=50.0, limit=2),
    "retry": lambda feed: _settle(feed, "ready"),
    "settle": lambda feed: _settle(feed, "done"),
    "settle with later ones": _settle_with_later_ones,
    "settle as dead": lambda feed: _settle(feed, "dead"),
    "replay": lambda feed: [feed.replay(one.event, one.handler, at=50.0) for one in feed.deliveries(state="dead")],
    "add an event": lambda feed: feed.add_event(event("selected:7", 7), at=50.0),
    "add an effect": lambda feed: feed.put_effect(effect("8/0"), expected_state=None),
    "change an effect": lambda feed: feed.put_effect(effect("7/0", "sending"), expected_state="intent"),
}
"""Steps that write rows of every kind."""
