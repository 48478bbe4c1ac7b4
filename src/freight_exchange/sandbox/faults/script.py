"""Fault rules and the script that applies them to calls."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import attrs

from freight_exchange.sandbox.model.messages import Call, Reply, WireFault

__all__ = ["Fault", "FaultScript", "Fired"]


@attrs.frozen(kw_only=True)
class Fault:
    """Rule that strikes calls.

    A call matches by `method` and `path` (`None` matches all) and by `when`, which receives the call; for an early cut
    the call has no body. The first `skip` matching calls pass, and the next `times` are struck (`None`: all of them).

    A struck call is carried out if `processed` is true. Just before, `change` receives the exchange and the time.
    `mutate` changes the reply, or makes one if the call was not processed. `wire` breaks the connection. `delay` is the
    number of seconds by which the reply is late.
    """

    name: str
    method: str | None = None
    path: str | None = None
    when: Callable[[Call], bool] | None = None
    processed: bool = True
    times: int | None = 1
    skip: int = 0
    wire: WireFault | None = None
    mutate: Callable[[Reply, float, Random], Reply] | None = None
    change: Callable[[Any, float], None] | None = None
    delay: float = 0.0

    def __attrs_post_init__(self) -> None:
        if not self.processed and self.wire is None and self.mutate is None:
            raise ValueError(f"the fault {self.name} leaves a call without reply and without a cut")

    @property
    def early(self) -> bool:
        """`True` if the fault strikes before the server has the whole request."""
        return self.wire is not None and self.wire.cut.early

    def matches(self, call: Call) -> bool:
        return (
            (self.method is None or self.method == call.method)
            and (self.path is None or self.path == call.path)
            and (self.when is None or self.when(call))
        )


class Fired(NamedTuple):
    """Record of a strike: the fault, the number of the call in the audit log, and whether the call took effect."""

    name: str
    call: int
    processed: bool


class _ArmedFault:
    """Fault with its counters."""

    __slots__ = ("fault", "remaining", "skip")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.skip = fault.skip
        self.remaining = fault.times


class FaultScript:
    """Armed faults, in the order in which they were added. The first that matches a call strikes it."""

    def __init__(self) -> None:
        self._armed: list[_ArmedFault] = []
        self.fired: list[Fired] = []

    def add(self, *faults: Fault) -> None:
        """Arm faults, after those that are armed already."""
        self._armed.extend(_ArmedFault(fault) for fault in faults)

    def clear(self) -> None:
        """Disarm every fault. `fired` keeps its records."""
        self._armed.clear()

    def disarm(self, *faults: Fault) -> None:
        """Disarm these faults (compared by identity)."""
        self._armed = [armed for armed in self._armed if not any(armed.fault is fault for fault in faults)]

    @property
    def waiting(self) -> tuple[Fault, ...]:
        """Faults that can still strike."""
        return tuple(armed.fault for armed in self._armed)

    def peek(self, call: Call) -> Fault | None:
        """Return the fault that would strike this call, without counting it."""
        for armed in self._armed:
            if armed.skip == 0 and armed.fault.matches(call):
                return armed.fault
        return None

    def take(self, call: Call) -> Fault | None:
        """Return the fault that strikes this call, and count it. The caller records the strike with `note`."""
        for armed in self._armed:
            if not armed.fault.matches(call):
                continue
            if armed.skip:
                armed.skip -= 1
                continue
            if armed.remaining is not None:
                armed.remaining -= 1
                if armed.remaining == 0:
                    self._armed.remove(armed)
            return armed.fault
        return None

    def note(self, fault: Fault, call: int, processed: bool) -> None:
        """Record a strike. `processed` is whether the call took effect."""
        self.fired.append(Fired(fault.name, call, processed))
