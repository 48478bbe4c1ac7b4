"""Recent calls of programs, with the faults that struck them and the next calls of the same program."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Self

import attrs

from freight_sandbox.audit import CallRecord
from freight_sandbox.board.labels import OPERATIONS, fault_label, operation_of
from freight_sandbox.codec import decode

__all__ = ["CallSummary", "Traffic", "summarize"]

_MAX_GROUPS: Final = 40
_MAX_STRIKES: Final = 6
_MAX_STEPS: Final = 4
_MAX_NAME: Final = 100
_POLLS: Final = frozenset({"search", "bids", "offers", "routes", "lists"})
"""Operations that bots poll. The rare writes of routes count as polls too."""


@attrs.frozen(kw_only=True)
class CallSummary:
    """Summary of one call. `request` is the index of the rate request in its parameters, if any."""

    number: int
    time: float
    caller: str | None
    login: int | None
    operation: str | None
    address: str
    status: int
    processed: bool
    fault: str | None
    request: int | None

    @property
    def action(self) -> str:
        return OPERATIONS[self.operation].action if self.operation else f"calls {self.address}"


def summarize(record: CallRecord, caller: str | None, login: int | None = None) -> CallSummary:
    """Summarize a call.

    Args:
        record: The call.
        caller: Email of the account whose token it carried, if any.
        login: Number of the login that gave the token, among those of the account.
    """
    parameters = record.parameters or _sent(record.body)
    request = parameters.get("requestIndex")
    operation = operation_of(record.method, record.path)
    # One address takes both: an offer names its request.
    if operation == "publish" and request is not None:
        operation = "submit"
    if caller is None and operation == "login" and isinstance(parameters.get("email"), str):
        caller = parameters["email"][:_MAX_NAME]
    return CallSummary(
        number=record.number,
        time=record.time,
        caller=record.account or caller,
        login=login,
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
class CallGroup:
    """A call, or consecutive polls of one login."""

    first: CallSummary
    time: float
    count: int
    actions: list[str]

    @classmethod
    def start(cls, line: CallSummary) -> Self:
        return cls(line, line.time, 1, [line.action])

    def absorb(self, line: CallSummary) -> bool:
        """Add the call to this group if it is alike; return whether it is."""
        if not _are_alike(line, self.first):
            return False
        self.count += 1
        self.time = line.time
        if line.action not in self.actions:
            self.actions.append(line.action)
        return True

    def as_json(self) -> dict[str, Any]:
        line = self.first
        return {
            "number": line.number,
            "time": self.time,
            "caller": line.caller,
            "login": line.login,
            "actions": list(self.actions),
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

    line: CallSummary
    next_calls: list[CallGroup]

    def follow(self, line: CallSummary) -> None:
        about = {self.line.request, line.request}
        if line.caller != self.line.caller or (None not in about and len(about) > 1):
            return
        if self.next_calls and self.next_calls[-1].absorb(line):
            return
        if len(self.next_calls) < _MAX_STEPS:
            self.next_calls.append(CallGroup.start(line))

    def as_json(self) -> dict[str, Any]:
        return {**CallGroup.start(self.line).as_json(), "next_calls": [entry.as_json() for entry in self.next_calls]}


class Traffic:
    """The last calls and the last strikes.

    Attributes:
        struck: Number of calls that were struck.
    """

    def __init__(self) -> None:
        self.struck = 0
        self._entries: deque[CallGroup] = deque(maxlen=_MAX_GROUPS)
        self._strikes: deque[Strike] = deque(maxlen=_MAX_STRIKES)

    def add(self, line: CallSummary) -> None:
        for strike in self._strikes:
            strike.follow(line)
        if line.fault is not None:
            self.struck += 1
            self._strikes.append(Strike(line, []))
        if not (self._entries and self._entries[-1].absorb(line)):
            self._entries.append(CallGroup.start(line))

    def calls(self) -> list[dict[str, Any]]:
        """Newest first."""
        return [entry.as_json() for entry in reversed(self._entries)]

    def strikes(self) -> list[dict[str, Any]]:
        """Newest first."""
        return [strike.as_json() for strike in reversed(self._strikes)]


def _are_alike(line: CallSummary, other: CallSummary) -> bool:
    """Return whether both are polls of one login, or the same failed call."""
    if line.fault is not None or other.fault is not None:
        return False
    if (line.caller, line.login) != (other.caller, other.login):
        return False
    if line.status == other.status == 200:
        return line.operation in _POLLS and other.operation in _POLLS
    return (line.address, line.status) == (other.address, other.status)
