"""Breadth-first search of all reachable states of the protocol, so that the schedule to a violation is the shortest."""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import NamedTuple

from tests.model.fleet.protocol import GUARDS, Guard, State, Step, describe_violation, initial, is_over, steps

__all__ = ["Found", "format_schedule", "search"]


class Found(NamedTuple):
    """Outcome of a search.

    Attributes:
        states: The number of reachable states, or of those seen until the violation.
        violation: The violation, if there is one.
        schedule: The steps to it.
        stuck: The number of states from which no schedule reaches an end (`is_over`).
    """

    states: int
    violation: str | None = None
    schedule: tuple[Step, ...] = ()
    stuck: int = 0


@cache
def search(guards: frozenset[Guard] = GUARDS, *, requests: int = 1, take_overs: int = 2, decisions: int = 1) -> Found:
    """Visit all reachable states, or stop at a violation."""
    start = initial(requests=requests, take_overs=take_overs, decisions=decisions)
    reached: dict[State, tuple[Step, State] | None] = {start: None}
    before: dict[State, list[State]] = {start: []}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if (violation := describe_violation(state)) is not None:
            return Found(len(reached), violation, _schedule(state, reached))
        for step, following in steps(state, guards):
            if following not in reached:
                reached[following] = (step, state)
                before[following] = []
                queue.append(following)
            before[following].append(state)
    return Found(len(reached), stuck=len(reached) - _count_predecessors(before))


def format_schedule(schedule: tuple[Step, ...]) -> str:
    """Format a schedule, one step per line."""
    return "\n".join(f"  {'' if step.replica is None else f'replica {step.replica} '}{step.text}" for step in schedule)


def _schedule(state: State, reached: dict[State, tuple[Step, State] | None]) -> tuple[Step, ...]:
    schedule: list[Step] = []
    while (arrival := reached[state]) is not None:
        step, state = arrival
        schedule.append(step)
    return tuple(reversed(schedule))


def _count_predecessors(before: dict[State, list[State]]) -> int:
    """Count the states from which an end can be reached."""
    found = {state for state in before if is_over(state)}
    queue = deque(found)
    while queue:
        for state in before[queue.popleft()]:
            if state not in found:
                found.add(state)
                queue.append(state)
    return len(found)
