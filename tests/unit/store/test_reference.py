"""Tests of the stores against the reference store: the same calls in any order return the same results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Literal

import attrs
import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.store.postgres.databases import empty_store
from tests.unit.store.reference import ReferenceFeed
from tests.unit.store.rows import BINDING, LEASE, everything

from freight_exchange.store import MemoryStore
from freight_exchange.store.protocol import AbsenceQuery, Commit, NewEvent, ReadSet, StoredEvent, TrackedRequest
from freight_exchange.store.seat import BotStore
from freight_exchange.store.work import Delivery, Effect, WorkStore

INDEXES = st.integers(0, 7)
NUMBERS = st.integers(0, 20)
TIMES = st.sampled_from([float("-inf"), 0.0, 1.0, 59.5, 60.0, 61.0, 119.0, 120.0, 1e9])
KINDS = ("new", "gap")

REQUESTS = st.builds(
    TrackedRequest,
    index=INDEXES,
    digest=st.sampled_from([b"", b"a", b"b"]),
    record=st.sampled_from([None, b"", b"{}"]),
    version=st.integers(1, 3),
    first_seen=TIMES,
    last_seen=TIMES,
    last_scan=st.integers(0, 3),
    updated_after=TIMES,
    missed_scans=st.integers(0, 2),
)
EVENTS = st.builds(
    NewEvent,
    key=st.sampled_from("abcdef"),
    index=st.none() | INDEXES,
    kind=st.sampled_from(KINDS),
    payload=st.binary(max_size=2),
)
COMMITS = st.builds(
    Commit,
    requests=st.lists(REQUESTS, max_size=4),
    events=st.lists(EVENTS, max_size=4),
    state=st.none() | st.text(max_size=2),
    at=TIMES,
)
HANDLERS = st.sampled_from("abc")
STATES = st.sampled_from(["intent", "sending", "confirmed"])
EFFECTS = st.builds(Effect, key=st.sampled_from("xyz"), state=STATES, payload=st.binary(max_size=2), at=TIMES)
QUERIES = st.none() | st.builds(AbsenceQuery, scan=st.integers(0, 4), updated_after=TIMES)


class _UndecidedError(Exception):
    pass


class Side:
    """One of two stores. Events are identified by their order here, since their numbers may have gaps."""

    def __init__(self, open: Callable[[], WorkStore]) -> None:
        self._open = open
        self.feed = open()
        self._ids: list[int] = []

    def reopen(self) -> None:
        self.feed.release()
        self.feed = self._open()

    def number(self, position: int) -> int:
        return self._ids[position - 1] if 0 < position <= len(self._ids) else position and 10_000 + position

    def numbers(self, positions: list[int]) -> list[int]:
        return [self.number(position) for position in positions]

    def call(self, step: Callable[[Side], Any]) -> Any:
        result = step(self)
        self._ids += [one.id for one in self.feed.pending(after=self._ids[-1] if self._ids else 0, limit=1000)]
        return self._by_position(result)

    def _by_position(self, result: Any) -> Any:
        if isinstance(result, dict):
            return {key: self._by_position(value) for key, value in result.items()}
        if isinstance(result, list | tuple):
            return [self._by_position(value) for value in result]
        if isinstance(result, StoredEvent):
            return attrs.evolve(result, id=self._ids.index(result.id) + 1)
        if isinstance(result, Delivery):
            return attrs.evolve(result, event=self._ids.index(result.event) + 1)
        return result


class Stores(RuleBasedStateMachine):
    new_store: Callable[[], BotStore] = MemoryStore

    @initialize()
    def begin(self) -> None:
        self.store, reference = self.new_store(), ReferenceFeed()
        self.sides = Side(lambda: self.store.open(BINDING, lease=LEASE)), Side(lambda: reference)
        self.writes: list[Callable[[Side], Any]] = []

    def compare(self, step: Callable[[Side], Any]) -> None:
        first, second = (side.call(step) for side in self.sides)
        assert first == second

    def write(self, step: Callable[[Side], Any]) -> None:
        self.writes.append(step)
        self.compare(step)

    @rule(count=st.integers(1, 8))
    def fail_in_a_transaction(self, count: int) -> None:
        for side in self.sides:
            with contextlib.suppress(_UndecidedError), side.feed.transaction():
                for step in self.writes[-count:]:
                    step(side)
                raise _UndecidedError

    @rule(commit=COMMITS, indexes=st.lists(INDEXES, max_size=4), absence=QUERIES, fails=st.booleans())
    def commit(self, commit: Commit, indexes: list[int], absence: AbsenceQuery | None, fails: bool) -> None:
        def step(side: Side) -> object:
            read_sets: list[ReadSet] = []

            def decide(read_set: ReadSet) -> Commit:
                read_sets.append(attrs.evolve(read_set, absent=list(read_set.absent)))
                if fails:
                    raise _UndecidedError
                return commit

            try:
                return side.feed.commit(decide, indexes=indexes, absence=absence), read_sets
            except _UndecidedError:
                return read_sets

        self.write(step)

    @rule(ids=st.lists(NUMBERS, max_size=5), at=TIMES, filtered=st.lists(NUMBERS, max_size=3))
    def acknowledge(self, ids: list[int], at: float, filtered: list[int]) -> None:
        self.write(lambda side: side.feed.acknowledge(side.numbers(ids), at=at, filtered=side.numbers(filtered)))

    @rule(after=NUMBERS, limit=st.integers(0, 5))
    def pending(self, after: int, limit: int) -> None:
        self.compare(lambda side: side.feed.pending(after=side.number(after), limit=limit))

    @rule(events=st.dictionaries(NUMBERS, st.lists(HANDLERS, max_size=3), max_size=4), at=TIMES)
    def enqueue(self, events: dict[int, list[str]], at: float) -> None:
        self.write(lambda side: side.feed.enqueue({side.number(one): names for one, names in events.items()}, at=at))

    @rule(now=TIMES, limit=st.integers(-1, 5), handlers=st.none() | st.frozensets(HANDLERS, max_size=3))
    def claim(self, now: float, limit: int, handlers: frozenset[str] | None) -> None:
        def step(side: Side) -> object:
            due = side.feed.next_due(handlers=handlers)
            claimed = side.feed.claim(now=now, limit=limit, handlers=handlers)
            assert bool(claimed) == (limit > 0 and due is not None and due <= now)
            return claimed

        self.write(step)

    @rule(
        choice=st.integers(0, 10),
        state=st.sampled_from(["ready", "done", "dead"]),
        not_before=TIMES,
        error=st.none() | st.text(max_size=2),
        refund=st.booleans(),
        also=st.just("later") | st.lists(NUMBERS, max_size=3),
        at=TIMES,
    )
    def settle(
        self,
        choice: int,
        state: Literal["ready", "done", "dead"],
        not_before: float,
        error: str | None,
        refund: bool,
        also: str | list[int],
        at: float,
    ) -> None:
        def step(side: Side) -> object:
            # Mostly a claimed one: a number drawn at random hardly ever is.
            claimed = side.feed.deliveries(state="claimed")
            one = claimed[choice % len(claimed)] if claimed else None
            event, handler = (one.event, one.handler) if one is not None and choice else (side.number(choice), "a")
            later = side.feed.later_deliveries(event, handler)
            also_done = side.numbers(also) if isinstance(also, list) else [one.event for one in later]
            side.feed.settle(
                event, handler, state=state, not_before=not_before, error=error, refund_attempt=refund,
                also_done=also_done, at=at,
            )  # fmt: skip
            return later

        self.write(step)

    @rule(number=NUMBERS, handler=HANDLERS)
    def later_deliveries(self, number: int, handler: str) -> None:
        self.compare(lambda side: side.feed.later_deliveries(side.number(number), handler))

    @rule(number=NUMBERS, handler=HANDLERS, at=TIMES)
    def replay(self, number: int, handler: str, at: float) -> None:
        self.write(lambda side: side.feed.replay(side.number(number), handler, at=at))

    @rule(event=EVENTS, at=TIMES)
    def add_event(self, event: NewEvent, at: float) -> None:
        self.write(lambda side: side.feed.add_event(event, at=at))

    @rule(effect=EFFECTS, expected=st.none() | STATES, at=st.none() | TIMES)
    def put_effect(self, effect: Effect, expected: str | None, at: float | None) -> None:
        self.write(lambda side: side.feed.put_effect(effect, expected_state=expected, expected_at=at))
        self.compare(lambda side: side.feed.effect(effect.key))

    @rule(effect=EFFECTS, expected=STATES)
    def amend_effect(self, effect: Effect, expected: str) -> None:
        self.write(lambda side: side.feed.amend_effect(effect, replaces=lambda stored: stored.state == expected))
        self.compare(lambda side: side.feed.effect(effect.key))

    @rule(states=st.lists(STATES, max_size=3))
    def effects(self, states: list[str]) -> None:
        self.compare(lambda side: side.feed.effects(*states))
        self.compare(lambda side: side.feed.effects_under("x"))
        self.compare(lambda side: side.feed.used_prefixes(["", "x", "y"], states=states))

    @rule(before=TIMES)
    def prune(self, before: float) -> None:
        self.write(lambda side: side.feed.prune(before=before))

    @rule()
    def reopen(self) -> None:
        for side in self.sides:
            side.reopen()

    @invariant()
    def read_the_same(self) -> None:
        self.compare(lambda side: side.feed.state)
        self.compare(lambda side: everything(side.feed, range(8), KINDS))

    def teardown(self) -> None:
        self.store.close()


class PostgresStores(Stores):
    new_store = staticmethod(empty_store)


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestPostgresStores = PostgresStores.TestCase
TestPostgresStores.settings = settings(max_examples=5, stateful_step_count=25, deadline=None)
