"""The two stores side by side: the same is asked of both, in any order, and both answer the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Literal

import attrs
import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.store.ledger import BINDING, LEASE, everything

from freight_exchange.store import MemoryStore, SQLiteStore
from freight_exchange.store.protocol import Absence, Commit, Found, NewEvent, Seen, StoredEvent
from freight_exchange.store.work import BotStore, Delivery, Effect

INDEXES = st.integers(0, 7)
TIMES = st.sampled_from([float("-inf"), 0.0, 1.0, 59.5, 60.0, 61.0, 119.0, 120.0, 1e9])
KINDS = ("new", "gap")

SEEN = st.builds(
    Seen,
    index=INDEXES,
    digest=st.sampled_from([b"", b"a", b"b"]),
    record=st.sampled_from([None, b"", b"{}"]),
    version=st.integers(1, 3),
    first=TIMES,
    last=TIMES,
    scan=st.integers(0, 3),
    updated_after=TIMES,
    missing=st.integers(0, 2),
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
    seen=st.lists(SEEN, max_size=4),
    events=st.lists(EVENTS, max_size=4),
    state=st.none() | st.text(max_size=2),
    at=TIMES,
)
HANDLERS = st.sampled_from("abc")
STATES = st.sampled_from(["intent", "sending", "confirmed"])
EFFECTS = st.builds(Effect, key=st.sampled_from("xyz"), state=STATES, payload=st.binary(max_size=2), at=TIMES)
ABSENCES = st.none() | st.builds(Absence, scan=st.integers(0, 4), updated_after=TIMES)


class _UndecidedError(Exception):
    pass


class Side:
    """One of the stores. Numbers of events only rise, and may leave some out: here the events are counted instead."""

    def __init__(self, store: BotStore) -> None:
        self.store = store
        self.feed = store.open(BINDING, lease=LEASE)
        self._ids: list[int] = []

    def open_again(self) -> None:
        self.feed.release()
        self.feed = self.store.open(BINDING, lease=LEASE)

    def number(self, count: int) -> int:
        return self._ids[count - 1] if 0 < count <= len(self._ids) else count and 10_000 + count

    def told(self, ask: Callable[[Side], Any]) -> Any:
        answer = ask(self)
        self._ids += [one.id for one in self.feed.pending(after=self._ids[-1] if self._ids else 0, limit=1000)]
        return self._counted(answer)

    def _counted(self, answer: Any) -> Any:
        if isinstance(answer, dict):
            return {key: self._counted(value) for key, value in answer.items()}
        if isinstance(answer, list | tuple):
            return [self._counted(value) for value in answer]
        if isinstance(answer, StoredEvent):
            return attrs.evolve(answer, id=self._ids.index(answer.id) + 1)
        if isinstance(answer, Delivery):
            return attrs.evolve(answer, event=self._ids.index(answer.event) + 1)
        return answer


class Stores(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.sides = Side(MemoryStore()), Side(SQLiteStore(":memory:"))
        self.asked: list[Callable[[Side], Any]] = []

    @rule(count=st.integers(1, 8))
    def fail_together(self, count: int) -> None:
        for side in self.sides:
            with contextlib.suppress(_UndecidedError), side.feed.together():
                for ask in self.asked[-count:]:
                    ask(side)
                raise _UndecidedError

    def write_both(self, ask: Callable[[Side], Any]) -> None:
        self.asked.append(ask)
        self.both(ask)

    def both(self, ask: Callable[[Side], Any]) -> None:
        first, second = (side.told(ask) for side in self.sides)
        assert first == second

    @rule(commit=COMMITS, indexes=st.lists(INDEXES, max_size=4), absence=ABSENCES, raises=st.booleans())
    def commit(self, commit: Commit, indexes: list[int], absence: Absence | None, raises: bool) -> None:
        def ask(side: Side) -> object:
            found: list[Found] = []

            def decide(known: Found) -> Commit:
                found.append(attrs.evolve(known, absent=list(known.absent)))
                if raises:
                    raise _UndecidedError
                return commit

            try:
                return side.feed.commit(decide, indexes=indexes, absence=absence), found
            except _UndecidedError:
                return found

        self.write_both(ask)

    @rule(ids=st.lists(st.integers(0, 20), max_size=5), at=TIMES, passed_over=st.lists(st.integers(0, 20), max_size=3))
    def acknowledge(self, ids: list[int], at: float, passed_over: list[int]) -> None:
        def numbers(side: Side, counts: list[int]) -> list[int]:
            return [side.number(one) for one in counts]

        self.write_both(
            lambda side: side.feed.acknowledge(numbers(side, ids), at=at, passed_over=numbers(side, passed_over))
        )

    @rule(after=st.integers(0, 20), limit=st.integers(0, 5))
    def pending(self, after: int, limit: int) -> None:
        self.both(lambda side: side.feed.pending(after=side.number(after), limit=limit))

    @rule(events=st.dictionaries(st.integers(0, 20), st.lists(HANDLERS, max_size=3), max_size=4), at=TIMES)
    def deliver(self, events: dict[int, list[str]], at: float) -> None:
        self.write_both(
            lambda side: side.feed.deliver({side.number(one): names for one, names in events.items()}, at=at)
        )

    @rule(now=TIMES, limit=st.integers(-1, 5), handlers=st.none() | st.frozensets(HANDLERS, max_size=3))
    def claim(self, now: float, limit: int, handlers: frozenset[str] | None) -> None:
        def ask(side: Side) -> object:
            due = side.feed.next_due(handlers=handlers)
            found = side.feed.claim(now=now, limit=limit, handlers=handlers)
            assert bool(found) == (limit > 0 and due is not None and due <= now)
            return found

        self.write_both(ask)

    @rule(
        choice=st.integers(0, 10),
        state=st.sampled_from(["ready", "done", "dead"]),
        not_before=TIMES,
        error=st.none() | st.text(max_size=2),
        forgive=st.booleans(),
        also=st.just("behind") | st.lists(st.integers(0, 20), max_size=3),
        at=TIMES,
    )
    def settle(
        self,
        choice: int,
        state: Literal["ready", "done", "dead"],
        not_before: float,
        error: str | None,
        forgive: bool,
        also: str | list[int],
        at: float,
    ) -> None:
        def ask(side: Side) -> object:
            # Mostly one that is claimed: a number drawn at random hardly ever is.
            claimed = side.feed.deliveries(state="claimed")
            one = claimed[choice % len(claimed)] if claimed else None
            event, handler = (one.event, one.handler) if one is not None and choice else (side.number(choice), "a")
            behind = side.feed.behind(event, handler)
            numbers = [side.number(one) for one in also] if isinstance(also, list) else [one.event for one in behind]
            side.feed.settle(
                event, handler, state=state, not_before=not_before, error=error, forgive=forgive, also=numbers, at=at
            )
            return behind

        self.write_both(ask)

    @rule(number=st.integers(0, 20), handler=HANDLERS)
    def behind(self, number: int, handler: str) -> None:
        self.both(lambda side: side.feed.behind(side.number(number), handler))

    @rule(number=st.integers(0, 20), handler=HANDLERS, at=TIMES)
    def replay(self, number: int, handler: str, at: float) -> None:
        self.write_both(lambda side: side.feed.replay(side.number(number), handler, at=at))

    @rule()
    def reclaim(self) -> None:
        self.write_both(lambda side: side.feed.reclaim())

    @rule(event=EVENTS, at=TIMES)
    def add_event(self, event: NewEvent, at: float) -> None:
        self.write_both(lambda side: side.feed.add_event(event, at=at))

    @rule(effect=EFFECTS, was=st.none() | STATES)
    def put_effect(self, effect: Effect, was: str | None) -> None:
        self.write_both(lambda side: side.feed.put_effect(effect, was=was))
        self.both(lambda side: side.feed.effect(effect.key))

    @rule(states=st.lists(STATES, max_size=3))
    def effects(self, states: list[str]) -> None:
        self.both(lambda side: side.feed.effects(*states))

    @rule(before=TIMES)
    def prune(self, before: float) -> None:
        self.write_both(lambda side: side.feed.prune(before=before))

    @rule()
    def open_again(self) -> None:
        for side in self.sides:
            side.open_again()

    @invariant()
    def tell_the_same(self) -> None:
        self.both(lambda side: side.feed.state)
        self.both(lambda side: everything(side.feed, range(8), KINDS))

    def teardown(self) -> None:
        for side in self.sides:
            side.store.close()


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
