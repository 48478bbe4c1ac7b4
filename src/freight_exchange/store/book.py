"""What a store in memory knows for one binding."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import attrs

from freight_exchange.store.protocol import Absence, Binding, Commit, Seen, StoredEvent
from freight_exchange.store.tray import Slip, Tray
from freight_exchange.store.undo import Undo
from freight_exchange.store.work import Delivery, Effect

__all__ = ["Book"]

_MINUTE: Final = 60.0


class ByTime:
    """Numbers, each at its time, found by time without a look at all of them: in a drawer for every minute."""

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._drawers: dict[float, dict[int, None]] = {}
        self._minutes: list[float] = []

    def __contains__(self, number: int) -> bool:
        return number in self._times

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


@attrs.frozen
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
        self.undo = Undo()
        self.tray = Tray(self.undo)
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
        before = self.seen.get(seen.index)
        self.undo.note(lambda: self._forget(seen.index) if before is None else self.put(before))
        self.seen[seen.index] = seen
        if seen.record is None:
            self._recorded.discard(seen.index)
        else:
            self._recorded.put(seen.index, seen.last)
        if seen.record is None or not seen.digest:
            self._live.discard(seen.index)
        else:
            self._live.put(seen.index, seen.updated_after)

    def _forget(self, index: int) -> None:
        del self.seen[index]
        self._recorded.discard(index)
        self._live.discard(index)

    def put_effect(self, effect: Effect) -> None:
        before = self.effects.get(effect.key)
        self.undo.note(lambda: self.effects.pop(effect.key) if before is None else self.put_effect(before))
        self.effects[effect.key] = effect

    def write(self, commit: Commit) -> int:
        for seen in commit.seen:
            self.put(seen)
        before = len(self.events)
        for event in commit.events:
            number = self._numbers.get(event.key)
            if number is not None:
                self.touch(number, commit.at)
                continue
            self.undo.note(self._take_back_last)
            self._last_number += 1
            stored = StoredEvent(
                id=self._last_number, index=event.index, kind=event.kind, payload=event.payload, acknowledged=False
            )
            self._add(_Kept(event.key, stored, commit.at))
            self.pending.append(stored.id)
        if commit.state is not None:
            self._put_state(commit.state)
        return len(self.events) - before

    def _put_state(self, state: str | None) -> None:
        before = self.state
        self.undo.note(lambda: self._put_state(before))
        self.state = state

    def _take_back_last(self) -> None:
        self._remove(self.pending.pop())
        self._last_number -= 1

    def _add(self, kept: _Kept) -> None:
        number, index = kept.event.id, kept.event.index
        self.events[number] = kept
        self._numbers[kept.key] = number
        if index is not None:
            insort(self._about.setdefault(index, []), number)

    def _remove(self, number: int) -> _Kept:
        kept = self.events.pop(number)
        del self._numbers[kept.key]
        if kept.event.index is not None:
            others = self._about[kept.event.index]
            others.remove(number)
            if not others:
                del self._about[kept.event.index]
        return kept

    def deliver(self, number: int, handlers: Sequence[str], at: float, *, passed_over: bool = False) -> None:
        kept = self.events.get(number)
        if kept is None or kept.event.acknowledged:
            return
        self.undo.note(lambda: insort(self.pending, number))
        del self.pending[bisect_left(self.pending, number)]
        self._change(attrs.evolve(kept, event=attrs.evolve(kept.event, acknowledged=True, passed_over=passed_over)))
        self.tray.add(number, kept.event.index, handlers, at)
        self.touch(number, at)

    def touch(self, number: int, at: float) -> None:
        """Something was done about this event; it may have been the last."""
        kept = attrs.evolve(self.events[number], at=max(self.events[number].at, at))
        if not kept.event.acknowledged or self.tray.is_owed(number):
            self._change(kept)
        else:
            self._change(attrs.evolve(kept, event=attrs.evolve(kept.event, payload=b"")), done=True)

    def _change(self, kept: _Kept, *, done: bool = False) -> None:
        """Put the event in place of what it was; done is one of which nothing is owed to anybody."""
        number = kept.event.id
        before, was_done = self.events[number], number in self._done
        self.undo.note(lambda: self._change(before, done=was_done))
        self.events[number] = kept
        if done:
            self._done.put(number, kept.at)
        else:
            self._done.discard(number)

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
            self.tray.drop(number)
            self._done.discard(number)
            dropped = self._remove(number)
            self.undo.note(partial(self._put_back, dropped))

    def _put_back(self, dropped: _Kept) -> None:
        self._add(dropped)
        self._done.put(dropped.event.id, dropped.at)
