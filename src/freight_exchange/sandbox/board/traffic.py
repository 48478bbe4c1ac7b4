"""What the calls of programs look like to a person: who did what, what struck it, and what the caller did then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from freight_exchange.sandbox.codec import decode
from freight_exchange.sandbox.truth import CallRecord

from .words import OPERATIONS, fault_label, operation_of

__all__ = ["Line", "digest", "line_of", "strikes"]

_SHOWN_AFTER: Final = 4


@attrs.frozen(kw_only=True)
class Line:
    """One call. `request` is the rate request that it is about, where it says one."""

    number: int
    time: float
    who: str | None
    operation: str | None
    address: str
    status: int
    processed: bool
    fault: str | None
    request: int | None

    @property
    def does(self) -> str:
        return OPERATIONS[self.operation].does if self.operation else f"calls {self.address}"


def line_of(record: CallRecord, who: str | None) -> Line:
    """What is worth keeping of a call. `who` is the account whose token it carried, if it did."""
    parameters = record.parameters or _sent(record.body)
    request = parameters.get("requestIndex")
    operation = operation_of(record.method, record.path)
    # One address takes both: an offer says which request it is on.
    if operation == "publish" and request is not None:
        operation = "submit"
    if who is None and operation == "login" and isinstance(parameters.get("email"), str):
        who = parameters["email"]
    return Line(
        number=record.number,
        time=record.time,
        who=record.account or who,
        operation=operation,
        address=f"{record.method} {record.path}",
        status=record.status,
        processed=record.processed,
        fault=record.fault,
        request=int(request) if isinstance(request, int | str) and str(request).isdecimal() else None,
    )


def _sent(body: bytes) -> dict[str, Any]:
    try:
        values = decode(body) if body else {}
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def digest(lines: Iterable[Line], most: int) -> list[dict[str, Any]]:
    """The first calls, in the order given; the same call again and again is one entry with a count."""
    entries: list[dict[str, Any]] = []
    last: Line | None = None
    for line in lines:
        if last is not None and _alike(line, last):
            entries[-1]["count"] += 1
            continue
        if len(entries) == most:
            break
        entries.append(_entry(line))
        last = line
    return entries


def _alike(line: Line, other: Line) -> bool:
    kept = (line.who, line.operation, line.address, line.status, line.fault)
    return line.fault is None and kept == (other.who, other.operation, other.address, other.status, other.fault)


def _entry(line: Line) -> dict[str, Any]:
    return {
        "number": line.number,
        "time": line.time,
        "who": line.who,
        "does": line.does,
        "address": line.address,
        "status": line.status,
        "fault": fault_label(line.fault) if line.fault else None,
        "processed": line.processed,
        "request": line.request,
        "count": 1,
    }


def strikes(lines: Sequence[Line], most: int) -> list[dict[str, Any]]:
    """The last calls that a fault struck, the newest first, each with what its caller did next."""
    found: list[dict[str, Any]] = []
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at]
        if line.fault is None:
            continue
        after = (later for later in lines[at + 1 :] if later.who == line.who)
        found.append({**_entry(line), "then": digest(after, _SHOWN_AFTER)})
        if len(found) == most:
            break
    return found
