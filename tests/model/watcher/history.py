"""History of a run for its checker: plain values in the order of time. Times are the server's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from freight_sandbox import AuditLog
    from freight_sandbox.records import Request

__all__ = ["UNREADABLE", "Delivery", "Gap", "History", "Note", "State", "of_wire", "plain", "state_of", "weight"]

State = tuple[str, ...]
"""Content of a request: commodity, origin, destination, quantity, weight, incoterm, hazardous, notes."""

UNREADABLE = 900_000_000
"""Kilograms from which the service writes a weight in an unreadable form."""


@attrs.define(kw_only=True)
class Delivery:
    """Event that the consumer received.

    Attributes:
        turn: Number of the consumer's restarts before it; unacknowledged events come again after a restart.
        content: Content of the request; `None` if the event has no request.
        acked: Whether the acknowledgement was committed.
    """

    time: float
    turn: int
    kind: str
    index: int | None
    content: State | None
    acked: bool = False


@attrs.frozen(kw_only=True)
class Note:
    """Committed event or, with the kind `watermark`, the claim that all events before `until` are committed."""

    time: float
    kind: str
    index: int | None = None
    content: State | None = None
    until: float = 0.0


@attrs.frozen(kw_only=True)
class Gap:
    """Reported time without a watcher."""

    time: float
    since: float
    until: float


@attrs.define(kw_only=True)
class History:
    """Record of a run.

    Attributes:
        audit_log: The service's own record.
        shown_at: Returns the time at which a change became visible, by the time of the change.
        start: The feed's `start`; a number is seconds.
        entered: Time at which the feed was first entered, or `None`.
        deliveries: Delivered events, in order.
        notes: Committed events and watermarks, in order.
        gaps: Reported times without a watcher.
        lies: Times at which a readable record was shown in an unreadable form, by request.
        holes: Requests that listings left out for a while.
        steady: Whether the boot clock went on through restarts, and none was set forward: a needless gap is
            an error then.
        reported: Whether every withdrawal must have been reported.
    """

    audit_log: AuditLog
    shown_at: Callable[[float], float]
    start: Literal["now", "backfill"] | float
    entered: float | None = None
    deliveries: list[Delivery] = attrs.field(factory=list)
    notes: list[Note] = attrs.field(factory=list)
    gaps: list[Gap] = attrs.field(factory=list)
    lies: dict[int, list[float]] = attrs.field(factory=dict)
    holes: set[int] = attrs.field(factory=set)
    steady: bool = True
    reported: bool = False


def state_of(request: Request) -> State:
    """Return the state in the exchange's audit log."""
    cargo = request.cargo
    return (
        cargo.commodityname,
        cargo.origin,
        cargo.destination,
        plain(cargo.quantity),
        weight(cargo.weight),
        cargo.incoterm,
        plain(cargo.hazardous),
        plain(cargo.notes),
    )


def of_wire(record: Mapping[str, object]) -> State:
    """Return the state in a record of a reply."""
    names = ("commodityname", "origin", "destination", "qty", "weight", "incoterm", "hazardous", "notes")
    return tuple(plain(record.get(name)) for name in names)


def plain(value: object) -> str:
    """Return a value in one spelling, whether it is a number, a text or missing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return str(value)
    return f"{number.normalize():f}" if number.is_finite() else str(value)


def weight(value: object) -> str:
    """Return a weight as the service writes it."""
    number = plain(value)
    return f"a lot {number}" if number.isdigit() and int(number) >= UNREADABLE else number
