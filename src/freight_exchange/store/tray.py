"""The deliveries of a store in memory, found by what is asked for without a look at those that are done."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Iterable
from functools import partial

import attrs

from freight_exchange.store.undo import Undo
from freight_exchange.store.work import DeliveryState

__all__ = ["Slip", "Tray"]

Key = tuple[int, str]
"""The event's number and the handler's identifier."""

_Turn = tuple[float, tuple[int, ...], Key]
"""When it is due, which request it is about, and which one it is: the order of claims. Without a request goes first."""


@attrs.frozen(kw_only=True)
class Slip:
    """A delivery, without what its event says."""

    event: int
    handler: str
    index: int | None
    attempts: int = 0
    state: DeliveryState = "ready"
    not_before: float
    error: str | None = None

    @property
    def key(self) -> Key:
        return self.event, self.handler

    @property
    def turn(self) -> _Turn:
        return self.not_before, () if self.index is None else (self.index,), self.key


class Tray:
    """The deliveries of one feed."""

    def __init__(self, undo: Undo) -> None:
        self._undo = undo
        self._slips: dict[Key, Slip] = {}
        self._of: dict[int, list[Key]] = {}
        self._in: dict[DeliveryState, dict[Key, None]] = {"claimed": {}, "done": {}, "dead": {}}
        self._ready: list[Key] = []
        self._due: list[_Turn] = []
        self._queues: dict[tuple[str, int], list[int]] = {}

    def add(self, event: int, index: int | None, handlers: Iterable[str], at: float) -> None:
        self._undo.note(lambda: self.drop(event))
        for handler in dict.fromkeys(handlers):
            self._add(Slip(event=event, handler=handler, index=index, not_before=at))

    def _add(self, slip: Slip) -> None:
        self._slips[slip.key] = slip
        self._of.setdefault(slip.event, []).append(slip.key)
        self._enter(slip)

    def drop(self, event: int) -> None:
        """Forget the deliveries of an event."""
        for key in self._of.pop(event, ()):
            slip = self._slips.pop(key)
            self._leave(slip)
            self._undo.note(partial(self._add, slip))

    def is_owed(self, event: int) -> bool:
        """Whether any delivery of it is not done."""
        return any(self._slips[key].state != "done" for key in self._of.get(event, ()))

    def claim(self, now: float, limit: int, handlers: Collection[str] | None) -> list[Slip]:
        requests = self._claimed_requests()
        chosen: list[Slip] = []
        for due, _, key in _of(self._due, handlers):
            if due > now or len(chosen) >= limit:
                break
            slip = self._slips[key]
            if not self._is_free(slip, requests):
                continue
            if slip.index is not None:
                requests.add(slip.index)
            chosen.append(slip)
        claimed = [attrs.evolve(slip, state="claimed", attempts=slip.attempts + 1) for slip in chosen]
        for slip in claimed:
            self._put(slip)
        return claimed

    def next_due(self, handlers: Collection[str] | None) -> float | None:
        requests = self._claimed_requests()
        turns = _of(self._due, handlers)
        return next((due for due, _, key in turns if self._is_free(self._slips[key], requests)), None)

    def overdue(self, now: float, handlers: Collection[str] | None) -> tuple[int, float | None]:
        def due(turn: _Turn) -> float:
            return turn[0]

        first_later = bisect_right(self._due, now, key=due)
        if not first_later:
            return 0, None
        put_off: dict[tuple[str, int], int] = {}
        for _, index, (event, handler) in self._due[first_later:]:
            if index:
                queue = handler, index[0]
                put_off[queue] = min(event, put_off.get(queue, event))
        times = [
            at
            for at, index, (event, handler) in _of(self._due[:first_later], handlers)
            if not index or event < put_off.get((handler, index[0]), event + 1)
        ]
        return len(times), min(times, default=None)

    def ready_by_handler(self) -> dict[str, int]:
        return dict(Counter(handler for _, handler in self._ready))

    def settle(self, key: Key, state: DeliveryState, *, not_before: float, error: str | None, forgive: bool) -> bool:
        slip = self._slips.get(key)
        if slip is None or slip.state != "claimed":
            return False
        error = slip.error if forgive and error is None else error
        attempts = slip.attempts - forgive
        self._put(attrs.evolve(slip, state=state, not_before=not_before, error=error, attempts=attempts))
        return True

    def skip(self, key: Key) -> bool:
        """Do without handling a ready one."""
        slip = self._slips.get(key)
        if slip is None or slip.state != "ready":
            return False
        self._put(attrs.evolve(slip, state="done"))
        return True

    def behind(self, key: Key) -> list[Slip]:
        """The ready ones that follow it to its handler."""
        slip = self._slips.get(key)
        if slip is None or slip.index is None:
            return []
        later = self._queues.get((slip.handler, slip.index), ())
        return [self._slips[event, slip.handler] for event in later if event > slip.event]

    def reclaim(self) -> int:
        left = list(self._in["claimed"])
        for key in left:
            self._put(attrs.evolve(self._slips[key], state="ready"))
        return len(left)

    def replay(self, key: Key, at: float) -> bool:
        slip = self._slips.get(key)
        if slip is None or slip.state != "dead":
            return False
        self._put(attrs.evolve(slip, state="ready", not_before=at, attempts=0))
        return True

    def of_state(self, state: DeliveryState, limit: int) -> list[Slip]:
        keys = self._ready if state == "ready" else sorted(self._in[state])
        return [self._slips[key] for key in keys[: max(0, limit)]]

    def of_events(self, events: Iterable[int], state: DeliveryState, limit: int) -> list[Slip]:
        keys = sorted(key for event in events for key in self._of.get(event, ()))
        found = [slip for key in keys if (slip := self._slips[key]).state == state]
        return found[: max(0, limit)]

    def _claimed_requests(self) -> set[int]:
        indexes = (self._slips[key].index for key in self._in["claimed"])
        return {index for index in indexes if index is not None}

    def _is_free(self, slip: Slip, claimed: set[int]) -> bool:
        """Neither behind a claimed one of its request, nor behind an earlier one of its handler's."""
        if slip.index is None:
            return True
        return slip.index not in claimed and self._queues[slip.handler, slip.index][0] == slip.event

    def _put(self, slip: Slip) -> None:
        """In place of what it was."""
        before = self._slips[slip.key]
        self._undo.note(lambda: self._put(before))
        self._leave(before)
        self._slips[slip.key] = slip
        self._enter(slip)

    def _enter(self, slip: Slip) -> None:
        if slip.state != "ready":
            self._in[slip.state][slip.key] = None
            return
        insort(self._ready, slip.key)
        insort(self._due, slip.turn)
        if slip.index is not None:
            insort(self._queues.setdefault((slip.handler, slip.index), []), slip.event)

    def _leave(self, slip: Slip) -> None:
        if slip.state != "ready":
            del self._in[slip.state][slip.key]
            return
        del self._ready[bisect_left(self._ready, slip.key)]
        del self._due[bisect_left(self._due, slip.turn)]
        if slip.index is not None:
            queue = self._queues[slip.handler, slip.index]
            queue.remove(slip.event)
            if not queue:
                del self._queues[slip.handler, slip.index]


def _of(turns: Iterable[_Turn], handlers: Collection[str] | None) -> Iterable[_Turn]:
    """Those of these handlers, or all."""
    return turns if handlers is None else (turn for turn in turns if turn[2][1] in handlers)
