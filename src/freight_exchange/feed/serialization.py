"""Events as bytes to keep, and back. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from freight_exchange import wire
from freight_exchange.errors import DecodeError, StoreError
from freight_exchange.feed.events import BidSelected, Event, Gap, RequestEvent, SchemaChanged, Unreadable

if TYPE_CHECKING:
    from freight_exchange.models import RateRequest

__all__ = ["NOT_OURS", "UNREADABLE", "pack", "pack_selected", "recall", "unpack", "unpack_selected"]

NOT_OURS: Final = (ArithmeticError, AttributeError, DecodeError, KeyError, OSError, TypeError, ValueError)
"""Errors on reading what this version did not write."""

UNREADABLE: Final = (
    "cannot be read: another version of this package wrote it, or it is damaged; use the version that wrote it, or "
    "another store"
)


def pack(event: Event) -> bytes:
    """Return the event as bytes."""
    said: dict[str, object]
    match event:
        case RequestEvent():
            said = {
                "request": wire.keep(event.request).decode(),
                "previous": None if event.previous is None else wire.keep(event.previous).decode(),
                "changed": event.changed,
                "returned": event.returned,
                "between": [_stamp(moment) for moment in event.observed_between],
            }
        case Gap():
            said = {"since": _stamp(event.since), "until": _stamp(event.until)}
        case SchemaChanged():
            said = {
                "added": event.added,
                "removed": event.removed,
                "requests": event.requests,
                "observed": _stamp(event.observed),
            }
        case Unreadable():
            said = {
                "index": event.index,
                "raw": event.raw,
                "error": event.error,
                "observed": _stamp(event.observed),
            }
    # Only a raw record holds what JSON does not: its fractions, which are kept as text.
    return json.dumps(said, separators=(",", ":"), default=str).encode()


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
    said: dict[str, Any] = json.loads(payload)
    match kind:
        case "new" | "updated" | "withdrawn":
            earliest, latest = said["between"]
            return RequestEvent(
                kind=kind,
                request=wire.recall(said["request"].encode()),
                previous=None if said["previous"] is None else wire.recall(said["previous"].encode()),
                changed=tuple(said["changed"]),
                returned=said["returned"],
                observed_between=(None if earliest is None else _moment(earliest), _moment(latest)),
            )
        case "gap":
            return Gap(since=_moment(said["since"]), until=_moment(said["until"]))
        case "schema_changed":
            return SchemaChanged(
                added=tuple(said["added"]),
                removed=tuple(said["removed"]),
                requests=tuple(said["requests"]),
                observed=_moment(said["observed"]),
            )
        case "unreadable":
            return Unreadable(
                index=said["index"],
                raw=said["raw"],
                error=said["error"],
                observed=_moment(said["observed"]),
            )
        case _:
            raise ValueError(f"no event is of the kind {kind!r}")


def pack_selected(event: BidSelected) -> bytes:
    """Return the event as bytes."""
    said = {"bid": wire.keep_bid(event.bid).decode(), "observed": _stamp(event.observed)}
    return json.dumps(said, separators=(",", ":")).encode()


def recall(kept: bytes) -> RateRequest:
    """Return the request from its bytes; raise `StoreError` as in `unpack`."""
    try:
        return wire.recall(kept)
    except NOT_OURS as error:
        raise StoreError(f"a request in the store {UNREADABLE}") from error


def unpack_selected(payload: bytes) -> BidSelected:
    """Return the event from its bytes; raise `StoreError` as in `unpack`."""
    try:
        said = json.loads(payload)
        return BidSelected(bid=wire.recall_bid(said["bid"].encode()), observed=_moment(said["observed"]))
    except NOT_OURS as error:
        raise StoreError(f"an event ({BidSelected.kind}) in the store {UNREADABLE}") from error


def _stamp(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _moment(stamp: float) -> datetime:
    return datetime.fromtimestamp(stamp, UTC)
