"""Tests of effects, events without a scan, and transactions of several writes, in every `WorkStore`."""

from __future__ import annotations

import math

import attrs
import pytest
from tests.unit.store.rows import (
    BINDING,
    INDEXES,
    LEASE,
    STEPS,
    effect,
    event,
    everything,
    filled,
    known,
    put,
    renumbered,
    seen,
)  # fmt: skip

from freight_exchange.store import MemoryStore
from freight_exchange.store.seat import BotStore
from freight_exchange.store.work import Effect, WorkStore


def test_event_that_no_scan_produced_is_added_once(feed: WorkStore) -> None:
    assert feed.add_event(event("selected:7", 7, "selected", b"{}"), at=20.0)
    assert not feed.add_event(event("selected:7", 7, "selected", b"{}"), at=30.0)
    assert feed.unacknowledged == 1
    (one,) = feed.pending()
    assert (one.index, one.kind, one.payload) == (7, "selected", b"{}")
    feed.acknowledge([one.id], at=25.0)
    feed.prune(before=30.0)
    assert not feed.add_event(event("selected:7"), at=40.0), "it was proposed again and is not pruned"


def test_last_state_counts_of_a_request_that_a_commit_has_twice(feed: WorkStore) -> None:
    put(feed, [seen(1, version=1), seen(2), seen(1, version=2)])
    assert {index: row.version for index, row in known(feed, 1, 2).items()} == {1: 2, 2: 1}


def test_effect_is_written_only_over_its_expected_state(store: BotStore, feed: WorkStore) -> None:
    first = effect("7/0", "intent", b'{"amount":"1840.50"}', 20.0)
    assert feed.effect("7/0") is None
    assert not feed.put_effect(first, expected_state="intent")
    assert feed.put_effect(first, expected_state=None)
    assert not feed.put_effect(attrs.evolve(first, payload=b"other"), expected_state=None)
    assert feed.effect("7/0") == first
    sending = Effect(key="7/0", state="sending", payload=b"\0\xff", at=10.5)
    assert not feed.put_effect(sending, expected_state="sending")
    assert feed.put_effect(sending, expected_state="intent")
    assert not feed.put_effect(first, expected_state="intent")
    assert feed.effect("7/0") == sending
    assert feed.put_effect(attrs.evolve(sending, payload=b"again"), expected_state="sending"), "its state may stay"
    other = store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
    assert other.effect("7/0") is None
    assert other.effects() == other.effects("sending") == []


def test_effect_is_written_only_over_the_version_of_its_expected_time(feed: WorkStore) -> None:
    """An effect may return to an earlier state. Times are compared to the last digit."""
    before, after = 1e9 + 1 / 3, math.nextafter(1e9 + 1 / 3, math.inf)
    assert feed.put_effect(effect("7/0", "unknown", at=after), expected_state=None)
    sent_again = effect("7/0", "intent", at=30.0)
    assert not feed.put_effect(sent_again, expected_state="unknown", expected_at=before)
    assert not feed.put_effect(sent_again, expected_state="intent", expected_at=after)
    assert feed.effect("7/0") == effect("7/0", "unknown", at=after)
    assert feed.put_effect(sent_again, expected_state="unknown", expected_at=after)
    assert feed.put_effect(attrs.evolve(sent_again, at=0.0), expected_state="intent"), "any time is expected"
    assert feed.put_effect(sent_again, expected_state="intent", expected_at=0.0)


def test_effects_are_listed_oldest_first_and_never_pruned(feed: WorkStore) -> None:
    effects = [effect("b", "x", at=3.0), effect("a", "y", at=3.0), effect("c", "x", at=1.0), effect("d", "z", at=0.0)]
    for one in effects:
        assert feed.put_effect(one, expected_state=None)
    feed.prune(before=1e9)
    b, a, c, d = effects
    assert feed.effects("x", "y", "x", "none") == [c, a, b]
    assert feed.effects("z") == [d]
    assert feed.effects() == [d, c, a, b]


def test_effects_are_listed_by_the_beginning_of_their_keys(feed: WorkStore) -> None:
    keys = ["offer:4:0", "offer:4:10", "offer:4:2", "offer:40:0", "offer:4", "offes", "offer:4:\U0010fffe"]
    for key in keys:
        feed.put_effect(effect(key), expected_state=None)
    assert [one.key for one in feed.effects_under("offer:4:")] == sorted(
        key for key in keys if key.startswith("offer:4:")
    )
    assert feed.effects_under("other") == []


def test_prefixes_are_used_by_effects_in_the_given_states(feed: WorkStore) -> None:
    for key, state in (("offer:4:0", "sent"), ("offer:5:1", "kept"), ("offer:6:0", "lost"), ("offer:40:0", "sent")):
        feed.put_effect(effect(key, state), expected_state=None)
    prefixes = [f"offer:{index}:" for index in (4, 5, 6, 7)]
    assert {*feed.used_prefixes(prefixes, states=["sent", "kept"])} == {"offer:4:", "offer:5:"}
    assert {*feed.used_prefixes(["", "offer:", "other"], states=["lost"])} == {"", "offer:"}
    assert not feed.used_prefixes(prefixes, states=[])
    assert not feed.used_prefixes([], states=["sent"])


SEVERAL = ("commit", "claim", "settle", "add an effect", "add an event")


def fail(feed: WorkStore, step: str) -> None:
    with feed.transaction():
        STEPS[step](feed)
        raise ValueError("no")


def fail_after_nested_transaction(feed: WorkStore) -> None:
    with feed.transaction():
        with feed.transaction():
            feed.put_effect(effect("9/0"), expected_state=None)
        raise ValueError("no")


def test_writes_of_a_transaction_are_visible_inside_and_kept_after_it(store: BotStore) -> None:
    feed, other = filled(store), filled(MemoryStore())
    with feed.transaction():
        for step in SEVERAL:
            STEPS[step](feed)
        inside = everything(feed, INDEXES)
    for step in SEVERAL:
        STEPS[step](other)
    assert inside == everything(feed, INDEXES)
    assert renumbered(inside) == renumbered(everything(other, INDEXES))


@pytest.mark.parametrize("step", STEPS)
def test_failed_transaction_leaves_no_trace(store: BotStore, step: str) -> None:
    """Later calls return the same results as without the transaction."""
    feed, other = filled(store), filled(MemoryStore())
    before = everything(feed, INDEXES)
    with pytest.raises(ValueError, match="no"):
        fail(feed, step)
    assert everything(feed, INDEXES) == before
    for following in (step, "claim", "commit", "prune", "add an event"):
        assert renumbered(STEPS[following](feed)) == renumbered(STEPS[following](other))
        assert renumbered(everything(feed, INDEXES)) == renumbered(everything(other, INDEXES)), following


def test_nested_transaction_joins_the_outer_one(feed: WorkStore) -> None:
    with feed.transaction():
        with feed.transaction():
            assert feed.put_effect(effect("7/0"), expected_state=None)
        with pytest.raises(ValueError, match="no"):
            fail(feed, "add an effect")
        assert feed.add_event(event("a", 1), at=20.0)
    assert feed.effects() == [effect("7/0"), effect("8/0")], "a failure that is caught inside undoes nothing"
    with pytest.raises(ValueError, match="no"):
        fail_after_nested_transaction(feed)
    assert feed.effect("9/0") is None
    assert feed.unacknowledged == 1


def test_work_is_adopted_and_changed_in_one_transaction(store: BotStore) -> None:
    seat = store.join(BINDING, handlers=["quote"], version="1", lease=LEASE)
    with seat.work.transaction():
        seat.adopt()
        assert seat.work.put_effect(effect("7/0"), expected_state=None)
    assert seat.work.effect("7/0") == effect("7/0")
    seat.leave()
