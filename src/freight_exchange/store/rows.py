"""Conversion of rows to records. The queries of both kinds of database select the columns in the same order."""

from __future__ import annotations

from typing import Any

from freight_exchange.store.protocol import TrackedRequest
from freight_exchange.store.work import Delivery, Effect

__all__ = ["live_sort_key", "read_delivery", "read_effect", "read_request"]


def read_request(row: tuple[Any, ...]) -> TrackedRequest:
    """Convert a row of a request."""
    index, digest, record, version, first_seen, last_seen, last_scan, updated_after, missed_scans = row
    return TrackedRequest(
        index=index,
        digest=digest,
        record=record,
        version=version,
        first_seen=first_seen,
        last_seen=last_seen,
        last_scan=last_scan,
        updated_after=updated_after,
        missed_scans=missed_scans,
    )


def live_sort_key(request: TrackedRequest | None) -> tuple[float, int]:
    """Return the sort key of a request in `live_requests`; for `None` a key that precedes all others."""
    return (float("-inf"), -(2**63)) if request is None else (request.updated_after, request.index)


def read_delivery(row: tuple[Any, ...]) -> Delivery:
    """Convert a row of a delivery."""
    event, handler, index, kind, payload, attempts, state, not_before, error = row
    return Delivery(
        event=event,
        handler=handler,
        index=index,
        kind=kind,
        payload=payload,
        attempts=attempts,
        state=state,
        not_before=not_before,
        error=error,
    )


def read_effect(row: tuple[Any, ...]) -> Effect:
    """Convert a row of an effect."""
    key, state, payload, at = row
    return Effect(key=key, state=state, payload=payload, at=at)
