"""What the tests of the stores share: short ways to say what is written, and to read all that is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

from freight_exchange.store.protocol import Absence, Binding, Commit, FeedStore, NewEvent, Seen
from freight_exchange.store.work import DeliveryState, Effect, WorkStore

BINDING = Binding("https://host/api", "me@co.example", "requests")
LEASE = 60.0

Watch = Callable[[Callable[[str], None] | None], None]
"""Has every statement told to a listener before it runs, and `after` it did; `None` ends it."""


def seen(index: int, **changes: Any) -> Seen:
    values: dict[str, Any] = {
        "digest": b"d%d" % index,
        "record": b"{%d}" % index,
        "version": 1,
        "first": 10.0,
        "last": 20.0,
        "scan": 1,
        "updated_after": 5.0,
        "missing": 0,
    }
    return Seen(index=index, **(values | changes))


def event(key: str, index: int | None = None, kind: str = "new", payload: bytes = b"payload") -> NewEvent:
    return NewEvent(key=key, index=index, kind=kind, payload=payload)


def effect(key: str, state: str = "intent", payload: bytes = b"{}", at: float = 20.0) -> Effect:
    return Effect(key=key, state=state, payload=payload, at=at)


def put(
    feed: FeedStore,
    seen: Sequence[Seen] = (),
    events: Sequence[NewEvent] = (),
    state: str | None = None,
    at: float = 20.0,
) -> int:
    return feed.commit(lambda found: Commit(seen=seen, events=events, state=state, at=at))


def absent(feed: FeedStore, scan: int, updated_after: float) -> list[int]:
    found: list[int] = []

    def decide(known: Any) -> Commit:
        found.extend(one.index for one in known.absent)
        return Commit()

    feed.commit(decide, absence=Absence(scan=scan, updated_after=updated_after))
    return found


def known(feed: FeedStore, *indexes: int) -> dict[int, Seen]:
    found: dict[int, Seen] = {}

    def decide(known: Any) -> Commit:
        found.update(known.seen)
        return Commit()

    feed.commit(decide, indexes=indexes)
    return found


def everything(feed: WorkStore, indexes: Sequence[int], kinds: Sequence[str] = ("new", "gap")) -> dict[str, object]:
    """All that can be asked of it."""
    return {
        "unacknowledged": feed.unacknowledged,
        "pending": list(feed.pending(limit=1000)),
        "kinds": {kind: list(feed.of_kind(kind)) for kind in kinds},
        "history": {index: (one, list(events)) for index in indexes for one, events in [feed.history(index)]},
        "known": known(feed, *indexes),
        "absent": [absent(feed, scan, after) for scan in range(4) for after in (float("-inf"), 5.0, 70.0)],
        "deliveries": {state: list(feed.deliveries(state=state)) for state in get_args(DeliveryState)},
        "next due": feed.next_due(),
        "effects": list(feed.effects()),
    }
