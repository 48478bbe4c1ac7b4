"""Decision what a page changes: the items to keep, and the events of what is new or differs from the last state. Pure.

An item is compared with its last state only. A change that is undone later makes two events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from freight_exchange import wire
from freight_exchange.feed.events import StoredEvent, Unreadable, dump_event
from freight_exchange.feed.sources import hash_of
from freight_exchange.store.feeds import Item, NewEvent

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError
    from freight_exchange.feed.sources import Between, Kind, Sighting, Source
    from freight_exchange.store.database import Database

NEVER = -1e18
"""`updated_after` of an item whose absence proves nothing until it is listed again."""


def decide(
    db: Database,
    source: Source,
    sightings: Iterable[Sighting],
    unreadable: Sequence[DecodeError],
    known: Mapping[str, Item],
    *,
    at: float,
    since: float,
    recent: float,
    between: Between,
    unseen: Kind | None,
    tells_baseline: bool,
) -> tuple[list[Item], list[Item], list[NewEvent]]:
    """Compare a page with the known items; return items to write, items that only were seen again, and events.

    Args:
        at: When the page was requested, on the feed's clock.
        since: Start of the scan's window.
        recent: Start of the time in which an item that is new to the feed, or differs, was updated.
        unseen: Finding about items that were never seen; `None` to make no events of them.
        tells_baseline: Whether items that the first scan has read silently make events.
    """
    changed: list[Item] = []
    seen: list[Item] = []
    events: list[NewEvent] = []
    for one in sightings:
        before = known.get(one.key)
        kind = unseen if before is None or (before.version == 0 and tells_baseline) else _kind(before, one)
        # What earlier scans lacked is younger than the watermark. A look-up confirms what follows from this.
        is_news = unseen == "new" and (before is None or before.digest != one.digest)
        updated = max(since, recent if is_news else NEVER, NEVER if before is None else before.updated_after)
        if before is not None and kind is None and before.digest == one.digest and before.record is not None:
            seen.append(before._replace(last_seen=at, updated_after=updated))
            continue
        record = one.dump()
        event = None
        if kind is not None:
            previous = before.record if before is not None and kind == "changed" else None
            returned = before is not None and not before.digest
            event = source.event(db, kind, record, previous, between, returned=returned)
        version = (0 if before is None else before.version) + (event is not None)
        if event is not None:
            events.append(new_event(f"{one.key}:{version}", one.subject, event))
        first_seen = at if before is None else before.first_seen
        changed.append(Item(one.key, one.subject, one.digest, record, version, first_seen, at, updated))
    for error in unreadable:
        key, index = key_of_unreadable(error), wire.index_of_raw(error.raw)
        if key not in known:
            told = Unreadable(index=index, raw=error.raw, error=str(error), observed=between[1])
            events.append(new_event(key, index, told))
            changed.append(Item(key, index, b"?", None, 1, at, at, NEVER))
    return changed, seen, events


def _kind(before: Item, now: Sighting) -> Kind | None:
    return "changed" if before.digest != now.digest else None


def decide_gone(
    db: Database, source: Source, items: Sequence[Item], expected: set[str], at: float, between: Between
) -> tuple[list[Item], list[NewEvent]]:
    """Decide about the items of a request that a look-up denies; some of them were expected."""
    changed: list[Item] = []
    events: list[NewEvent] = []
    for item in items:
        if item.key not in expected or item.record is None:
            changed.append(item._replace(updated_after=NEVER))
            continue
        event = source.event(db, "gone", item.record, item.record, between, returned=False)
        assert event is not None
        gone = item._replace(digest=b"", version=item.version + 1, last_seen=at)
        changed.append(gone)
        events.append(new_event(f"{gone.key}:{gone.version}", gone.subject, event))
    return changed, events


def new_event(key: str, subject: int | None, event: StoredEvent) -> NewEvent:
    return NewEvent(key, subject, event.kind, dump_event(event))


def key_of_unreadable(error: DecodeError) -> str:
    """Return the key of the item that remembers a row which cannot be read."""
    return f"unreadable:{hash_of(error.raw)}"
