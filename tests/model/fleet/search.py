"""Breadth-first search of all reachable states of the protocol, so that the schedule to a violation is the shortest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.model.fleet.protocol import (
    GUARDS,
    Guard,
    State,
    Step,
    can_act,
    describe_violation,
    initial,
    is_settled,
    steps,
)

__all__ = ["Found", "format_schedule", "search"]


class Found(NamedTuple):
    """Outcome of a search.

    Attributes:
        states: The number of reachable states, or of those seen until the violation.
        violation: The violation, if there is one.
        schedule: The steps to it.
    """

    states: int
    violation: str | None = None
    schedule: tuple[Step, ...] = ()


@cache
def search(
    guards: frozenset[Guard] = GUARDS, *, requests: int = 1, faults: int = 2, decisions: int = 1, seats: int = 1
) -> Found:
    """Visit all reachable states, or stop at a violation of safety; then look for violations of liveness.

    Liveness: from each state, each replica that can act settles everything alone, though the other one is frozen.
    """
    start = initial(requests=requests, faults=faults, decisions=decisions, seats=seats)
    reached: dict[State, tuple[Step, State] | None] = {start: None}
    # For each replica, the states before each state by its own steps, time and the network.
    before: tuple[dict[State, list[State]], ...] = ({}, {})
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if (violation := describe_violation(state)) is not None:
            return Found(len(reached), violation, _schedule(state, reached))
        for step, following in steps(state, guards):
            if following not in reached:
                reached[following] = (step, state)
                queue.append(following)
            if not step.is_fault:
                for number in (0, 1) if step.replica is None else (step.replica,):
                    before[number].setdefault(following, []).append(state)
    for number, edges in enumerate(before):
        settling = _predecessors(filter(is_settled, reached), edges)
        for state in reached:
            if state not in settling and can_act(state, number):
                return Found(len(reached), f"replica {number} cannot settle this alone", _schedule(state, reached))
    return Found(len(reached))


def format_schedule(schedule: tuple[Step, ...]) -> str:
    """Format a schedule, one step per line."""
    return "\n".join(f"  {'' if step.replica is None else f'replica {step.replica} '}{step.text}" for step in schedule)


def _schedule(state: State, reached: dict[State, tuple[Step, State] | None]) -> tuple[Step, ...]:
    schedule: list[Step] = []
    while (arrival := reached[state]) is not None:
        step, state = arrival
        schedule.append(step)
    return tuple(reversed(schedule))


def _predecessors(ends: Iterator[State], before: dict[State, list[State]]) -> set[State]:
    """Return the states from which an end can be reached."""
    found = {*ends}
    queue = deque(found)
    while queue:
        for state in before.get(queue.popleft(), ()):
            if state not in found:
                found.add(state)
                queue.append(state)
    return found
