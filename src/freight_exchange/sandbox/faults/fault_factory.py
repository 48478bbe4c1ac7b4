"""Factory that makes the rules of a catalogued fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from freight_exchange.sandbox.faults.mutations import Mutation
from freight_exchange.sandbox.faults.script import Fault
from freight_exchange.sandbox.model.messages import Cut, WireFault

__all__ = ["FaultFactory"]

# `None` means all calls.
_DEFAULT_TIMES = -1


@attrs.frozen(kw_only=True)
class FaultFactory:
    """Fault of the catalogue. Call it to make its rules: `exchange.faults.add(*FAULTS["stall"](path="login"))`.

    `phases` lists the allowed values of `processed`; the first is the default. `method`, `path` and `times` are the
    defaults of the call. `seconds` is the pause of a drip, the wait of an idle FIN, the delay in a Retry-After header
    or the delay of a late reply (`is_late`). `next_mutation` changes the reply to the call after the struck one.
    """

    name: str
    meaning: str
    phases: tuple[bool, ...]
    cut: Cut | None = None
    mutation: Callable[[float], Mutation] | None = None
    change: Callable[[Any, float], None] | None = None
    next_mutation: Mutation | None = None
    method: str | None = None
    path: str | None = None
    times: int | None = 1
    is_late: bool = False
    seconds: float = 0.0
    size: int = 0

    def __call__(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        times: int | None = _DEFAULT_TIMES,
        skip: int = 0,
        processed: bool | None = None,
        seconds: float | None = None,
    ) -> tuple[Fault, ...]:
        """Make the rules, in order. `times` is the number of calls to strike, `None` for all."""
        phase = self.phases[0] if processed is None else processed
        if phase not in self.phases:
            raise ValueError(f"{self.name} cannot strike {'after' if phase else 'before'} processing")
        pause = self.seconds if seconds is None else seconds
        first = Fault(
            name=self.name,
            method=method or self.method,
            path=path or self.path,
            processed=phase,
            times=self.times if times == _DEFAULT_TIMES else times,
            skip=skip,
            wire=WireFault(self.cut, pause, self.size) if self.cut is not None else None,
            mutate=self.mutation(pause) if self.mutation is not None else None,
            change=self.change,
            delay=pause if self.is_late else 0.0,
        )
        if self.next_mutation is None:
            return (first,)
        second = attrs.evolve(first, name=f"{self.name}.then", processed=False, mutate=self.next_mutation, wire=None)
        return first, second
