"""What a store in memory knows for one binding."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from freight_exchange.store.protocol import Absence, Binding, Commit, Seen, StoredEvent
from freight_exchange.store.tray import Slip, Tray
from freight_exchange.store.work import Delivery, Effect

__all__ = ["Book"]

_MINUTE: Final = 60.0


class ByTime:
    """Numbers, each at its time, found by time without a look at all of them: in a drawer for every minute."""

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._drawers: dict[float, dict[int, None]] = {}
        self._minutes: list[float] = []

    def put(self, number: int, time: float) -> None:
        self.discard(number)
        minute = _minute(time)
        drawer = self._drawers.get(minute)
        if drawer is None:
            drawer = self._drawers[minute] = {}
            insort(self._minutes, minute)
        drawer[number] = None
        self._times[number] = time

    def discard(self, number: int) -> None:
        time = self._times.pop(number, None)
        if time is None:
            return
        minute = _minute(time)
        drawer = self._drawers[minute]
        del drawer[number]
        if not drawer:
            del self._drawers[minute]
            del self._minutes[bisect_left(self._minutes, minute)]

    def since(self, time: float) -> list[int]:
        """Those at this time or later, the earliest first."""
        minutes = self._minutes[bisect_left(self._minutes, _minute(time)) :]
        return self._sorted(number for number in self._within(minutes) if self._times[number] >= time)

    def before(self, time: float) -> list[int]:
        """Those earlier than this time, the earliest first."""
        minutes = self._minutes[: bisect_right(self._minutes, _minute(time))]
        return self._sorted(number for number in self._within(minutes) if self._times[number] < time)

    def _within(self, minutes: Sequence[float]) -> Iterator[int]:
        return (number for minute in minutes for number in self._drawers[minute])

    def _sorted(self, numbers: Iterator[int]) -> list[int]:
        return sorted(numbers, key=lambda number: (self._times[number], number))


def _minute(time: float) -> float:
    return time // _MINUTE if math.isfinite(time) else time


@attrs.define
class _Kept:
    key: str
    event: StoredEvent
    at: float


class Book:
    """What is known for one binding."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.state: str | None = None
        self.seen: dict[int, Seen] = {}
        self.events: dict[int, _Kept] = {}
        self.pending: list[int] = []
        self.effects: dict[str, Effect] = {}
        self.tray = Tray()
        self._last_number = 0
        self._numbers: dict[str, int] = {}
        self._about: dict[int, list[int]] = {}
        self._live = ByTime()
        self._recorded = ByTime()
        self._done = ByTime()

    def absent(self, absence: Absence) -> list[Seen]:
        found = (self.seen[index] for index in self._live.since(absence.updated_after))
        return [seen for seen in found if seen.scan < absence.scan]

    def put(self, seen: Seen) -> None:
        self.seen[seen.index] = seen
        if seen.record is None:
            self._recorded.discard(seen.index)
        else:
            self._recorded.put(seen.index, seen.last)
        if seen.record is None or not seen.digest:
            self._live.discard(seen.index)
        else:
            self._live.put(seen.index, seen.updated_after)

    def write(self, commit: Commit) -> int:
        for seen in commit.seen:
            self.put(seen)
        before = len(self.events)
        for event in commit.events:
            number = self._numbers.get(event.key)
            if number is not None:
                self.touch(number, commit.at)
                continue
            self._last_number += 1
            number = self._numbers[event.key] = self._last_number
            stored = StoredEvent(
                id=number, index=event.index, kind=event.kind, payload=event.payload, acknowledged=False
            )
            self.events[number] = _Kept(event.key, stored, commit.at)
            self.pending.append(number)
            if event.index is not None:
                self._about.setdefault(event.index, []).append(number)
        if commit.state is not None:
            self.state = commit.state
        return len(self.events) - before

    def deliver(self, number: int, handlers: Sequence[str], at: float, *, passed_over: bool = False) -> None:
        kept = self.events.get(number)
        if kept is None or kept.event.acknowledged:
            return
        del self.pending[bisect_left(self.pending, number)]
        kept.event = attrs.evolve(kept.event, acknowledged=True, passed_over=passed_over)
        self.tray.add(number, kept.event.index, handlers, at)
        self.touch(number, at)

    def touch(self, number: int, at: float) -> None:
        """Something was done about this event; it may have been the last."""
        kept = self.events[number]
        kept.at = max(kept.at, at)
        if kept.event.acknowledged and not self.tray.is_owed(number):
            if kept.event.payload:
                kept.event = attrs.evolve(kept.event, payload=b"")
            self._done.put(number, kept.at)

    def delivery(self, slip: Slip) -> Delivery:
        event = self.events[slip.event].event
        return Delivery(
            event=slip.event,
            handler=slip.handler,
            index=slip.index,
            kind=event.kind,
            payload=event.payload,
            attempts=slip.attempts,
            state=slip.state,
            not_before=slip.not_before,
            error=slip.error,
        )

    def about(self, index: int) -> list[StoredEvent]:
        return [self.events[number].event for number in self._about.get(index, ())]

    def prune(self, before: float) -> None:
        for index in self._recorded.before(before):
            self.put(attrs.evolve(self.seen[index], record=None, last=0.0, scan=0, updated_after=0.0, missing=0))
        for number in self._done.before(before):
            self._done.discard(number)
            self.tray.drop(number)
            kept = self.events.pop(number)
            del self._numbers[kept.key]
            if kept.event.index is not None:
                others = self._about[kept.event.index]
                others.remove(number)
                if not others:
                    del self._about[kept.event.index]
