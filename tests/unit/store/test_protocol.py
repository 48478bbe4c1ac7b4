"""Tests of requests, events and leases in every store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, absent, effect, event, everything, known, put, seen

from freight_exchange.errors import StoreError
from freight_exchange.store.postgres import feed_sql as postgres_sql
from freight_exchange.store.protocol import Binding, Commit, HeldHereError, ReadSet, StoredEvent
from freight_exchange.store.seat import BotStore
from freight_exchange.store.sqlite.sql import feed_sql
from freight_exchange.store.work import WorkStore

INDEXES = range(12)
IN_FILES = pytest.mark.parametrize("store", ["memory"], indirect=True)
"""Only files: a database has feeds of several accounts under one name."""
TOMBSTONE = {"record": None, "last_seen": 0.0, "last_scan": 0, "updated_after": 0.0, "missed_scans": 0}


class TestCommit:
    def test_starts_with_nothing(self, feed: WorkStore) -> None:
        assert feed.state is None
        assert feed.unacknowledged == 0
        assert feed.pending() == []
        assert feed.history(1) == (None, [])

    def test_keeps_requests_whole_and_replaces_known_ones(self, feed: WorkStore) -> None:
        one = seen(
            4, digest=b"\0\xff", record=b"\x00", version=3, first_seen=1.25, last_seen=2.5, last_scan=7,
            updated_after=-1.5,
        )  # fmt: skip
        put(feed, [seen(4), one, seen(5, missed_scans=2, record=None), seen(6, digest=b"")])
        assert known(feed, 4, 5, 6, 7) == {4: one, 5: seen(5, missed_scans=2, record=None), 6: seen(6, digest=b"")}
        put(feed, [newer := seen(4, digest=b"other", record=None, version=4, first_seen=0.0, last_seen=9.0)])
        assert known(feed, 4) == {4: newer}

    def test_reads_more_requests_than_one_query_takes(self, feed: WorkStore) -> None:
        put(feed, [seen(index) for index in range(1200)])
        assert sorted(known(feed, *range(600, 1300), 3)) == [3, *range(600, 1200)]

    def test_that_is_interrupted_changes_nothing(self, feed: WorkStore) -> None:
        put(feed, [seen(1)], [event("a", 1)])
        before = everything(feed, INDEXES)

        def decide(read_set: ReadSet) -> Commit:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            feed.commit(decide, indexes=[1])
        assert everything(feed, INDEXES) == before
        assert put(feed, [], [event("b")]) == 1

    def test_keeps_the_state_for_the_next_lease(self, store: BotStore, feed: WorkStore) -> None:
        put(feed, state="one")
        put(feed, state="two")
        put(feed)
        assert feed.state is None, "the state is the one with which the lease began"
        feed.release()
        assert store.open(BINDING, lease=LEASE).state == "two"


class TestAbsence:
    def test_is_limited_by_scan_and_time_of_update(self, feed: WorkStore) -> None:
        put(feed, [seen(1, last_scan=1), seen(2, last_scan=2), seen(3, last_scan=3)])
        assert absent(feed, scan=2, updated_after=0.0) == [1]
        assert absent(feed, scan=3, updated_after=0.0) == [1, 2]
        put(feed, [seen(1, updated_after=59.9), seen(2, updated_after=60.0), seen(3, updated_after=float("-inf"))])
        assert absent(feed, scan=9, updated_after=60.0) == [2]
        assert absent(feed, scan=9, updated_after=59.9) == [1, 2]
        assert absent(feed, scan=9, updated_after=float("-inf")) == [3, 1, 2]
        assert absent(feed, scan=9, updated_after=float("inf")) == []

    def test_excludes_tombstones_and_withdrawn_requests(self, feed: WorkStore) -> None:
        put(feed, [seen(1, record=None), seen(2, digest=b""), seen(3)])
        assert absent(feed, scan=9, updated_after=0.0) == [3]
        put(feed, [seen(3, digest=b""), seen(1)])
        assert absent(feed, scan=9, updated_after=0.0) == [1]

    def test_is_ordered_by_time_of_update_and_index(self, feed: WorkStore) -> None:
        put(feed, [seen(index, updated_after=index * -7.0 % 50) for index in range(100)])
        expected = sorted(range(100), key=lambda index: (index * -7.0 % 50, index))
        assert absent(feed, scan=9, updated_after=0.0) == expected

    def test_live_ones_are_read_in_pages(self, feed: WorkStore) -> None:
        put(feed, [seen(index, updated_after=index * -7.0 % 5) for index in range(10)])
        put(feed, [seen(10, digest=b""), seen(11, record=None)])
        order, last = list[int](), None
        while page := feed.live_requests(after=last, limit=4):
            order += [one.index for one in page]
            last = page[-1]
        assert order == sorted(range(10), key=lambda index: (index * -7.0 % 5, index))


class TestEvents:
    def test_are_kept_in_order(self, feed: WorkStore) -> None:
        assert put(feed, events=[event("a", 1), event("b", None, "gap", b"")]) == 2
        first, second = feed.pending()
        assert first == StoredEvent(id=first.id, index=1, kind="new", payload=b"payload", is_acknowledged=False)
        assert second == StoredEvent(id=second.id, index=None, kind="gap", payload=b"", is_acknowledged=False)
        assert 0 < first.id < second.id
        assert feed.pending_of_kind("gap") == [second]
        assert feed.unacknowledged == 2

    def test_with_a_known_key_are_not_added(self, feed: WorkStore) -> None:
        assert put(feed, events=[event("a"), event("a", payload=b"other"), event("b")]) == 2
        assert put(feed, events=[event("c"), event("b")]) == 1
        assert feed.unacknowledged == 3
        assert [one.payload for one in feed.pending()] == [b"payload"] * 3

    def test_are_read_in_pages(self, feed: WorkStore) -> None:
        put(feed, events=[event(str(number)) for number in range(10)])
        ids = [one.id for one in feed.pending()]
        assert [one.id for one in feed.pending(after=ids[3], limit=2)] == ids[4:6]
        assert feed.pending(after=ids[-1]) == []
        assert feed.pending(limit=0) == []

    def test_are_acknowledged_once(self, feed: WorkStore) -> None:
        put(feed, events=[event("a", 1), event("b", 2, "gap"), event("c", 3)])
        first, second, third = feed.pending()
        feed.acknowledge([first.id, second.id, second.id, 10_000], at=30.0)
        feed.acknowledge([first.id], at=31.0)
        feed.acknowledge([], at=32.0)
        assert feed.unacknowledged == 1
        assert feed.pending() == [third]
        assert feed.pending_of_kind("gap") == []
        assert feed.history(1)[1] == [attrs.evolve(first, payload=b"", is_acknowledged=True)]
        assert put(feed, events=[event("a", 1)]) == 0, "its key is still known"

    def test_that_were_filtered_are_marked(self, store: BotStore, feed: WorkStore) -> None:
        put(feed, events=[event(key, 1) for key in "abcd"])
        a, b, c, d = feed.pending()
        feed.acknowledge([a.id], at=30.0, filtered=[b.id, a.id, 10_000])
        feed.acknowledge([b.id, c.id], at=31.0, filtered=[c.id])
        assert feed.pending() == [d]
        assert feed.unacknowledged == 1
        done = [attrs.evolve(one, payload=b"", is_acknowledged=True, is_filtered=one is b) for one in (a, b, c)]
        assert feed.history(1)[1] == [*done, d]
        feed.enqueue({b.id: ["quote"]}, at=32.0)
        assert feed.deliveries(state="ready") == []
        feed.release()
        again = store.open(BINDING, lease=LEASE)
        assert again.history(1)[1] == [*done, d]
        again.prune(before=1000.0)
        assert again.history(1)[1] == [d]


class TestPrune:
    def test_makes_tombstones_of_old_requests(self, feed: WorkStore) -> None:
        tombstone = seen(4, record=None, last_seen=1.0)
        old = [seen(1, last_seen=9.9, missed_scans=1, version=4), seen(3, last_seen=1.0, digest=b"")]
        put(feed, [*old, seen(2, last_seen=10.0), tombstone])
        feed.prune(before=10.0)
        assert known(feed, 1, 2, 3, 4) == {
            1: seen(1, version=4, **TOMBSTONE),
            2: seen(2, last_seen=10.0),
            3: seen(3, digest=b"", **TOMBSTONE),
            4: tombstone,
        }
        assert absent(feed, scan=9, updated_after=-1.0) == [2]
        put(feed, [again := seen(1, last_seen=50.0)])
        feed.prune(before=50.0)
        assert known(feed, 1) == {1: again}

    def test_deletes_events_acknowledged_long_ago(self, feed: WorkStore) -> None:
        put(feed, events=[event("a", 1), event("b", 1), event("c", 1)], at=10.0)
        a, b, c = feed.pending()
        feed.acknowledge([a.id], at=11.0)
        feed.acknowledge([b.id], at=12.0)
        feed.prune(before=12.0)
        assert [one.id for one in feed.history(1)[1]] == [b.id, c.id]
        feed.prune(before=1000.0)
        assert feed.pending() == [c], "pending events are kept"
        assert put(feed, events=[event("a", 1)]) == 1, "its key is free again"

    def test_keeps_events_proposed_again(self, feed: WorkStore) -> None:
        put(feed, events=[event("a"), event("b")], at=10.0)
        feed.acknowledge([one.id for one in feed.pending()], at=11.0)
        put(feed, events=[event("a"), event("c")], at=50.0)
        put(feed, events=[event("a")], at=40.0)
        feed.acknowledge([one.id for one in feed.pending()], at=30.0)
        feed.prune(before=45.0)
        assert put(feed, events=[event("a"), event("c")], at=60.0) == 0
        assert put(feed, events=[event("b")], at=60.0) == 1

    def test_works_in_batches(self, feed: WorkStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(feed_sql, "_PRUNE_BATCH", 2)
        monkeypatch.setattr(postgres_sql, "PRUNE_BATCH", 2)
        assert feed.prune(before=50.0) is False
        put(feed, [seen(index, last_seen=10.0) for index in range(5)], [event(str(one)) for one in range(5)], at=10.0)
        feed.acknowledge([one.id for one in feed.pending()[:3]], at=11.0)
        assert [feed.prune(before=50.0) for _ in range(4)] == [True, True, False, False]
        assert [one.record for one in known(feed, *range(5)).values()] == [None] * 5
        assert put(feed, events=[event(str(index)) for index in range(5)], at=60.0) == 3

    def test_frees_no_event_number(self, feed: WorkStore) -> None:
        put(feed, events=[event("a")])
        (last,) = feed.pending()
        feed.acknowledge([last.id], at=20.0)
        feed.prune(before=1000.0)
        put(feed, events=[event("b")])
        assert feed.pending(after=last.id) == feed.pending()
        assert feed.unacknowledged == 1


class TestLease:
    def test_is_exclusive_until_it_is_released(self, store: BotStore, feed: WorkStore) -> None:
        with pytest.raises(HeldHereError, match="open already") as caught:
            store.open(BINDING, lease=LEASE)
        assert caught.value.holder == "this process"
        assert put(feed, state="still held") == 0
        feed.release()
        feed.release()
        again = store.open(BINDING, lease=LEASE)
        feed.release()
        assert put(again, [seen(1)]) == 0, "an old lease does not release a new one"

    def test_is_required_for_everything(self, store: BotStore, feed: WorkStore) -> None:
        feed.release()
        calls: list[Callable[[], object]] = [
            lambda: put(feed, state="late"),
            feed.pending,
            lambda: feed.pending_of_kind("gap"),
            lambda: feed.acknowledge([1], at=1.0),
            lambda: feed.history(1),
            lambda: feed.prune(before=1.0),
            lambda: feed.enqueue({1: ["quote"]}, at=1.0),
            lambda: feed.claim(now=1.0, limit=1),
            lambda: feed.settle(1, "quote", state="done", at=1.0),
            feed.next_due,
            lambda: feed.count_overdue(now=1.0),
            feed.count_ready_by_handler,
            lambda: feed.live_requests(limit=1),
            lambda: feed.has_delivery("quote", "new"),
            lambda: feed.deliveries(state="dead"),
            lambda: feed.later_deliveries(1, "quote"),
            lambda: feed.replay(1, "quote", at=1.0),
            lambda: feed.add_event(event("late"), at=1.0),
            lambda: feed.effect("1/0"),
            lambda: feed.put_effect(effect("1/0"), expected_state=None),
            feed.effects,
        ]
        for call in calls:
            with pytest.raises(StoreError, match="released"):
                call()
        assert store.open(BINDING, lease=LEASE).state is None

    def test_covers_one_feed(self, store: BotStore, feed: WorkStore) -> None:
        other = store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
        put(feed, [seen(1)], [event("a", 1)], state="one")
        put(other, [seen(1, version=9)], [event("a", 1), event("b", 2)], state="two")
        other.acknowledge([one.id for one in feed.pending()], at=1.0)
        assert (feed.unacknowledged, other.unacknowledged) == (1, 2)
        assert known(feed, 1) == {1: seen(1)}
        feed.prune(before=1000.0)
        assert known(other, 1) == {1: seen(1, version=9)}
        feed.release()
        assert other.unacknowledged == len(other.pending()) == 2

    @IN_FILES
    @pytest.mark.parametrize("change", [{"base_url": "https://production/api"}, {"account": "you@co.example"}])
    def test_is_bound_to_a_service_and_an_account(
        self, store: BotStore, feed: WorkStore, change: dict[str, str]
    ) -> None:
        put(feed, state="kept")
        feed.release()
        other: Binding = attrs.evolve(BINDING, **change)
        with pytest.raises(StoreError, match=r"belongs to me@co\.example at https://host/api"):
            store.open(other, lease=LEASE)
        assert store.open(BINDING, lease=LEASE).state == "kept"

    @IN_FILES
    def test_takes_another_binding_until_it_has_recorded_something(self, store: BotStore, feed: WorkStore) -> None:
        feed.release()
        other: Binding = attrs.evolve(BINDING, base_url="https://corrected/api", account="you@co.example")
        corrected = store.open(other, lease=LEASE)
        corrected.put_effect(effect("known"), expected_state=None)
        corrected.release()
        with pytest.raises(StoreError, match=r"belongs to you@co\.example at https://corrected/api"):
            store.open(BINDING, lease=LEASE)

    @IN_FILES
    @pytest.mark.parametrize("recorded", [{"seen": [seen(1)]}, {"events": [event("a")]}, {"state": "kept"}], ids=str)
    def test_keeps_its_binding_with_anything_recorded(
        self, store: BotStore, feed: WorkStore, recorded: dict[str, Any]
    ) -> None:
        put(feed, **recorded)
        feed.release()
        with pytest.raises(StoreError, match="belongs to"):
            store.open(attrs.evolve(BINDING, account="you@co.example"), lease=LEASE)

    def test_ends_when_the_store_is_closed(self, store: BotStore, feed: WorkStore) -> None:
        store.close()
        store.close()
        feed.release()
        with pytest.raises(StoreError, match="closed"):
            put(feed, state="late")
        with pytest.raises(StoreError, match="closed"):
            store.open(BINDING, lease=LEASE)
