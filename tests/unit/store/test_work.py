"""Tests of deliveries in every `WorkStore`."""

from __future__ import annotations

from itertools import count
from typing import Literal

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, event, everything, put

from freight_exchange.store.seat import BotStore
from freight_exchange.store.work import Delivery, WorkStore

Keys = list[tuple[int, str]]
NUMBERS = count()


def keys(deliveries: object) -> Keys:
    assert isinstance(deliveries, list)
    return [(one.event, one.handler) for one in deliveries]


def added(feed: WorkStore, *indexes: int | None) -> list[int]:
    """Add an event about each of these requests, and return their numbers."""
    before = len(feed.pending(limit=1000))
    put(feed, events=[event(str(next(NUMBERS)), index) for index in indexes])
    return [one.id for one in feed.pending(limit=1000)[before:]]


def enqueued(feed: WorkStore, *indexes: int | None, handlers: tuple[str, ...] = ("quote",)) -> list[int]:
    numbers = added(feed, *indexes)
    feed.enqueue(dict.fromkeys(numbers, handlers), at=20.0)
    return numbers


def claimed(feed: WorkStore, now: float = 50.0, limit: int = 100) -> Keys:
    return keys(feed.claim(now=now, limit=limit))


def payloads(feed: WorkStore, index: int) -> list[bytes]:
    return [one.payload for one in feed.history(index)[1]]


class TestEnqueue:
    def test_acknowledges_the_event_and_makes_a_delivery_for_each_handler(self, feed: WorkStore) -> None:
        first, second = added(feed, 7, None)
        feed.enqueue({first: ["quote", "log"], second: ["log"]}, at=30.0)
        assert feed.unacknowledged == 0
        assert feed.pending() == []
        one = Delivery(
            event=first, handler="log", index=7, kind="new", payload=b"payload", attempts=0, state="ready",
            not_before=30.0, error=None,
        )  # fmt: skip
        other = attrs.evolve(one, event=second, index=None)
        assert feed.deliveries(state="ready") == [one, attrs.evolve(one, handler="quote"), other]
        assert feed.next_due() == 30.0

    @pytest.mark.parametrize("payload", [b"payload", b"", b"\0"])
    def test_without_handlers_drops_the_payload_and_marks_nothing_as_filtered(
        self, feed: WorkStore, payload: bytes
    ) -> None:
        put(feed, events=[event("a", 7, payload=payload), event("b", 7, payload=payload)])
        first, second = feed.pending()
        feed.enqueue({first.id: ["quote"], second.id: []}, at=30.0)
        assert feed.unacknowledged == 0
        kept = attrs.evolve(first, is_acknowledged=True), attrs.evolve(second, is_acknowledged=True, payload=b"")
        assert feed.history(7)[1] == [*kept]
        ((number, handler),) = claimed(feed)
        feed.settle(number, handler, state="done", at=51.0)
        assert feed.history(7)[1] == [attrs.evolve(one, payload=b"") for one in kept]

    def test_ignores_unknown_and_acknowledged_events(self, feed: WorkStore) -> None:
        handled, acknowledged = added(feed, 1, 2)
        feed.acknowledge([acknowledged], at=25.0)
        feed.enqueue({handled: ["quote", "quote"]}, at=30.0)
        before = everything(feed, range(4))
        feed.enqueue({handled: ["quote", "other"], acknowledged: ["quote"], 10_000: ["quote"]}, at=31.0)
        feed.enqueue({}, at=31.0)
        assert everything(feed, range(4)) == before
        assert len(feed.deliveries(state="ready")) == 1

    def test_keeps_the_payload_until_the_last_delivery_is_done(self, feed: WorkStore) -> None:
        (number,) = enqueued(feed, 7, handlers=("first", "second"))
        assert claimed(feed) == [(number, "first")]
        feed.settle(number, "first", state="done", at=51.0)
        assert [one.payload for one in feed.deliveries(state="done")] == [b"payload"]
        (second,) = feed.claim(now=52.0, limit=1)
        assert second.payload == b"payload"
        feed.settle(number, "second", state="dead", at=53.0)
        assert payloads(feed, 7) == [b"payload"]
        assert feed.replay(number, "second", at=54.0)
        assert claimed(feed, now=54.0) == [(number, "second")]
        feed.settle(number, "second", state="done", at=55.0)
        assert payloads(feed, 7) == [b""]
        assert [one.payload for one in feed.deliveries(state="done")] == [b"", b""]


class TestClaim:
    def test_orders_by_due_time_request_event_and_handler(self, feed: WorkStore) -> None:
        late, early, later, gap = enqueued(feed, 9, 8, 9, None, handlers=("b", "a"))
        (last,) = added(feed, 1)
        feed.enqueue({last: ["quote"]}, at=21.0)
        expected = [(gap, "a"), (gap, "b"), (early, "a"), (late, "a"), (last, "quote")]
        assert claimed(feed, limit=3) == expected[:3]
        assert claimed(feed) == expected[3:]
        feed.settle(early, "a", state="done", at=51.0)
        feed.settle(late, "a", state="done", at=51.0)
        assert claimed(feed) == [(early, "b"), (late, "b")], "the oldest event of a request, for each handler"
        feed.settle(late, "b", state="done", at=52.0)
        assert claimed(feed) == [(later, "a")]

    def test_of_deliveries_that_are_postponed_again_and_again_starves_no_newer_one(self, feed: WorkStore) -> None:
        enqueued(feed, *range(10))
        (number,) = added(feed, 100)
        seen: Keys = []
        for round in range(5):
            now = 100.0 + 10 * round
            if round == 2:
                feed.enqueue({number: ["quote"]}, at=now)
            batch = claimed(feed, now=now, limit=5)
            assert len(batch) == 5
            seen += batch
            for one, handler in batch:
                feed.settle(one, handler, state="ready", not_before=now + 1, refund_attempt=True, at=now)
        assert (number, "quote") in seen

    def test_counts_the_attempt(self, feed: WorkStore) -> None:
        (number,) = enqueued(feed, 1)
        (one,) = feed.claim(now=20.0, limit=5)
        assert (one.attempts, one.state, one.error) == (1, "claimed", None)
        assert feed.deliveries(state="claimed") == [one]
        feed.settle(number, "quote", state="ready", error="ValueError", at=21.0)
        (again,) = feed.claim(now=0.0, limit=5)
        assert again == attrs.evolve(one, attempts=2, error="ValueError", not_before=0.0)

    def test_waits_until_a_delivery_is_due(self, feed: WorkStore) -> None:
        first, second = enqueued(feed, 1, 2)
        claimed(feed)
        feed.settle(first, "quote", state="ready", not_before=70.0, at=50.0)
        feed.settle(second, "quote", state="ready", not_before=60.5, at=50.0)
        assert feed.next_due() == 60.5
        assert claimed(feed, now=60.0) == []
        assert claimed(feed, now=60.5) == [(second, "quote")]
        assert feed.next_due() == 70.0
        assert claimed(feed, now=100.0) == [(first, "quote")]
        assert feed.next_due() is None

    def test_takes_one_delivery_of_a_request_at_a_time(self, feed: WorkStore) -> None:
        first, second, other = enqueued(feed, 7, 7, 8, handlers=("a", "b"))
        assert claimed(feed) == [(first, "a"), (other, "a")]
        assert claimed(feed) == []
        assert feed.next_due() is None, "all wait for claimed ones"
        feed.settle(first, "a", state="done", at=51.0)
        assert feed.next_due() == 20.0
        assert claimed(feed) == [(first, "b")]
        feed.settle(first, "b", state="done", at=52.0)
        assert claimed(feed) == [(second, "a")]

    def test_keeps_the_order_of_a_handlers_events(self, feed: WorkStore) -> None:
        first, second = enqueued(feed, 7, 7, handlers=("a", "b"))
        assert claimed(feed) == [(first, "a")]
        feed.settle(first, "a", state="ready", not_before=90.0, at=51.0)
        assert claimed(feed) == [(first, "b")], "another handler does not wait for it"
        feed.settle(first, "b", state="done", at=52.0)
        assert claimed(feed) == [(second, "b")]
        feed.settle(second, "b", state="done", at=53.0)
        assert claimed(feed) == []
        assert feed.next_due() == 90.0, "the later one is not due before the earlier one"
        assert claimed(feed, now=90.0) == [(first, "a")]
        feed.settle(first, "a", state="dead", at=91.0)
        assert claimed(feed, now=91.0) == [(second, "a")], "a dead letter blocks nothing"

    def test_for_named_handlers_ignores_deliveries_of_others(self, feed: WorkStore) -> None:
        orphan, both = enqueued(feed, 1, handlers=("gone",)) + enqueued(feed, 2, handlers=("gone", "quote"))
        late, *_ = added(feed, 3, 3)
        feed.enqueue({late: ["log"], late + 1: ["log"]}, at=30.0)
        assert feed.count_ready_by_handler() == {"gone": 2, "quote": 1, "log": 2}
        assert feed.count_ready_by_handler(limit=1) == {"gone": 1, "quote": 1, "log": 1}
        names = {"log", "quote"}
        assert feed.next_due(handlers=names) == 20.0
        assert feed.count_overdue(now=50.0, handlers=names) == (3, 20.0)
        assert keys(feed.claim(now=50.0, limit=1, handlers=names)) == [(both, "quote")]
        assert feed.next_due(handlers=names) == 30.0
        assert keys(feed.claim(now=50.0, limit=5, handlers=names)) == [(late, "log")]
        assert feed.next_due(handlers=names) is None
        assert feed.count_overdue(now=50.0, handlers=names) == (1, 30.0)
        assert keys(feed.claim(now=50.0, limit=5, handlers=names)) == []
        assert feed.next_due(handlers=[]) is None
        assert feed.count_overdue(now=50.0, handlers=[]) == (0, None)
        assert keys(feed.claim(now=50.0, limit=5, handlers=[])) == []
        assert keys(feed.claim(now=50.0, limit=5, handlers={"gone"})) == [(orphan, "gone")]
        feed.settle(both, "quote", state="done", at=51.0)
        assert claimed(feed) == [(both, "gone")], "its request is free again"


class TestCountOverdue:
    def test_counts_due_deliveries_that_are_not_claimed(self, feed: WorkStore) -> None:
        assert feed.count_overdue(now=50.0) == (0, None)
        first, second, third = enqueued(feed, 1, 2, 2)
        assert feed.count_overdue(now=19.0) == (0, None)
        assert feed.count_overdue(now=20.0) == (3, 20.0)
        assert feed.count_overdue(now=20.0, limit=2) == (2, 20.0)
        assert claimed(feed, now=50.0) == [(first, "quote"), (second, "quote")]
        assert feed.count_overdue(now=50.0) == (1, 20.0), "it waits for the claimed one before it"
        feed.settle(first, "quote", state="ready", not_before=60.0, at=51.0)
        feed.settle(second, "quote", state="done", at=51.0)
        assert claimed(feed, now=55.0) == [(third, "quote")]
        assert (feed.count_overdue(now=59.0), feed.count_overdue(now=60.0)) == ((0, None), (1, 60.0))
        feed.settle(third, "quote", state="dead", at=61.0)
        feed.replay(third, "quote", at=63.0)
        assert feed.count_overdue(now=62.0) == (1, 60.0)
        assert feed.count_overdue(now=70.0) == (2, 60.0), "a replayed one waits from its replay on"

    def test_leaves_out_deliveries_behind_a_postponed_one(self, feed: WorkStore) -> None:
        first, *_ = enqueued(feed, 7, 7, 7)
        postponed, _ = enqueued(feed, 8, 8, handlers=("log", "quote"))
        assert feed.count_overdue(now=50.0) == (7, 20.0)
        while batch := claimed(feed):
            for number, handler in batch:
                assert (number, handler) in {(first, "quote"), (postponed, "log"), (postponed, "quote")}
                feed.settle(number, handler, state="ready", not_before=100.0 if handler == "quote" else 90.0, at=50.0)
        assert feed.count_overdue(now=50.0) == (0, None)
        assert feed.count_overdue(now=95.0) == (2, 90.0)
        assert feed.count_overdue(now=100.0) == (7, 90.0)
        assert claimed(feed, now=100.0, limit=1) == [(postponed, "log")]
        assert feed.count_overdue(now=100.0) == (6, 90.0), "claimed ones postpone nothing"
        assert feed.count_overdue(now=99.0) == (1, 90.0)


def test_deliveries_of_a_request_are_listed_by_event_and_handler(feed: WorkStore) -> None:
    first, other, again = enqueued(feed, 7, 8, 7, handlers=("quote", "log"))
    mine = [(first, "log"), (first, "quote"), (again, "log"), (again, "quote")]
    assert keys(feed.deliveries(state="ready", index=7)) == mine
    assert keys(feed.deliveries(state="ready", index=7, limit=3)) == mine[:3]
    assert claimed(feed, limit=2) == [(first, "log"), (other, "log")]
    assert keys(feed.deliveries(state="claimed", index=7)) == [(first, "log")]
    feed.settle(first, "log", state="dead", at=50.0)
    assert feed.deliveries(state="dead", index=7) == feed.deliveries(state="dead") != []
    assert feed.deliveries(state="claimed", index=7) == feed.deliveries(state="dead", index=8) == []
    assert keys(feed.deliveries(state="ready", index=7)) == mine[1:]
    assert feed.deliveries(state="ready", index=9) == []


def test_later_deliveries_are_ready_ones_of_the_same_handler_and_request(feed: WorkStore) -> None:
    first, other, second, third = enqueued(feed, 7, 8, 7, 7, handlers=("a", "b"))
    (loose, _) = enqueued(feed, None, None)
    assert keys(feed.later_deliveries(first, "a")) == [(second, "a"), (third, "a")]
    assert keys(feed.later_deliveries(second, "b")) == [(third, "b")]
    assert feed.later_deliveries(other, "a") == feed.later_deliveries(loose, "quote") == []
    assert feed.later_deliveries(first, "unknown") == feed.later_deliveries(10_000, "a") == []
    assert (first, "a") in claimed(feed)
    feed.settle(first, "a", state="dead", at=51.0)
    assert (first, "b") in claimed(feed)
    feed.settle(first, "b", state="done", at=51.0)
    assert claimed(feed) == [(second, "a")]
    assert keys(feed.later_deliveries(first, "a")) == [(third, "a")], "claimed ones are left out"
    assert keys(feed.later_deliveries(first, "b")) == [(second, "b"), (third, "b")]


class TestSettle:
    def test_records_the_result(self, feed: WorkStore) -> None:
        (number,) = enqueued(feed, 1)
        claimed(feed)
        feed.settle(number, "quote", state="dead", not_before=3.0, error="ValueError: no tariff", at=51.0)
        (dead,) = feed.deliveries(state="dead")
        assert (dead.attempts, dead.state, dead.not_before, dead.error) == (1, "dead", 3.0, "ValueError: no tariff")
        assert (claimed(feed), feed.next_due()) == ([], None)

    def test_with_refund_keeps_attempts_and_the_earlier_error(self, feed: WorkStore) -> None:
        (number,) = enqueued(feed, 1)
        claimed(feed)
        feed.settle(number, "quote", state="ready", error="ValueError", at=51.0)
        claimed(feed)
        feed.settle(number, "quote", state="ready", refund_attempt=True, at=52.0)
        (one,) = feed.deliveries(state="ready")
        assert (one.attempts, one.error) == (1, "ValueError")
        claimed(feed)
        feed.settle(number, "quote", state="ready", refund_attempt=True, error="drained", at=53.0)
        assert feed.deliveries(state="ready")[0].error == "drained"
        claimed(feed)
        feed.settle(number, "quote", state="done", at=54.0)
        (one,) = feed.deliveries(state="done")
        assert (one.attempts, one.error) == (2, None)

    def test_ignores_deliveries_that_are_not_claimed(self, feed: WorkStore) -> None:
        ready, done, dead = enqueued(feed, 1, 2, 3)
        claimed(feed)
        feed.settle(ready, "quote", state="ready", at=51.0)
        feed.settle(done, "quote", state="done", at=51.0)
        feed.settle(dead, "quote", state="dead", at=51.0)
        before = everything(feed, range(5))
        for number in (ready, done, dead, 10_000):
            feed.settle(number, "quote", state="ready", not_before=9.0, error="late", at=52.0)
            feed.settle(number, "quote", state="dead", refund_attempt=True, also_done=[ready], at=52.0)
            feed.settle(number, "unknown", state="done", at=52.0)
        assert everything(feed, range(5)) == before

    def test_finishes_later_deliveries_of_its_handler_too(self, feed: WorkStore) -> None:
        first, second, third, other = enqueued(feed, 7, 7, 7, 8, handlers=("a", "b"))
        assert claimed(feed, limit=1) == [(first, "a")]
        feed.settle(first, "a", state="done", also_done=[second], at=51.0)
        assert keys(feed.deliveries(state="done")) == [(first, "a"), (second, "a")]
        assert [one.attempts for one in feed.deliveries(state="done")] == [1, 0]
        assert payloads(feed, 7) == [b"payload"] * 3, "the other handler has not seen them"
        assert claimed(feed) == [(first, "b"), (other, "a")]
        feed.settle(first, "b", state="done", also_done=[second], at=52.0)
        assert payloads(feed, 7) == [b"", b"", b"payload"]
        assert claimed(feed) == [(third, "a")], "one that was not named stays"
        feed.prune(before=52.0)
        assert len(feed.history(7)[1]) == 3
        feed.prune(before=52.5)
        assert [one.id for one in feed.history(7)[1]] == [third]

    def test_finishes_only_ready_deliveries(self, feed: WorkStore) -> None:
        dead, done, mine, elsewhere, failed = enqueued(feed, 1, 2, 3, 4, 5)
        assert len(claimed(feed)) == 5
        feed.settle(dead, "quote", state="dead", error="ValueError", at=51.0)
        feed.settle(done, "quote", state="done", at=51.0)
        feed.settle(failed, "quote", state="ready", not_before=900.0, error="ValueError", at=51.0)
        before = feed.deliveries(state="dead")
        feed.settle(mine, "quote", state="done", also_done=[dead, done, elsewhere, 10_000, mine, failed], at=52.0)
        assert feed.deliveries(state="dead") == before
        assert keys(feed.deliveries(state="claimed")) == [(elsewhere, "quote")]
        assert keys(feed.deliveries(state="done")) == [(done, "quote"), (mine, "quote"), (failed, "quote")]
        skipped = feed.deliveries(state="done")[-1]
        assert (skipped.attempts, skipped.error, skipped.not_before) == (1, "ValueError", 900.0)


class TestReplay:
    def test_makes_a_dead_delivery_ready_with_its_attempts_reset(self, feed: WorkStore) -> None:
        first, second = enqueued(feed, 7, 7)
        claimed(feed)
        feed.settle(first, "quote", state="dead", not_before=1e9, error="ValueError", at=51.0)
        assert feed.replay(first, "quote", at=52.0)
        assert not feed.replay(first, "quote", at=53.0)
        (one, _) = feed.deliveries(state="ready")
        assert (one.event, one.attempts, one.not_before, one.error) == (first, 0, 52.0, "ValueError")
        assert claimed(feed, now=52.0) == [(first, "quote")], "it is the earlier one of its request again"
        assert second not in dict(claimed(feed, now=52.0))

    def test_ignores_deliveries_that_are_not_dead(self, feed: WorkStore) -> None:
        ready, done = enqueued(feed, 1, 2)
        claimed(feed)
        assert not feed.replay(ready, "quote", at=51.0)
        feed.settle(ready, "quote", state="ready", at=51.0)
        feed.settle(done, "quote", state="done", at=51.0)
        before = everything(feed, range(4))
        assert not any(feed.replay(number, "quote", at=52.0) for number in (ready, done, 10_000))
        assert not feed.replay(ready, "unknown", at=52.0)
        assert everything(feed, range(4)) == before


@pytest.mark.parametrize("state", ["ready", "dead"])
def test_pruning_keeps_events_with_an_unfinished_delivery(feed: WorkStore, state: Literal["ready", "dead"]) -> None:
    (number,) = enqueued(feed, 1, handlers=("a", "b"))
    claimed(feed)
    feed.settle(number, "a", state=state, not_before=90.0, at=51.0)
    claimed(feed)
    feed.settle(number, "b", state="done", at=52.0)
    before = everything(feed, range(3))
    (other,) = enqueued(feed, 9)
    claimed(feed)
    feed.settle(other, "quote", state="done", at=53.0)
    feed.prune(before=1e9)
    assert everything(feed, range(3)) == before
    feed.replay(number, "a", at=60.0)
    (one,) = feed.claim(now=1e9, limit=5)
    assert one.payload == b"payload"
    feed.settle(number, "a", state="done", at=99.0)
    feed.prune(before=99.0)
    assert len(feed.deliveries(state="done")) == 2, "its age counts from the last settlement"
    feed.prune(before=100.0)
    assert feed.deliveries(state="done") == []
    assert feed.history(1)[1] == []


def test_feeds_of_a_store_share_no_deliveries_and_effects(store: BotStore, feed: WorkStore) -> None:
    other = store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
    (number,), (others, later) = enqueued(feed, 7), enqueued(other, 7, 7)
    assert claimed(feed) == [(number, "quote")]
    assert other.deliveries(state="claimed") == []
    assert keys(other.deliveries(state="ready", index=7)) == keys(other.deliveries(state="ready"))
    assert feed.later_deliveries(number, "quote") == []
    assert keys(other.later_deliveries(others, "quote")) == [(later, "quote")]
    feed.settle(number, "quote", state="dead", also_done=[others, later], at=51.0)
    assert other.deliveries(state="dead") == other.deliveries(state="done") == []
    other.settle(number, "quote", state="done", at=51.0)
    assert not other.replay(number, "quote", at=52.0)
    assert claimed(other) == [(others, "quote")], "its request is another one"
    other.prune(before=1000.0)
    assert feed.replay(number, "quote", at=53.0)
