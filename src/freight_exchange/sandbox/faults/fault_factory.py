"""A fault of the catalogue, and how it becomes the rules that a script arms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from freight_exchange.sandbox.faults.mutations import Mutation
from freight_exchange.sandbox.faults.script import Fault
from freight_exchange.sandbox.model.messages import Cut, WireFault

__all__ = ["FaultFactory"]

# `None` is a count of its own: for ever.
_AS_THE_RECIPE_SAYS = -1


@attrs.frozen(kw_only=True)
class FaultFactory:
    """A fault of the catalogue. Calling it gives the rules to arm.

    `exchange.faults.add(*FAULTS["stall"](path="login"))` is how it is used. `phases` lists what `processed`
    may be; the first is the default. `method`, `path` and `times` are the defaults of the call. `seconds` is
    the pause of a drip, the wait of an idle FIN, the delay that a Retry-After names or that a `late` reply has.
    """

    name: str
    meaning: str
    phases: tuple[bool, ...]
    cut: Cut | None = None
    mutation: Callable[[float], Mutation] | None = None
    change: Callable[[Any, float], None] | None = None
    follow: Mutation | None = None
    method: str | None = None
    path: str | None = None
    times: int | None = 1
    late: bool = False
    seconds: float = 0.0
    size: int = 0

    def __call__(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        times: int | None = _AS_THE_RECIPE_SAYS,
        skip: int = 0,
        processed: bool | None = None,
        seconds: float | None = None,
    ) -> tuple[Fault, ...]:
        """The rules, in order. `times` is how many calls are struck; `None` is all of them."""
        phase = self.phases[0] if processed is None else processed
        if phase not in self.phases:
            raise ValueError(f"{self.name} cannot strike {'after' if phase else 'before'} processing")
        pause = self.seconds if seconds is None else seconds
        first = Fault(
            name=self.name,
            method=method or self.method,
            path=path or self.path,
            processed=phase,
            times=self.times if times == _AS_THE_RECIPE_SAYS else times,
            skip=skip,
            wire=WireFault(self.cut, pause, self.size) if self.cut is not None else None,
            mutate=self.mutation(pause) if self.mutation is not None else None,
            change=self.change,
            delay=pause if self.late else 0.0,
        )
        if self.follow is None:
            return (first,)
        then = attrs.evolve(first, name=f"{self.name}.then", processed=False, mutate=self.follow, wire=None)
        return first, then
