"""Conversion of events to stored bytes, and back. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from freight_exchange.errors import DecodeError, StoreError
from freight_exchange.feed.events import BidSelected, Event, Gap, RequestEvent, SchemaChanged, Unreadable
from freight_exchange.store import snapshots

if TYPE_CHECKING:
    from freight_exchange.models import RateRequest

__all__ = ["NOT_OURS", "UNREADABLE", "load_request", "pack", "pack_selected", "unpack", "unpack_selected"]

NOT_OURS: Final = (ArithmeticError, AttributeError, DecodeError, KeyError, OSError, TypeError, ValueError)
"""Errors on reading bytes that this version did not write."""

UNREADABLE: Final = (
    "cannot be read: another version of this package wrote it, or it is damaged; use the version that wrote it, or "
    "another store"
)


def pack(event: Event) -> bytes:
    """Return the event as bytes."""
    stored: dict[str, object]
    match event:
        case RequestEvent():
            stored = {
                "request": snapshots.dump_record(event.request).decode(),
                "previous": None if event.previous is None else snapshots.dump_record(event.previous).decode(),
                "changed": event.changed,
                "returned": event.returned,
                "between": [_stamp(moment) for moment in event.observed_between],
            }
        case Gap():
            stored = {"since": _stamp(event.since), "until": _stamp(event.until)}
        case SchemaChanged():
            stored = {
                "added": event.added,
                "removed": event.removed,
                "requests": event.requests,
                "observed": _stamp(event.observed),
            }
        case Unreadable():
            stored = {
                "index": event.index,
                "raw": event.raw,
                "error": event.error,
                "observed": _stamp(event.observed),
            }
    # Only a raw record has values that JSON has not: its fractions are stored as text.
    return json.dumps(stored, separators=(",", ":"), default=str).encode()


def unpack(kind: str, payload: bytes) -> Event:
    """Return the event from its bytes.

    Raises:
        StoreError: It is damaged, or another version of this package wrote it.
    """
    try:
        return _unpacked(kind, payload)
    except NOT_OURS as error:
        raise StoreError(f"an event ({kind}) in the store {UNREADABLE}") from error


def _unpacked(kind: str, payload: bytes) -> Event:
    stored: dict[str, Any] = json.loads(payload)
    match kind:
        case "new" | "updated" | "withdrawn":
            earliest, latest = stored["between"]
            return RequestEvent(
                kind=kind,
                request=snapshots.load_request(stored["request"].encode()),
                previous=None if stored["previous"] is None else snapshots.load_request(stored["previous"].encode()),
                changed=tuple(stored["changed"]),
                returned=stored["returned"],
                observed_between=(None if earliest is None else _moment(earliest), _moment(latest)),
            )
        case "gap":
            return Gap(since=_moment(stored["since"]), until=_moment(stored["until"]))
        case "schema_changed":
            return SchemaChanged(
                added=tuple(stored["added"]),
                removed=tuple(stored["removed"]),
                requests=tuple(stored["requests"]),
                observed=_moment(stored["observed"]),
            )
        case "unreadable":
            return Unreadable(
                index=stored["index"],
                raw=stored["raw"],
                error=stored["error"],
                observed=_moment(stored["observed"]),
            )
        case _:
            raise ValueError(f"there is no kind of event {kind!r}")


def pack_selected(event: BidSelected) -> bytes:
    """Return the event as bytes."""
    stored = {"bid": snapshots.dump_record(event.bid).decode(), "observed": _stamp(event.observed)}
    return json.dumps(stored, separators=(",", ":")).encode()


def load_request(kept: bytes) -> RateRequest:
    """Return the request from its bytes; raise `StoreError` as in `unpack`."""
    try:
        return snapshots.load_request(kept)
    except NOT_OURS as error:
        raise StoreError(f"a request in the store {UNREADABLE}") from error


def unpack_selected(payload: bytes) -> BidSelected:
    """Return the event from its bytes; raise `StoreError` as in `unpack`."""
    try:
        stored = json.loads(payload)
        return BidSelected(bid=snapshots.load_bid(stored["bid"].encode()), observed=_moment(stored["observed"]))
    except NOT_OURS as error:
        raise StoreError(f"an event ({BidSelected.kind}) in the store {UNREADABLE}") from error


def _stamp(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _moment(stamp: float) -> datetime:
    return datetime.fromtimestamp(stamp, UTC)
