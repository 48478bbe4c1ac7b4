"""What the calls of programs look like to a person: who did what, what struck it, and what the caller did then."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Self

import attrs

from freight_exchange.sandbox.board.words import OPERATIONS, fault_label, operation_of
from freight_exchange.sandbox.core.audit_log import CallRecord
from freight_exchange.sandbox.rendering.codec import decode

__all__ = ["Line", "Traffic", "line_of"]

_MOST_ENTRIES: Final = 40
_MOST_STRIKES: Final = 6
_MOST_STEPS: Final = 4
_LONGEST_NAME: Final = 100
_POLLS: Final = frozenset({"search", "bids", "offers", "routes", "lists"})
"""What bots do while they wait. A route that is written is among them, and rare."""


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
        who = parameters["email"][:_LONGEST_NAME]
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


@attrs.define
class Entry:
    """A call, or a caller's polls one after the other."""

    first: Line
    time: float
    count: int
    does: list[str]

    @classmethod
    def of(cls, line: Line) -> Self:
        return cls(line, line.time, 1, [line.does])

    def takes(self, line: Line) -> bool:
        """Whether the call is more of the same, and then it is counted here."""
        if not _alike(line, self.first):
            return False
        self.count += 1
        self.time = line.time
        if line.does not in self.does:
            self.does.append(line.does)
        return True

    def shown(self) -> dict[str, Any]:
        line = self.first
        return {
            "number": line.number,
            "time": self.time,
            "who": line.who,
            "does": list(self.does),
            "address": line.address,
            "status": line.status,
            "fault": fault_label(line.fault) if line.fault else None,
            "processed": line.processed,
            "request": line.request,
            "count": self.count,
        }


@attrs.define
class Strike:
    """A call that a fault struck, and what its caller did next."""

    line: Line
    then: list[Entry]

    def follow(self, line: Line) -> None:
        about = {self.line.request, line.request}
        if line.who != self.line.who or (None not in about and len(about) > 1):
            return
        if self.then and self.then[-1].takes(line):
            return
        if len(self.then) < _MOST_STEPS:
            self.then.append(Entry.of(line))

    def shown(self) -> dict[str, Any]:
        return {**Entry.of(self.line).shown(), "then": [entry.shown() for entry in self.then]}


class Traffic:
    """The last calls and the last strikes, as much as a person looks at.

    Attributes:
        struck: How many calls were struck.
    """

    def __init__(self) -> None:
        self.struck = 0
        self._entries: deque[Entry] = deque(maxlen=_MOST_ENTRIES)
        self._strikes: deque[Strike] = deque(maxlen=_MOST_STRIKES)

    def add(self, line: Line) -> None:
        for strike in self._strikes:
            strike.follow(line)
        if line.fault is not None:
            self.struck += 1
            self._strikes.append(Strike(line, []))
        if not (self._entries and self._entries[-1].takes(line)):
            self._entries.append(Entry.of(line))

    def calls(self) -> list[dict[str, Any]]:
        """The newest first."""
        return [entry.shown() for entry in reversed(self._entries)]

    def strikes(self) -> list[dict[str, Any]]:
        """The newest first."""
        return [strike.shown() for strike in reversed(self._strikes)]


def _alike(line: Line, other: Line) -> bool:
    """Whether both are the same caller's polls, or the same call in vain."""
    if line.fault is not None or other.fault is not None or line.who != other.who:
        return False
    if line.status == other.status == 200:
        return line.operation in _POLLS and other.operation in _POLLS
    return (line.address, line.status) == (other.address, other.status)
