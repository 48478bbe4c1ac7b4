"""What the sandbox knows to be true against what a watcher wrote down. Imports nothing of the watcher."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from freight_exchange.sandbox.core.audit_log import RequestChange

__all__ = ["Line", "Verdict", "judge", "lines"]

_GONE: Final = "withdrawn"
State = tuple[str, ...]


@attrs.frozen
class Line:
    """One line of the journal: what was handed out in which life of the process."""

    life: int
    kind: str
    index: int | None
    state: State

    @property
    def now(self) -> State:
        """The state in which the request is since then."""
        return (_GONE,) if self.kind == _GONE else self.state


@attrs.frozen(kw_only=True)
class Verdict:
    """Everything that may be wrong, as sentences, and what was counted.

    Attributes:
        missed: Requests whose last state, or whose end, was not handed out.
        repeated: Handed out twice, though the first was acknowledged, or could have been.
        invented: What never was, or was told after what came later.
        again: How often the one event that was not acknowledged came again, as it must.
    """

    published: int
    changed: int
    withdrawn: int
    handed_out: int
    missed: Sequence[str]
    repeated: Sequence[str]
    invented: Sequence[str]
    again: int

    @property
    def good(self) -> bool:
        return not (self.missed or self.repeated or self.invented)


def lines(path: Path) -> list[Line]:
    """What the journal holds; a last line that was cut off is as if it had not been written."""
    if not path.exists():
        return []
    said = [json.loads(text) for text in path.read_bytes().split(b"\n")[:-1]]
    return [Line(line["life"], line["kind"], line["index"], tuple(line["state"])) for line in said]


def judge(changes: Iterable[RequestChange], written: Iterable[Line]) -> Verdict:
    truth = _states(changes)
    handed = [line for line in written if line.kind != "primed"]
    last = {line.index: line.now for line in handed}
    missed = [
        f"request {index} is {states[-1]}, last handed out was {last.get(index)}"
        for index, states in truth.items()
        # What was withdrawn before anybody saw it leaves nothing to tell.
        if last.get(index, (_GONE,)) != states[-1]
    ]
    repeated: list[str] = []
    invented: list[str] = []
    again = 0
    reached: dict[int, int] = {}
    before: dict[int, Line] = {}
    previous: Line | None = None
    for line in handed:
        if line.index is None or line.index not in truth:
            invented.append(f"there is no reason for {line}")
        elif line.index in before and before[line.index].now == line.now:
            # Only what was handed out last before a kill was not acknowledged, and it comes again first of all.
            if previous is not None and previous is before[line.index] and previous.life < line.life:
                again += 1
            else:
                repeated.append(f"{line} after {before[line.index]}")
        else:
            later = truth[line.index][reached.get(line.index, 0) :]
            if line.now in later:
                reached[line.index] = reached.get(line.index, 0) + later.index(line.now) + 1
            else:
                invented.append(f"{line}, when there was still to come {later}")
        if line.index is not None:
            before[line.index] = line
        previous = line
    kinds = Counter(state == (_GONE,) for states in truth.values() for state in states[1:])
    return Verdict(
        published=len(truth),
        changed=kinds[False],
        withdrawn=kinds[True],
        handed_out=len(handed),
        missed=missed,
        repeated=repeated,
        invented=invented,
        again=again,
    )


def _states(changes: Iterable[RequestChange]) -> Mapping[int, list[State]]:
    """The states of each request, in order; one that only its time of update tells apart is none."""
    states: dict[int, list[State]] = {}
    for change in changes:
        cargo = change.state.cargo
        state = (_GONE,) if change.what == _GONE else (str(cargo.quantity), cargo.destination)
        known = states.setdefault(change.request, [])
        if not known or known[-1] != state:
            known.append(state)
    return states
