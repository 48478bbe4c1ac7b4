"""Checker that compares the sandbox's audit log with the events in a watcher's journal, without the watcher's code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from freight_sandbox.audit import RequestChange

__all__ = ["CheckResult", "Line", "check", "lines"]

_GONE: Final = "withdrawn"
State = tuple[str, ...]


@attrs.frozen
class Line:
    """Line of the journal: an event, and the run of the process that received it."""

    run: int
    kind: str
    index: int | None
    state: State

    @property
    def after(self) -> State:
        """Return the state of the request after the event."""
        return (_GONE,) if self.kind == _GONE else self.state


@attrs.frozen(kw_only=True)
class CheckResult:
    """The violations, as sentences, and counts.

    Attributes:
        missed: Requests whose last state, or withdrawal, was not delivered.
        repeated: Events delivered again after they were acknowledged, or could have been.
        invented: Events without a cause, or out of order.
        redelivered: Repeated deliveries of events that were unacknowledged at a kill, which are right.
    """

    published: int
    changed: int
    withdrawn: int
    delivered: int
    missed: Sequence[str]
    repeated: Sequence[str]
    invented: Sequence[str]
    redelivered: int

    @property
    def is_good(self) -> bool:
        return not (self.missed or self.repeated or self.invented)


def lines(path: Path) -> list[Line]:
    """Read the journal; a truncated last line counts as not written."""
    if not path.exists():
        return []
    records = [json.loads(text) for text in path.read_bytes().split(b"\n")[:-1]]
    return [Line(line["run"], line["kind"], line["index"], tuple(line["state"])) for line in records]


def check(changes: Iterable[RequestChange], written: Iterable[Line]) -> CheckResult:
    expected = _states(changes)
    delivered = [line for line in written if line.kind != "primed"]
    last = {line.index: line.after for line in delivered}
    missed = [
        f"request {index} is {states[-1]}, last delivered was {last.get(index)}"
        for index, states in expected.items()
        # A request that was withdrawn before it was seen has no event.
        if last.get(index, (_GONE,)) != states[-1]
    ]
    repeated: list[str] = []
    invented: list[str] = []
    redelivered = 0
    reached: dict[int, int] = {}
    before: dict[int, Line] = {}
    previous: Line | None = None
    for line in delivered:
        if line.index is None or line.index not in expected:
            invented.append(f"no cause for {line}")
        elif line.index in before and before[line.index].after == line.after:
            # Only the last event before a kill was not acknowledged, and it is delivered again first.
            if previous is not None and previous is before[line.index] and previous.run < line.run:
                redelivered += 1
            else:
                repeated.append(f"{line} after {before[line.index]}")
        else:
            later = expected[line.index][reached.get(line.index, 0) :]
            if line.after in later:
                reached[line.index] = reached.get(line.index, 0) + later.index(line.after) + 1
            else:
                invented.append(f"{line}, when the next states were {later}")
        if line.index is not None:
            before[line.index] = line
        previous = line
    kinds = Counter(state == (_GONE,) for states in expected.values() for state in states[1:])
    return CheckResult(
        published=len(expected),
        changed=kinds[False],
        withdrawn=kinds[True],
        delivered=len(delivered),
        missed=missed,
        repeated=repeated,
        invented=invented,
        redelivered=redelivered,
    )


def _states(changes: Iterable[RequestChange]) -> Mapping[int, list[State]]:
    """Return the states of each request in order, without updates that change nothing visible."""
    states: dict[int, list[State]] = {}
    for change in changes:
        cargo = change.state.cargo
        state = (_GONE,) if change.what == _GONE else (str(cargo.quantity), cargo.destination)
        known = states.setdefault(change.request, [])
        if not known or known[-1] != state:
            known.append(state)
    return states
