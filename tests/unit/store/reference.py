"""Reference store in plain dicts without indexes, with which the tests compare the SQLite store."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import attrs

from freight_exchange.store.protocol import AbsenceQuery, Commit, NewEvent, ReadSet, StoredEvent, TrackedRequest
from freight_exchange.store.work import NO_LIMIT, Delivery, DeliveryState, Effect


@attrs.define(kw_only=True)
class Rows:
    """Rows of one feed."""

    state: str | None = None
    requests: dict[int, TrackedRequest] = attrs.field(factory=dict)
    events: dict[int, StoredEvent] = attrs.field(factory=dict)
    keys: dict[str, int] = attrs.field(factory=dict)
    times: dict[int, float] = attrs.field(factory=dict)
    deliveries: dict[tuple[int, str], Delivery] = attrs.field(factory=dict)
    effects: dict[str, Effect] = attrs.field(factory=dict)


class ReferenceFeed:
    """`WorkStore` written from its documentation."""

    def __init__(self) -> None:
        self._rows = Rows()
        self.state: str | None = None

    def release(self) -> None:
        self.state = self._rows.state

    @property
    def unacknowledged(self) -> int:
        return len(self.pending(limit=10**9))

    def commit(
        self, decide: Callable[[ReadSet], Commit], *, indexes: Sequence[int] = (), absence: AbsenceQuery | None = None
    ) -> int:
        rows = self._rows
        absent = [] if absence is None else [one for one in rows.requests.values() if _is_absent(one, absence)]
        absent.sort(key=lambda one: (one.updated_after, one.index))
        commit = decide(ReadSet({index: rows.requests[index] for index in indexes if index in rows.requests}, absent))
        rows.requests.update({one.index: one for one in commit.requests})
        added = [self._add(event, commit.at) for event in commit.events].count(True)
        rows.state = rows.state if commit.state is None else commit.state
        return added

    def _add(self, event: NewEvent, at: float) -> bool:
        rows = self._rows
        if event.key in rows.keys:
            self._touch(rows.keys[event.key], at)
            return False
        number = max(rows.times, default=0) + 1
        rows.keys[event.key], rows.times[number] = number, at
        rows.events[number] = StoredEvent(
            id=number, index=event.index, kind=event.kind, payload=event.payload, is_acknowledged=False
        )
        return True

    def add_event(self, event: NewEvent, *, at: float) -> bool:
        return self._add(event, at)

    def _touch(self, number: int, at: float) -> None:
        self._rows.times[number] = max(self._rows.times[number], at)
        if self._is_finished(number):
            self._rows.events[number] = attrs.evolve(self._rows.events[number], payload=b"")

    def _is_finished(self, number: int) -> bool:
        states = {one.state for one in self._rows.deliveries.values() if one.event == number}
        return self._rows.events[number].is_acknowledged and states <= {"done"}

    def pending(self, *, after: int = 0, limit: int = 100) -> Sequence[StoredEvent]:
        found = [one for one in self._rows.events.values() if one.id > after and not one.is_acknowledged]
        return found[: max(0, limit)]

    def pending_of_kind(self, kind: str) -> Sequence[StoredEvent]:
        return [one for one in self.pending(limit=10**9) if one.kind == kind]

    def acknowledge(self, ids: Sequence[int], *, at: float, filtered: Sequence[int] = ()) -> None:
        self.enqueue(dict.fromkeys(ids, ()), at=at)
        self._acknowledge(dict.fromkeys(filtered, ()), at, is_filtered=True)

    def enqueue(self, handlers: Mapping[int, Sequence[str]], *, at: float) -> None:
        self._acknowledge(handlers, at, is_filtered=False)

    def _acknowledge(self, handlers: Mapping[int, Sequence[str]], at: float, *, is_filtered: bool) -> None:
        for number, names in handlers.items():
            event = self._rows.events.get(number)
            if event is None or event.is_acknowledged:
                continue
            self._rows.events[number] = attrs.evolve(event, is_acknowledged=True, is_filtered=is_filtered)
            for name in names:
                added = Delivery(
                    event=number, handler=name, index=event.index, kind=event.kind, payload=b"", attempts=0,
                    state="ready", not_before=at, error=None,
                )  # fmt: skip
                due = max([at, *(one.not_before for one in self._earlier(added))])
                self._rows.deliveries[number, name] = attrs.evolve(added, not_before=due)
            self._touch(number, at)

    def history(self, index: int) -> tuple[TrackedRequest | None, Sequence[StoredEvent]]:
        return self._rows.requests.get(index), [one for one in self._rows.events.values() if one.index == index]

    def prune(self, *, before: float) -> bool:
        rows = self._rows
        for one in list(rows.requests.values()):
            if one.record is not None and one.last_seen < before:
                rows.requests[one.index] = attrs.evolve(
                    one, record=None, last_seen=0.0, last_scan=0, updated_after=0.0, missed_scans=0
                )
        for number in [number for number in rows.events if rows.times[number] < before and self._is_finished(number)]:
            del rows.events[number]
            rows.keys = {key: kept for key, kept in rows.keys.items() if kept != number}
            rows.deliveries = {key: kept for key, kept in rows.deliveries.items() if kept.event != number}
        return False

    def deliveries(self, *, state: DeliveryState, index: int | None = None, limit: int = 1000) -> list[Delivery]:
        found = [
            attrs.evolve(one, payload=self._rows.events[one.event].payload)
            for _, one in sorted(self._rows.deliveries.items())
            if one.state == state and index in (None, one.index)
        ]
        return found[: max(0, limit)]

    def _due(self, now: float, handlers: Collection[str] | None) -> list[Delivery]:
        ready = self.deliveries(state="ready", limit=10**9)
        return [one for one in ready if one.not_before <= now and (handlers is None or one.handler in handlers)]

    def _is_claimable(self, delivery: Delivery) -> bool:
        if delivery.index is None:
            return True
        is_busy = any(one.index == delivery.index for one in self.deliveries(state="claimed"))
        return not is_busy and not self._earlier(delivery)

    def _earlier(self, delivery: Delivery) -> list[Delivery]:
        """Return the ready deliveries of earlier events of the same request to the same handler."""
        ready = self.deliveries(state="ready", limit=10**9) if delivery.index is not None else []
        mine = [one for one in ready if (one.index, one.handler) == (delivery.index, delivery.handler)]
        return [one for one in mine if one.event < delivery.event]

    def claim(self, *, now: float, limit: int, handlers: Collection[str] | None = None) -> Sequence[Delivery]:
        claimed: list[Delivery] = []
        due = self._due(now, handlers)
        for one in sorted(due, key=lambda one: (one.not_before, one.index or -1, one.event, one.handler)):
            if len(claimed) < limit and self._is_claimable(one):
                claimed.append(attrs.evolve(one, state="claimed", attempts=one.attempts + 1))
                self._rows.deliveries[one.event, one.handler] = claimed[-1]
        return claimed

    def settle(
        self,
        event: int,
        handler: str,
        *,
        state: Literal["ready", "done", "dead"],
        not_before: float = 0,
        error: str | None = None,
        refund_attempt: bool = False,
        also_done: Sequence[int] = (),
        at: float,
    ) -> bool:
        one = self._rows.deliveries.get((event, handler))
        if one is None or one.state != "claimed":
            return False
        error = one.error if refund_attempt and error is None else error
        attempts = one.attempts - refund_attempt
        self._rows.deliveries[event, handler] = attrs.evolve(
            one, state=state, not_before=not_before, error=error, attempts=attempts
        )
        self._put_off_later(event, handler)
        self._touch(event, at)
        for later in also_done:
            other = self._rows.deliveries.get((later, handler))
            if other is not None and other.state == "ready":
                self._rows.deliveries[later, handler] = attrs.evolve(other, state="done")
                self._touch(later, at)
        return True

    def _put_off_later(self, event: int, handler: str) -> None:
        mine = self._rows.deliveries[event, handler]
        for one in self.later_deliveries(event, handler) if mine.state == "ready" else []:
            due = max(one.not_before, mine.not_before)
            self._rows.deliveries[one.event, handler] = attrs.evolve(one, not_before=due)

    def next_due(self, *, handlers: Collection[str] | None = None) -> float | None:
        due = self._due(float("inf"), handlers)
        return min((one.not_before for one in due if self._is_claimable(one)), default=None)

    def count_overdue(
        self, *, now: float, limit: int = NO_LIMIT, handlers: Collection[str] | None = None
    ) -> tuple[int, float | None]:
        due = self._due(now, handlers)
        times = [one.not_before for one in due if all(other.not_before <= now for other in self._earlier(one))]
        return min(len(times), limit), min(times, default=None)

    def count_ready_by_handler(self, *, limit: int = NO_LIMIT) -> Mapping[str, int]:
        names = [one.handler for one in self.deliveries(state="ready")]
        return {name: min(names.count(name), limit) for name in names}

    def has_delivery(self, handler: str, kind: str) -> bool:
        return any((one.handler, one.kind) == (handler, kind) for one in self._rows.deliveries.values())

    def live_requests(self, *, after: TrackedRequest | None = None, limit: int) -> Sequence[TrackedRequest]:
        query = AbsenceQuery(scan=10**9, updated_after=float("-inf"))
        found = [one for one in self._rows.requests.values() if _is_absent(one, query)]
        found = [one for one in found if after is None or _place(one) > _place(after)]
        return sorted(found, key=_place)[:limit]

    def later_deliveries(self, event: int, handler: str) -> Sequence[Delivery]:
        mine = self._rows.deliveries.get((event, handler))
        return [one for one in self.deliveries(state="ready") if mine and mine in [*self._mine_before(one)]]

    def _mine_before(self, delivery: Delivery) -> Iterator[Delivery]:
        """Return the deliveries of earlier events of the same request to the same handler, in any state."""
        for one in self._rows.deliveries.values():
            same = delivery.index is not None and (one.index, one.handler) == (delivery.index, delivery.handler)
            if same and one.event < delivery.event:
                yield one

    def replay(self, event: int, handler: str, *, at: float) -> bool:
        one = self._rows.deliveries.get((event, handler))
        if one is None or one.state != "dead":
            return False
        self._rows.deliveries[event, handler] = attrs.evolve(one, state="ready", not_before=at, attempts=0)
        self._put_off_later(event, handler)
        self._touch(event, at)
        return True

    def effect(self, key: str) -> Effect | None:
        return self._rows.effects.get(key)

    def put_effect(self, effect: Effect, *, expected_state: str | None, expected_at: float | None = None) -> bool:
        known = self._rows.effects.get(effect.key)
        if (None if known is None else known.state) != expected_state:
            return False
        if known is not None and expected_at not in (None, known.at):
            return False
        self._rows.effects[effect.key] = effect
        return True

    def amend_effect(self, effect: Effect, *, replaces: Callable[[Effect], bool]) -> bool:
        known = self._rows.effects.get(effect.key)
        return known is not None and replaces(known) and self.put_effect(effect, expected_state=known.state)

    def effects(self, *states: str) -> Sequence[Effect]:
        found = [one for one in self._rows.effects.values() if not states or one.state in states]
        return sorted(found, key=lambda one: (one.at, one.key))

    def effects_under(self, prefix: str) -> Sequence[Effect]:
        return [effect for key, effect in sorted(self._rows.effects.items()) if key.startswith(prefix)]

    def used_prefixes(self, prefixes: Collection[str], *, states: Collection[str]) -> Collection[str]:
        found = [one.key for one in self._rows.effects.values() if one.state in states]
        return {prefix for prefix in prefixes if any(key.startswith(prefix) for key in found)}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        before = copy.deepcopy(self._rows)
        try:
            yield
        except BaseException:
            self._rows = before
            raise


def _place(request: TrackedRequest) -> tuple[float, int]:
    return request.updated_after, request.index


def _is_absent(request: TrackedRequest, query: AbsenceQuery) -> bool:
    is_live = request.record is not None and request.digest != b""
    return is_live and request.last_scan < query.scan and request.updated_after >= query.updated_after
