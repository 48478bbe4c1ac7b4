"""Scripted faults: which call is struck, whether it takes effect all the same, what the client sees."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import attrs

from freight_exchange.sandbox.model.messages import Call, Reply, WireFault

__all__ = ["Fault", "FaultScript", "Fired"]


@attrs.frozen(kw_only=True)
class Fault:
    """A rule that strikes calls.

    A call matches by `method` and `path` (`None` matches all) and `when`, which an early cut asks before the body
    has come. The first `skip` matching calls go through, the next `times` are struck (`None`: all of them).

    `processed` says whether a struck call is handled, and so may take effect, before the fault shows. `change`
    alters the exchange's state just before the struck call is handled. `mutate` alters the reply, or makes the
    whole of it for a call that was not processed. `wire` tells the face what to do to the connection. `delay` is
    how many seconds late the reply is.
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
        """Whether it strikes before the server has the whole request."""
        return self.wire is not None and self.wire.cut.early

    def matches(self, call: Call) -> bool:
        return (
            (self.method is None or self.method == call.method)
            and (self.path is None or self.path == call.path)
            and (self.when is None or self.when(call))
        )


class Fired(NamedTuple):
    """One strike: the fault's name, the call's number in the truth, and whether the call took effect."""

    name: str
    call: int
    processed: bool


class _Armed:
    """A fault with its counters."""

    __slots__ = ("fault", "left", "skip")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.skip = fault.skip
        self.left = fault.times


class FaultScript:
    """The faults that wait for their calls, in the order of their arming: the first that is due strikes."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []
        self.fired: list[Fired] = []

    def add(self, *faults: Fault) -> None:
        """Arms the faults, behind those that wait already."""
        self._armed.extend(_Armed(fault) for fault in faults)

    def clear(self) -> None:
        """Disarms every fault. What has fired stays on record."""
        self._armed.clear()

    def disarm(self, *faults: Fault) -> None:
        """Disarms these faults, the very ones that were added."""
        self._armed = [armed for armed in self._armed if not any(armed.fault is fault for fault in faults)]

    @property
    def waiting(self) -> tuple[Fault, ...]:
        """The faults that can still strike."""
        return tuple(armed.fault for armed in self._armed)

    def peek(self, call: Call) -> Fault | None:
        """The fault that would strike this call. Nothing is counted."""
        for armed in self._armed:
            if armed.skip == 0 and armed.fault.matches(call):
                return armed.fault
        return None

    def take(self, call: Call) -> Fault | None:
        """The fault that strikes this call, counted. Whoever takes it puts it on record with `note`."""
        for armed in self._armed:
            if not armed.fault.matches(call):
                continue
            if armed.skip:
                armed.skip -= 1
                continue
            if armed.left is not None:
                armed.left -= 1
                if armed.left == 0:
                    self._armed.remove(armed)
            return armed.fault
        return None

    def note(self, fault: Fault, call: int, processed: bool) -> None:
        """Puts a strike on record: `processed` says whether the call really took effect."""
        self.fired.append(Fired(fault.name, call, processed))
