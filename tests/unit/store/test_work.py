"""What every store does alike with deliveries."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import attrs
import pytest
from tests.unit.store.rows import BINDING, INDEXES, LEASE, STEPS, effect, event, everything, filled, put

from freight_exchange.store.work import BotStore, Delivery, WorkStore

Keys = list[tuple[int, str]]
NUMBERS = count()


def keys(deliveries: object) -> Keys:
    assert isinstance(deliveries, list)
    return [(one.event, one.handler) for one in deliveries]


def added(feed: WorkStore, *indexes: int | None) -> list[int]:
    """The numbers of new events, one about each of these requests."""
    before = len(feed.pending(limit=1000))
    put(feed, events=[event(str(next(NUMBERS)), index) for index in indexes])
    return [one.id for one in feed.pending(limit=1000)[before:]]


def delivered(feed: WorkStore, *indexes: int | None, handlers: tuple[str, ...] = ("quote",)) -> list[int]:
    numbers = added(feed, *indexes)
    feed.enqueue(dict.fromkeys(numbers, handlers), at=20.0)
    return numbers


def claimed(feed: WorkStore, now: float = 50.0, limit: int = 100) -> Keys:
    return keys(feed.claim(now=now, limit=limit))


class TestHandingOver:
    def test_acknowledges_and_makes_a_delivery_for_each_handler(self, feed: WorkStore) -> None:
        first, second = added(feed, 7, None)
        feed.enqueue({first: ["quote", "log"], second: ["log"]}, at=30.0)
        assert feed.unacknowledged == 0
        assert feed.pending() == []
        one = Delivery(
            event=first,
            handler="log",
            index=7,
            kind="new",
            payload=b"payload",
            attempts=0,
            state="ready",
            not_before=30.0,
            error=None,
        )
        other = attrs.evolve(one, event=second, index=None)
        assert feed.deliveries(state="ready") == [one, attrs.evolve(one, handler="quote"), other]
        assert feed.next_due() == 30.0

    def test_without_handlers_drops_the_payload(self, feed: WorkStore) -> None:
        (number,) = added(feed, 7)
        feed.enqueue({number: []}, at=30.0)
        assert feed.unacknowledged == 0
        assert feed.deliveries(state="ready") == []
        (kept,) = feed.history(7)[1]
        assert (kept.payload, kept.is_acknowledged) == (b"", True)
        feed.prune(before=31.0)
        assert feed.history(7)[1] == []

    @pytest.mark.parametrize("payload", [b"", b"\0"])
    def test_passes_nothing_over_whatever_it_says(self, feed: WorkStore, payload: bytes) -> None:
        put(feed, events=[event("a", 7, payload=payload), event("b", 7, payload=payload)])
        first, second = feed.pending()
        feed.enqueue({first.id: ["quote"], second.id: []}, at=30.0)
        kept = attrs.evolve(first, is_acknowledged=True), attrs.evolve(second, is_acknowledged=True, payload=b"")
        assert feed.history(7)[1] == [*kept]
        ((number, handler),) = claimed(feed)
        feed.settle(number, handler, state="done", at=51.0)
        assert feed.history(7)[1] == [attrs.evolve(one, payload=b"") for one in kept]

    def test_twice_or_of_the_unknown_adds_nothing(self, feed: WorkStore) -> None:
        handled, acknowledged = added(feed, 1, 2)
        feed.acknowledge([acknowledged], at=25.0)
        feed.enqueue({handled: ["quote", "quote"]}, at=30.0)
        before = everything(feed, range(4))
        feed.enqueue({handled: ["quote", "other"], acknowledged: ["quote"], 10_000: ["quote"]}, at=31.0)
        feed.enqueue({}, at=31.0)
        assert everything(feed, range(4)) == before
        assert len(feed.deliveries(state="ready")) == 1

    def test_keeps_the_payload_until_the_last_is_done(self, feed: WorkStore) -> None:
        (number,) = delivered(feed, 7, handlers=("first", "second"))
        assert claimed(feed) == [(number, "first")]
        feed.settle(number, "first", state="done", at=51.0)
        assert [one.payload for one in feed.deliveries(state="done")] == [b"payload"]
        (second,) = feed.claim(now=52.0, limit=1)
        assert second.payload == b"payload"
        feed.settle(number, "second", state="dead", at=53.0)
        assert [one.payload for one in feed.history(7)[1]] == [b"payload"]
        assert feed.replay(number, "second", at=54.0)
        assert claimed(feed, now=54.0) == [(number, "second")]
        feed.settle(number, "second", state="done", at=55.0)
        assert [one.payload for one in feed.history(7)[1]] == [b""]
        assert [one.payload for one in feed.deliveries(state="done")] == [b"", b""]


class TestClaiming:
    def test_takes_what_has_been_due_the_longest_first(self, feed: WorkStore) -> None:
        first, second, third = added(feed, 1, 2, 3)
        feed.enqueue({first: ["quote"]}, at=21.0)
        feed.enqueue({third: ["quote"], second: ["quote"]}, at=20.0)
        assert claimed(feed, limit=2) == [(second, "quote"), (third, "quote")]
        assert claimed(feed, limit=2) == [(first, "quote")]
        assert claimed(feed) == []

    def test_of_those_due_alike_takes_the_oldest_request_first(self, feed: WorkStore) -> None:
        late, early, later, gap = delivered(feed, 9, 8, 9, None, handlers=("b", "a"))
        found = [(gap, "a"), (gap, "b"), (early, "a"), (late, "a")]
        assert claimed(feed, limit=3) == found[:3]
        assert claimed(feed) == found[3:]
        feed.settle(early, "a", state="done", at=51.0)
        feed.settle(late, "a", state="done", at=51.0)
        assert claimed(feed) == [(early, "b"), (late, "b")], "the oldest event of a request, and of it each handler"
        feed.settle(late, "b", state="done", at=52.0)
        assert claimed(feed) == [(later, "a")]

    def test_what_is_put_off_time_after_time_starves_nothing_newer(self, feed: WorkStore) -> None:
        """There are always as many of them due as there are places."""
        delivered(feed, *range(10))
        (number,) = added(feed, 100)
        seen: Keys = []
        for round in range(5):
            now = 100.0 + 10 * round
            if round == 2:
                feed.enqueue({number: ["quote"]}, at=now)
            taken = claimed(feed, now=now, limit=5)
            assert len(taken) == 5
            seen += taken
            for one, handler in taken:
                feed.settle(one, handler, state="ready", not_before=now + 1, refund_attempt=True, at=now)
        assert (number, "quote") in seen

    def test_counts_the_attempt(self, feed: WorkStore) -> None:
        (number,) = delivered(feed, 1)
        (one,) = feed.claim(now=20.0, limit=5)
        assert (one.attempts, one.state, one.error) == (1, "claimed", None)
        assert feed.deliveries(state="claimed") == [one]
        feed.settle(number, "quote", state="ready", error="ValueError", at=21.0)
        (again,) = feed.claim(now=0.0, limit=5)
        assert again == attrs.evolve(one, attempts=2, error="ValueError", not_before=0.0)

    def test_waits_until_it_is_due(self, feed: WorkStore) -> None:
        first, second = delivered(feed, 1, 2)
        claimed(feed)
        feed.settle(first, "quote", state="ready", not_before=70.0, at=50.0)
        feed.settle(second, "quote", state="ready", not_before=60.5, at=50.0)
        assert feed.next_due() == 60.5
        assert claimed(feed, now=60.0) == []
        assert claimed(feed, now=60.5) == [(second, "quote")]
        assert feed.next_due() == 70.0
        assert claimed(feed, now=100.0) == [(first, "quote")]
        assert feed.next_due() is None

    def test_leaves_what_is_due_and_not_claimed_to_be_counted(self, feed: WorkStore) -> None:
        assert feed.count_overdue(now=50.0) == (0, None)
        first, second, third = delivered(feed, 1, 2, 2)
        assert feed.count_overdue(now=19.0) == (0, None)
        assert feed.count_overdue(now=20.0) == (3, 20.0)
        assert claimed(feed, now=50.0) == [(first, "quote"), (second, "quote")]
        assert feed.count_overdue(now=50.0) == (1, 20.0), "it waits for the one before it, and waits"
        feed.settle(first, "quote", state="ready", not_before=60.0, at=51.0)
        feed.settle(second, "quote", state="done", at=51.0)
        assert claimed(feed, now=55.0) == [(third, "quote")]
        assert (feed.count_overdue(now=59.0), feed.count_overdue(now=60.0)) == ((0, None), (1, 60.0))
        feed.settle(third, "quote", state="dead", at=61.0)
        feed.replay(third, "quote", at=61.0)
        assert feed.count_overdue(now=61.0) == (2, 60.0)
        assert claimed(feed, now=61.0) == [(first, "quote"), (third, "quote")]
        feed.settle(third, "quote", state="dead", at=62.0)
        feed.replay(third, "quote", at=63.0)
        assert feed.count_overdue(now=70.0) == (1, 63.0), "what is called again waits from then on"

    def test_what_stands_behind_one_that_is_put_off_is_not_due(self, feed: WorkStore) -> None:
        first, *_ = delivered(feed, 7, 7, 7)
        put_off, _ = delivered(feed, 8, 8, handlers=("log", "quote"))
        assert feed.count_overdue(now=50.0) == (7, 20.0)
        while claim := claimed(feed):
            for number, handler in claim:
                assert (number, handler) in {(first, "quote"), (put_off, "log"), (put_off, "quote")}
                feed.settle(number, handler, state="ready", not_before=100.0 if handler == "quote" else 90.0, at=50.0)
        # Nothing of it can be claimed, since when it may be due.
        assert feed.count_overdue(now=50.0) == (0, None)
        assert feed.count_overdue(now=95.0) == (2, 20.0)
        assert feed.count_overdue(now=100.0) == (7, 20.0)
        assert claimed(feed, now=100.0, limit=1) == [(put_off, "log")]
        # What waits for a claimed one is held up by the work itself.
        assert feed.count_overdue(now=100.0) == (6, 20.0)
        assert feed.count_overdue(now=99.0) == (1, 20.0)

    @pytest.mark.parametrize("limit", [0, -1])
    def test_of_none_gives_none(self, feed: WorkStore, limit: int) -> None:
        delivered(feed, 1)
        assert feed.claim(now=50.0, limit=limit) == []
        assert feed.deliveries(state="ready", limit=limit) == []

    def test_is_one_at_a_time_for_a_request(self, feed: WorkStore) -> None:
        first, second, other = delivered(feed, 7, 7, 8, handlers=("a", "b"))
        assert claimed(feed) == [(first, "a"), (other, "a")]
        assert claimed(feed) == []
        assert feed.next_due() is None, "all wait for what is claimed"
        feed.settle(first, "a", state="done", at=51.0)
        assert feed.next_due() == 20.0
        assert claimed(feed) == [(first, "b")]
        feed.settle(first, "b", state="done", at=52.0)
        assert claimed(feed) == [(second, "a")]

    def test_keeps_the_order_of_a_handlers_events(self, feed: WorkStore) -> None:
        first, second = delivered(feed, 7, 7, handlers=("a", "b"))
        assert claimed(feed) == [(first, "a")]
        feed.settle(first, "a", state="ready", not_before=90.0, at=51.0)
        assert claimed(feed) == [(first, "b")], "another handler does not wait for it"
        feed.settle(first, "b", state="done", at=52.0)
        assert claimed(feed) == [(second, "b")]
        feed.settle(second, "b", state="done", at=53.0)
        assert claimed(feed) == []
        assert feed.next_due() == 90.0, "what waits for an earlier one is no sooner due than that"
        assert claimed(feed, now=90.0) == [(first, "a")]
        feed.settle(first, "a", state="dead", at=91.0)
        assert claimed(feed) == [(second, "a")], "a dead one holds nothing up"

    def test_for_named_handlers_takes_what_is_for_them_alone(self, feed: WorkStore) -> None:
        orphan, both = delivered(feed, 1, handlers=("gone",)) + delivered(feed, 2, handlers=("gone", "quote"))
        late, *_ = added(feed, 3, 3)
        feed.enqueue({late: ["log"], late + 1: ["log"]}, at=30.0)
        assert feed.count_ready_by_handler() == {"gone": 2, "quote": 1, "log": 2}
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
        assert feed.count_ready_by_handler() == {"gone": 2, "log": 1}
        assert keys(feed.claim(now=50.0, limit=5, handlers={"gone"})) == [(orphan, "gone")]
        feed.settle(both, "quote", state="done", at=51.0)
        assert claimed(feed) == [(both, "gone")], "its request is free again"

    def test_for_named_handlers_waits_for_no_other_of_the_request(self, feed: WorkStore) -> None:
        first, second = delivered(feed, 7, handlers=("gone", "quote")) + delivered(feed, 7, handlers=("quote",))
        for number in (first, second):
            assert keys(feed.claim(now=50.0, limit=5, handlers=["quote"])) == [(number, "quote")]
            feed.settle(number, "quote", state="done", at=51.0)
        assert feed.count_overdue(now=50.0, handlers=["quote"]) == (0, None)
        assert [one.payload for one in feed.deliveries(state="ready")] == [b"payload"], "the other's is kept"

    def test_without_a_request_is_bound_by_nothing(self, feed: WorkStore) -> None:
        first, second = delivered(feed, None, None, handlers=("a", "b"))
        assert claimed(feed, limit=1) == [(first, "a")]
        feed.settle(first, "a", state="ready", not_before=90.0, at=51.0)
        assert claimed(feed) == [(first, "b"), (second, "a"), (second, "b")]


class TestThoseOfOneRequest:
    def test_are_found_in_each_state_by_event_and_handler(self, feed: WorkStore) -> None:
        first, other, again = delivered(feed, 7, 8, 7, handlers=("quote", "log"))
        mine = [(first, "log"), (first, "quote"), (again, "log"), (again, "quote")]
        assert keys(feed.deliveries(state="ready", index=7)) == mine
        assert keys(feed.deliveries(state="ready", index=7, limit=3)) == mine[:3]
        assert claimed(feed, limit=2) == [(first, "log"), (other, "log")]
        assert keys(feed.deliveries(state="claimed", index=7)) == [(first, "log")]
        feed.settle(first, "log", state="dead", at=50.0)
        assert keys(feed.deliveries(state="dead", index=7)) == [(first, "log")]
        assert feed.deliveries(state="dead", index=7) == feed.deliveries(state="dead")
        assert feed.deliveries(state="claimed", index=7) == feed.deliveries(state="dead", index=8) == []
        assert keys(feed.deliveries(state="ready", index=7)) == mine[1:]
        assert feed.deliveries(state="ready", index=9) == []

    def test_of_another_feed_are_left_alone(self, store: BotStore, feed: WorkStore) -> None:
        other = store.open(attrs.evolve(BINDING, feed="other"), lease=LEASE)
        delivered(other, 7)
        assert feed.deliveries(state="ready", index=7) == []


class TestSettling:
    def test_keeps_what_it_ended_by(self, feed: WorkStore) -> None:
        (number,) = delivered(feed, 1)
        claimed(feed)
        feed.settle(number, "quote", state="dead", not_before=3.0, error="ValueError: no tariff", at=51.0)
        (dead,) = feed.deliveries(state="dead")
        assert (dead.attempts, dead.state, dead.not_before, dead.error) == (1, "dead", 3.0, "ValueError: no tariff")
        assert (claimed(feed), feed.next_due()) == ([], None)

    def test_forgives_an_attempt(self, feed: WorkStore) -> None:
        (number,) = delivered(feed, 1)
        claimed(feed)
        feed.settle(number, "quote", state="ready", error="ValueError", at=51.0)
        claimed(feed)
        feed.settle(number, "quote", state="ready", refund_attempt=True, at=52.0)
        (one,) = feed.deliveries(state="ready")
        assert (one.attempts, one.error) == (1, "ValueError"), "what the last one that counts ended by"
        claimed(feed)
        feed.settle(number, "quote", state="ready", refund_attempt=True, error="drained", at=53.0)
        claimed(feed)
        feed.settle(number, "quote", state="done", at=54.0)
        (one,) = feed.deliveries(state="done")
        assert (one.attempts, one.error) == (2, None)

    def test_of_what_is_not_claimed_changes_nothing(self, feed: WorkStore) -> None:
        ready, done, dead = delivered(feed, 1, 2, 3)
        claimed(feed)
        feed.settle(ready, "quote", state="ready", at=51.0)
        feed.settle(done, "quote", state="done", at=51.0)
        feed.settle(dead, "quote", state="dead", at=51.0)
        before = everything(feed, range(5))
        for number in (ready, done, dead, 10_000):
            feed.settle(number, "quote", state="ready", not_before=9.0, error="late", at=52.0)
            feed.settle(number, "quote", state="dead", refund_attempt=True, at=52.0)
            feed.settle(number, "nobody", state="done", at=52.0)
        assert everything(feed, range(5)) == before


class TestWhatIsBehind:
    def test_is_what_waits_for_the_same_handler_of_the_same_request(self, feed: WorkStore) -> None:
        first, other, second, third = delivered(feed, 7, 8, 7, 7, handlers=("a", "b"))
        ready = {(one.event, one.handler): one for one in feed.deliveries(state="ready")}
        assert claimed(feed) == [(first, "a"), (other, "a")]
        assert feed.later_deliveries(first, "a") == [ready[second, "a"], ready[third, "a"]]
        assert feed.later_deliveries(first, "b") == [ready[second, "b"], ready[third, "b"]]
        assert feed.later_deliveries(second, "a") == [ready[third, "a"]]
        assert feed.later_deliveries(third, "a") == feed.later_deliveries(other, "a") == []

    def test_is_in_the_order_of_events_whenever_it_is_due(self, feed: WorkStore) -> None:
        first, second, third = added(feed, 7, 7, 7)
        feed.enqueue({third: ["quote"], first: ["quote"]}, at=20.0)
        assert claimed(feed) == [(first, "quote")]
        feed.settle(first, "quote", state="done", at=51.0)
        feed.enqueue({second: ["quote"]}, at=52.0)
        assert claimed(feed, now=51.0) == []
        assert claimed(feed, now=52.0) == [(second, "quote")]
        feed.settle(second, "quote", state="ready", not_before=900.0, at=53.0)
        assert keys(feed.later_deliveries(first, "quote")) == [(second, "quote"), (third, "quote")]
        assert [one.attempts for one in feed.later_deliveries(first, "quote")] == [1, 0]

    def test_is_neither_claimed_nor_settled(self, feed: WorkStore) -> None:
        first, second, third, fourth = delivered(feed, 7, 7, 7, 7)
        for number, state in ((first, "dead"), (second, "done")):
            assert claimed(feed) == [(number, "quote")]
            feed.settle(number, "quote", state="dead" if state == "dead" else "done", at=51.0)
        assert claimed(feed) == [(third, "quote")]
        for number in (first, second, third):
            assert keys(feed.later_deliveries(number, "quote")) == [(fourth, "quote")]
        assert feed.replay(first, "quote", at=52.0)
        assert keys(feed.later_deliveries(first, "quote")) == [(fourth, "quote")], "what is before is not behind"

    def test_of_what_there_is_not_is_nothing(self, feed: WorkStore) -> None:
        first, _ = delivered(feed, 7, 7)
        delivered(feed, None, None)
        (loose, _) = [one.event for one in feed.deliveries(state="ready") if one.index is None]
        assert feed.later_deliveries(first, "nobody") == []
        assert feed.later_deliveries(first - 1, "quote") == feed.later_deliveries(10_000, "quote") == []
        assert feed.later_deliveries(loose, "quote") == [], "events about no request do not follow one another"

    def test_of_another_feed_is_left_alone(self, store: BotStore, feed: WorkStore) -> None:
        other = store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
        (first,) = delivered(feed, 7)
        (others, behind) = delivered(other, 7, 7)
        assert feed.later_deliveries(first, "quote") == []
        assert keys(other.later_deliveries(others, "quote")) == [(behind, "quote")]
        assert claimed(feed) == [(first, "quote")]
        feed.settle(first, "quote", state="done", also_done=[others, behind], at=51.0)
        assert keys(other.deliveries(state="ready")) == [(others, "quote"), (behind, "quote")]


class TestSettlingSeveralAtOnce:
    def test_ends_them_all(self, feed: WorkStore) -> None:
        first, second, third, other = delivered(feed, 7, 7, 7, 8)
        assert claimed(feed, limit=1) == [(first, "quote")]
        feed.settle(first, "quote", state="done", also_done=[second, third], at=51.0)
        assert keys(feed.deliveries(state="done")) == [(first, "quote"), (second, "quote"), (third, "quote")]
        assert [one.attempts for one in feed.deliveries(state="done")] == [1, 0, 0]
        assert [one.payload for one in feed.deliveries(state="done")] == [b"", b"", b""]
        assert [one.payload for one in feed.history(7)[1]] == [b"", b"", b""]
        assert claimed(feed) == [(other, "quote")]
        feed.prune(before=51.0)
        assert len(feed.deliveries(state="done")) == 3
        feed.prune(before=51.5)
        assert feed.deliveries(state="done") == [], "all of them were done then"
        assert feed.history(7)[1] == []

    def test_leaves_what_came_in_between_to_be_claimed(self, feed: WorkStore) -> None:
        first, second, third = delivered(feed, 7, 7, 7)
        assert claimed(feed) == [(first, "quote")]
        feed.settle(first, "quote", state="done", also_done=[second], at=51.0)
        assert feed.next_due() == 20.0
        assert claimed(feed) == [(third, "quote")]

    def test_is_for_its_own_handler_alone(self, feed: WorkStore) -> None:
        first, second = delivered(feed, 7, 7, handlers=("a", "b"))
        assert claimed(feed) == [(first, "a")]
        feed.settle(first, "a", state="done", also_done=[second], at=51.0)
        assert keys(feed.deliveries(state="done")) == [(first, "a"), (second, "a")]
        assert [one.payload for one in feed.deliveries(state="done")] == [b"payload", b"payload"], "b has yet to see it"
        assert claimed(feed) == [(first, "b")]
        feed.settle(first, "b", state="done", also_done=[second], at=52.0)
        assert [one.payload for one in feed.history(7)[1]] == [b"", b""]

    def test_ends_only_what_is_ready(self, feed: WorkStore) -> None:
        dead, done, mine, elsewhere = delivered(feed, 1, 2, 3, 4)
        assert len(claimed(feed)) == 4
        feed.settle(dead, "quote", state="dead", error="ValueError", at=51.0)
        feed.settle(done, "quote", state="done", at=51.0)
        before = everything(feed, range(6))["deliveries"]
        feed.settle(mine, "quote", state="done", also_done=[dead, done, elsewhere, 10_000, mine], at=52.0)
        after = everything(feed, range(6))["deliveries"]
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        assert after["dead"] == before["dead"]
        assert keys(after["claimed"]) == [(elsewhere, "quote")]
        assert keys(after["done"]) == [(done, "quote"), (mine, "quote")]

    def test_of_what_is_not_claimed_ends_none(self, feed: WorkStore) -> None:
        first, second = delivered(feed, 7, 7)
        before = everything(feed, range(8))
        feed.settle(first, "quote", state="done", also_done=[second], at=51.0)
        feed.settle(10_000, "quote", state="done", also_done=[first, second], at=51.0)
        assert everything(feed, range(8)) == before, "a lease that was lost in between has handled nothing"

    def test_of_one_that_waited_after_it_had_failed(self, feed: WorkStore) -> None:
        first, second = delivered(feed, 7, 8)
        assert claimed(feed) == [(first, "quote"), (second, "quote")]
        feed.settle(second, "quote", state="ready", not_before=900.0, error="ValueError", at=51.0)
        feed.settle(first, "quote", state="done", also_done=[second], at=52.0)
        (_, skipped) = feed.deliveries(state="done")
        assert (skipped.attempts, skipped.error, skipped.not_before) == (1, "ValueError", 900.0)
        assert feed.next_due() is None

    def test_outlives_the_lease(self, store: BotStore, feed: WorkStore) -> None:
        first, second, third = delivered(feed, 7, 7, 7)
        claimed(feed)
        feed.settle(first, "quote", state="done", also_done=[second], at=51.0)
        feed.release()
        feed = store.open(BINDING, lease=LEASE)
        assert keys(feed.deliveries(state="done")) == [(first, "quote"), (second, "quote")]
        assert claimed(feed) == [(third, "quote")]


class TestAnEarlierHolder:
    def test_leaves_claims_that_stay_claimed(self, store: BotStore, feed: WorkStore) -> None:
        first, second, third = delivered(feed, 1, 2, 3)
        claimed(feed, limit=2)
        feed.settle(second, "quote", state="ready", not_before=10.0, at=30.0)
        assert claimed(feed, limit=1) == [(second, "quote")]
        feed.release()
        feed = store.open(BINDING, lease=LEASE)
        assert keys(feed.deliveries(state="claimed")) == [(first, "quote"), (second, "quote")]
        for number in (first, second):
            feed.settle(number, "quote", state="ready", at=51.0)
        assert [one.attempts for one in feed.claim(now=50.0, limit=9)] == [2, 3, 1]
        assert keys(feed.deliveries(state="claimed")) == [(one, "quote") for one in (first, second, third)]

    def test_of_another_feed_is_left_alone(self, store: BotStore, feed: WorkStore) -> None:
        other = store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
        (number,) = delivered(feed, 1)
        (others,) = delivered(other, 1)
        assert claimed(feed) == [(number, "quote")]
        assert other.deliveries(state="claimed") == []
        assert claimed(other) == [(others, "quote")], "the same number is another request there"
        feed.settle(number, "quote", state="dead", at=51.0)
        assert other.deliveries(state="dead") == []
        if number != others:
            other.settle(number, "quote", state="done", at=51.0)
            assert not other.replay(number, "quote", at=52.0)
        assert feed.put_effect(effect("1/0"), expected_state=None)
        assert other.effect("1/0") is None
        assert other.effects() == other.effects("intent") == []
        other.prune(before=1000.0)
        assert feed.replay(number, "quote", at=53.0)


class TestReplaying:
    def test_makes_a_dead_one_new(self, feed: WorkStore) -> None:
        first, second = delivered(feed, 7, 7)
        claimed(feed)
        feed.settle(first, "quote", state="dead", not_before=1e9, error="ValueError", at=51.0)
        assert feed.replay(first, "quote", at=52.0)
        assert not feed.replay(first, "quote", at=53.0)
        (one, _) = feed.deliveries(state="ready")
        assert (one.event, one.attempts, one.not_before, one.error) == (first, 0, 52.0, "ValueError")
        assert claimed(feed, now=52.0) == [(first, "quote")], "and it is the earlier one of its request again"
        assert second not in dict(claimed(feed, now=52.0))

    def test_needs_one_that_is_dead(self, feed: WorkStore) -> None:
        ready, done = delivered(feed, 1, 2)
        claimed(feed)
        assert not feed.replay(ready, "quote", at=51.0)
        feed.settle(ready, "quote", state="ready", at=51.0)
        feed.settle(done, "quote", state="done", at=51.0)
        before = everything(feed, range(4))
        assert not any(feed.replay(number, "quote", at=52.0) for number in (ready, done, 10_000))
        assert not feed.replay(ready, "nobody", at=52.0)
        assert everything(feed, range(4)) == before


class TestPruning:
    def test_drops_what_was_done_long_ago(self, feed: WorkStore) -> None:
        old, young = delivered(feed, 1, 2)
        claimed(feed)
        feed.settle(old, "quote", state="done", at=51.0)
        feed.settle(young, "quote", state="done", at=52.0)
        feed.prune(before=52.0)
        assert keys(feed.deliveries(state="done")) == [(young, "quote")]
        assert feed.history(1)[1] == []
        assert len(feed.history(2)[1]) == 1

    @pytest.mark.parametrize("state", ["ready", "dead"])
    def test_keeps_what_is_not_done_with_its_event(self, feed: WorkStore, state: str) -> None:
        (number,) = delivered(feed, 1, handlers=("a", "b"))
        claimed(feed)
        feed.settle(number, "a", state="dead" if state == "dead" else "ready", not_before=90.0, at=51.0)
        claimed(feed)
        feed.settle(number, "b", state="done", at=52.0)
        before = everything(feed, range(3))
        (other,) = delivered(feed, 9)
        claimed(feed)
        feed.settle(other, "quote", state="done", at=53.0)
        feed.prune(before=1e9)
        assert everything(feed, range(3)) == before
        feed.replay(number, "a", at=60.0)
        (one,) = feed.claim(now=1e9, limit=5)
        assert one.payload == b"payload"
        feed.settle(number, "a", state="done", at=99.0)
        feed.prune(before=99.0)
        assert len(feed.deliveries(state="done")) == 2, "counted from when the last was done"
        feed.prune(before=100.0)
        assert feed.deliveries(state="done") == []
        assert feed.history(1)[1] == []


def test_all_of_it_outlives_the_lease(store: BotStore, feed: WorkStore) -> None:
    numbers = delivered(feed, 1, 1, 2, 3, None, handlers=("a", "b"))
    claimed(feed)
    feed.settle(numbers[0], "a", state="done", at=51.0)
    feed.settle(numbers[2], "a", state="dead", error="ValueError", at=51.0)
    feed.settle(numbers[3], "a", state="ready", not_before=70.0, at=51.0)
    feed.put_effect(effect("7/0"), expected_state=None)
    before = everything(feed, range(5))
    feed.release()
    assert everything(store.open(BINDING, lease=LEASE), range(5)) == before


class TestTogether:
    def test_what_is_written_is_there_within_and_afterwards(self, feed: WorkStore) -> None:
        first, second = delivered(feed, 7, 8)
        with feed.transaction():
            assert claimed(feed) == [(first, "quote"), (second, "quote")]
            feed.settle(first, "quote", state="done", at=60.0)
            assert feed.put_effect(effect("offer"), expected_state=None)
            assert feed.effect("offer") is not None
        assert keys(feed.deliveries(state="done")) == [(first, "quote")]
        assert keys(feed.deliveries(state="claimed")) == [(second, "quote")]
        assert feed.effects() == [effect("offer")]
        assert feed.add_event(event("later"), at=70.0)


def test_together_within_together_is_one(feed: WorkStore) -> None:
    (number,) = delivered(feed, 7)
    with feed.transaction():
        with feed.transaction():
            assert claimed(feed) == [(number, "quote")]
        feed.settle(number, "quote", state="done", at=60.0)
    assert keys(feed.deliveries(state="done")) == [(number, "quote")]


def fail(feed: WorkStore, step: str) -> None:
    with feed.transaction():
        STEPS[step](feed)
        raise ValueError("no")


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_written_of_what_failed_together(store: BotStore, step: str) -> None:
    feed = filled(store)
    before = everything(feed, INDEXES)
    with pytest.raises(ValueError, match="no"):
        fail(feed, step)
    assert everything(feed, INDEXES) == before
    feed.release()
    feed = store.open(BINDING, lease=LEASE)
    assert feed.state == "old"
    assert everything(feed, INDEXES) == before


@pytest.mark.parametrize("step", STEPS)
def test_what_failed_together_leaves_no_trace(make: Callable[[], BotStore], step: str) -> None:
    """Neither in what is kept nor in what finds it: what comes next goes as if it had never been."""
    feed, other = filled(make()), filled(make())
    with pytest.raises(ValueError, match="no"):
        fail(feed, step)
    for following in (step, "claim", "commit", "prune", "add an event"):
        assert STEPS[following](feed) == STEPS[following](other)
        assert everything(feed, INDEXES) == everything(other, INDEXES), following


def test_what_failed_within_together_and_was_caught_is_part_of_it(feed: WorkStore) -> None:
    (number,) = delivered(feed, 7)
    with feed.transaction():
        with pytest.raises(ValueError, match="no"):
            fail(feed, "begin an effect")
        assert claimed(feed) == [(number, "quote")]
    assert feed.effects() == [effect("8/0")]
    assert keys(feed.deliveries(state="claimed")) == [(number, "quote")]
