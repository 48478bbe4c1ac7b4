"""What every store does alike with effects, and with events that no scan made."""

from __future__ import annotations

import attrs
from tests.unit.store.rows import effect, event

from freight_exchange.store.work import Effect, WorkStore


class TestAnEventThatNoScanMade:
    def test_is_added_once(self, feed: WorkStore) -> None:
        assert feed.add_event(event("selected:7", 7, "selected", b"{}"), at=20.0)
        assert not feed.add_event(event("selected:7", 7, "selected", b"{}"), at=30.0)
        assert feed.unacknowledged == 1
        (one,) = feed.pending()
        assert (one.index, one.kind, one.payload) == (7, "selected", b"{}")
        feed.acknowledge([one.id], at=25.0)
        feed.prune(before=30.0)
        assert not feed.add_event(event("selected:7"), at=40.0), "proposed again, it was kept"


class TestEffects:
    def test_are_written_where_they_are_as_they_were(self, feed: WorkStore) -> None:
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

    def test_come_oldest_first(self, feed: WorkStore) -> None:
        put = [effect("b", "x", at=3.0), effect("a", "y", at=3.0), effect("c", "x", at=1.0), effect("d", "z", at=0.0)]
        for one in put:
            assert feed.put_effect(one, expected_state=None)
        b, a, c, d = put
        assert feed.effects("x", "y", "x", "none") == [c, a, b]
        assert feed.effects("z") == [d]
        assert feed.effects() == [d, c, a, b]

    def test_are_kept_for_ever(self, feed: WorkStore) -> None:
        feed.put_effect(effect("1/0", at=0.0), expected_state=None)
        feed.prune(before=1e9)
        assert feed.effects() == [effect("1/0", at=0.0)]
