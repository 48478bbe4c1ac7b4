"""Replicas on one database: claims, fences, take-overs, and the term."""

from __future__ import annotations

import math
import threading
import time

import attrs
import pytest
from tests.unit.store.postgres.databases import execute
from tests.unit.store.postgres.replicas import await_lock, enqueue, join, lapse, take_term
from tests.unit.store.rows import BINDING, effect, event, put, seen

from freight_exchange.errors import FencedError
from freight_exchange.store.postgres import connection, feed_sql, session
from freight_exchange.store.postgres.fleet.seat import PostgresSeat
from freight_exchange.store.postgres.store import PostgresStore
from freight_exchange.store.protocol import ConflictError
from freight_exchange.store.work import SEND_WINDOW
from freight_exchange.transport.network import SEND_TIMEOUT


class TestClaims:
    def test_are_disjoint(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        enqueue(first, *range(6))
        claimed = [seat.work.claim(now=2.0, limit=3) for seat in (first, second)]
        assert [[one.index for one in ones] for ones in claimed] == [[0, 1, 2], [3, 4, 5]]

    def test_skip_deliveries_that_another_replica_is_claiming(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        enqueue(first, 1, 2)
        with first.work.transaction():
            assert [one.index for one in first.work.claim(now=2.0, limit=1)] == [1]
            assert [one.index for one in second.work.claim(now=2.0, limit=2)] == [2]

    def test_of_one_request_are_made_by_one_replica(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        term = take_term(first)
        put(term, events=[event("a", 7), event("b", 7)])
        term.enqueue({one.id: ["log", "quote"] for one in term.pending()}, at=1.0)
        with first.work.transaction():
            assert len(first.work.claim(now=2.0, limit=9)) == 1
            assert second.work.claim(now=2.0, limit=9) == []
        assert second.work.claim(now=2.0, limit=9) == []
        assert second.work.next_due() is None

    def test_are_settled_by_their_owner_only(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        enqueue(first, 1)
        (claimed,) = first.work.claim(now=2.0, limit=1)
        assert not second.work.settle(claimed.event, claimed.handler, state="done", at=3.0)
        assert first.work.settle(claimed.event, claimed.handler, state="done", at=3.0)

    def test_by_many_threads_take_each_delivery_once(self, store: PostgresStore) -> None:
        seats = [join(store) for _ in range(4)]
        enqueue(seats[0], *range(80))
        taken: list[int | None] = []

        def work(seat: PostgresSeat) -> None:
            while claimed := seat.work.claim(now=2.0, limit=3):
                for one in claimed:
                    taken.append(one.index)
                    assert seat.work.settle(one.event, one.handler, state="done", at=3.0)

        threads = [threading.Thread(target=work, args=(seat,)) for seat in seats]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken, key=str) == sorted(range(80), key=str)

    def test_that_find_nothing_write_nothing(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        enqueue(first, 1)
        assert len(first.work.claim(now=2.0, limit=1)) == 1
        assert second.work.claim(now=2.0, limit=1) == []
        # The lock of a fence is in this column.
        assert execute("SELECT xmax::text = '0' FROM freight_exchange.replica ORDER BY id") == [(False,), (True,)]


class TestTakeOver:
    def test_during_a_claim_leaves_the_delivery_to_others(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        enqueue(first, 1)
        lapse(first)
        errors: list[Exception] = []

        def claim() -> None:
            with pytest.raises(FencedError) as caught:
                first.work.claim(now=2.0, limit=1)
            errors.append(caught.value)

        claiming = threading.Thread(target=claim)
        with second.work.transaction():
            second.replica.end_lapsed(second.work._read())
            claiming.start()
            await_lock(claiming)
        claiming.join()
        assert len(errors) == 1
        assert [one.index for one in second.work.claim(now=2.0, limit=1)] == [1]

    def test_adopts_claims_and_open_effects(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        enqueue(first, 1, 2, 3)
        claimed = first.work.claim(now=2.0, limit=2)
        for key, state in (("offer:1:0", "sending"), ("offer:2:0", "unknown"), ("offer:3:0", "confirmed")):
            first.work.put_effect(effect(key, state), expected_state=None)
        assert not second.heartbeat()
        adoption = second.adopt()
        assert (adoption.deliveries, adoption.effects) == ([], []), "its owner lives"
        lapse(first)
        assert second.heartbeat()
        adoption = second.adopt()
        assert adoption.deliveries == claimed
        assert {one.key: one.state for one in adoption.effects} == {"offer:1:0": "sending", "offer:2:0": "unknown"}
        assert adoption.wait > SEND_WINDOW + SEND_TIMEOUT
        assert not second.heartbeat()
        assert second.adopt().deliveries == []
        assert second.work.settle(claimed[0].event, claimed[0].handler, state="ready", at=3.0)

    def test_ends_all_writes_of_the_replica(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        enqueue(first, 1, 2)
        (claimed, _) = first.work.claim(now=2.0, limit=2)
        lapse(first)
        second.adopt()
        for call in (
            first.heartbeat,
            first.take_term,
            lambda: first.work.claim(now=2.0, limit=1),
            lambda: first.work.settle(claimed.event, claimed.handler, state="done", at=3.0),
            lambda: first.work.put_effect(effect("offer:1:0"), expected_state=None),
        ):
            with pytest.raises(FencedError, match="writes nothing more"):
                call()
        assert second.work.effects() == []

    def test_does_not_keep_the_replica_from_recording_the_result_of_an_offer(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        first.work.put_effect(effect("offer:1:0", "sending"), expected_state=None)
        lapse(first)
        second.adopt()
        confirmed = effect("offer:1:0", "confirmed")
        assert not first.work.amend_effect(confirmed, replaces=lambda stored: stored.state == "intent")
        assert first.work.amend_effect(confirmed, replaces=lambda stored: stored.state == "sending")
        assert second.work.effect("offer:1:0") == confirmed
        assert not first.work.amend_effect(effect("offer:2:0"), replaces=lambda stored: True)

    def test_waits_for_a_transaction_of_the_replica(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        with first.work.transaction():
            lapse(first)
            first.work.put_effect(effect("offer:1:0", "sending"), expected_state=None)
            assert second.adopt().effects == []
            assert execute("SELECT has_left FROM freight_exchange.replica ORDER BY id") == [(False,), (False,)]
        assert [one.key for one in second.adopt().effects] == ["offer:1:0"]

    def test_of_a_replica_that_left_needs_no_lapse(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        first.work.put_effect(effect("offer:1:0", "unknown"), expected_state=None)
        first.leave()
        assert second.heartbeat()
        assert [one.key for one in second.adopt().effects] == ["offer:1:0"]

    def test_of_an_adopter_begins_anew(self, store: PostgresStore) -> None:
        first, second, third = join(store), join(store), join(store)
        first.work.put_effect(effect("offer:1:0", "sending"), expected_state=None)
        for before, after in ((first, second), (second, third)):
            lapse(before)
            assert [one.key for one in after.adopt().effects] == ["offer:1:0"]


class TestTerm:
    def test_is_had_by_one_replica(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        term = take_term(first)
        assert second.take_term() is None
        assert second.holder.startswith("process ")
        put(term, state="one")
        assert (second.take_term(), second.feed_state) == (None, "one")
        term.release()
        assert take_term(second).state == "one"

    def test_goes_to_another_replica_once_the_lease_is_over(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        term = take_term(first)
        put(term, [], [event("a", 1)], state="one")
        lapse(first)
        newer = take_term(second)
        assert (newer.state, newer.unacknowledged) == ("one", 1)
        with pytest.raises(FencedError, match="has taken over the feed"):
            put(term, [], [event("b", 2)], state="late")
        with pytest.raises(FencedError):
            term.enqueue({1: ["quote"]}, at=1.0)
        assert len(newer.pending()) == 1
        term.release()
        assert first.take_term() is None, "its release does not end the term of another"

    def test_is_free_after_a_replica_that_got_no_second_connection(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        take_term(first)
        first._work_connection.close()
        first._work_connection = connection.DatabaseConnection("postgresql://127.0.0.1:1/nothing")
        first.leave()
        assert second.take_term() is not None

    def test_that_could_not_be_given_back_goes_to_the_newer_version(self, store: PostgresStore) -> None:
        old = join(store)
        term = take_term(old)
        new = join(store, version="2")
        new.wait(0.0)
        (process,) = term._connection.row("SELECT pg_backend_pid()")  # type: ignore[attr-defined]  # of PostgreSQL
        execute("SELECT pg_terminate_backend(%s, 5000)", process)
        term.release()
        assert new.take_term() is None
        assert old.take_term() is None, "it is for the newer version"
        assert new.wait(5.0)
        assert new.take_term() is not None

    def test_is_not_taken_from_a_late_replica_inside_a_transaction(
        self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = join(store), join(store)
        term = take_term(first)
        lapse(first)
        monkeypatch.setattr(session, "_LOCK_WAIT", "1ms")
        with term.transaction():
            assert second.take_term() is None
        assert second.take_term() is not None

    def test_keeps_the_work_of_the_replica_that_lost_it(self, store: PostgresStore) -> None:
        first, second = join(store), join(store)
        enqueue(first, 1)
        term = take_term(first)
        lapse(first)
        take_term(second)
        assert not first.heartbeat()
        assert [one.index for one in first.work.claim(now=2.0, limit=1)] == [1]
        term.release()


class TestNewerVersion:
    @pytest.mark.parametrize("version", ["2", "1"])
    def test_has_the_term(self, store: PostgresStore, version: str) -> None:
        old = join(store)
        term = take_term(old)
        new = join(store, "quote", "log", version=version)
        assert (old.has_newer(), new.has_newer()) == (True, False)
        term.release()
        assert old.take_term() is None
        take_term(new)

    def test_is_newer_than_an_old_one_that_is_started_again(self, store: PostgresStore) -> None:
        join(store)
        new = join(store, version="2")
        again = join(store)
        assert (again.has_newer(), new.has_newer()) == (True, False)
        assert again.take_term() is None

    def test_does_not_count_once_it_has_ended(self, store: PostgresStore) -> None:
        old, new = join(store), join(store, version="2")
        lapse(new)
        assert not old.has_newer()
        take_term(old)

    def test_has_a_peer_while_another_replica_of_its_version_lives(self, store: PostgresStore) -> None:
        first, _ = join(store), join(store, version="2")
        assert not first.has_peer()
        peer = join(store)
        assert (first.has_peer(), peer.has_peer()) == (True, True)
        lapse(peer)
        assert not first.has_peer()

    def test_leaves_out_handlers_that_it_lacks(self, store: PostgresStore) -> None:
        old, new = join(store, "quote", "log"), join(store, "quote", "note")
        assert old.take_term() is None
        assert old.left_out() == ("log",)
        again = join(store, "quote", "log")
        assert (again.take_term(), again.left_out()) == (None, ("log",))
        take_term(new)
        assert new.left_out() == ()
        lapse(new)
        take_term(old)
        assert (again.take_term(), again.left_out()) == (None, ())

    def test_is_no_command_that_takes_a_seat(self, store: PostgresStore) -> None:
        old = join(store)
        store.join(BINDING, handlers=(), version="", lease=60.0)
        assert not old.has_newer()


def test_notification_wakes_other_replicas(store: PostgresStore) -> None:
    first, second = join(store), join(store)
    term = take_term(first)
    put(term, events=[event("a", 1)])
    assert not second.wait(0.0)
    with term.transaction():
        term.enqueue({one.id: ["quote"] for one in term.pending()}, at=1.0)
        assert not second.wait(0.05), "nothing is committed yet"
    assert second.wait(5.0)
    assert not second.wait(0.05)
    term.release()
    assert second.wait(5.0), "the term is free"


def test_second_open_offer_on_a_request_is_refused(store: PostgresStore) -> None:
    first, second = join(store), join(store)
    assert first.work.put_effect(effect("offer:1:0", "sending"), expected_state=None)
    with pytest.raises(ConflictError):
        second.work.put_effect(effect("offer:1:1", "sending"), expected_state=None)
    assert second.work.put_effect(effect("offer:2:0", "sending"), expected_state=None)
    assert first.work.put_effect(effect("offer:1:0", "confirmed"), expected_state="sending")
    assert second.work.put_effect(effect("offer:1:1", "sending"), expected_state=None)


def test_accounts_share_a_database(store: PostgresStore) -> None:
    first = store.open(BINDING, lease=60.0)
    put(first, [], [event("a", 1)], state="one")
    other = store.open(attrs.evolve(BINDING, account="you@co.example"), lease=60.0)
    assert (other.state, other.unacknowledged) == (None, 0)


def test_event_about_no_request_is_done_once_the_last_of_two_replicas_settles(store: PostgresStore) -> None:
    first, second = join(store), join(store)
    term = take_term(first)
    put(term, events=[event("a", None)])
    (number,) = (one.id for one in term.pending())
    term.enqueue({number: ["log", "quote"]}, at=1.0)
    for seat in (first, second):
        assert len(seat.work.claim(now=2.0, limit=1)) == 1
    settling = threading.Thread(target=second.work.settle, args=(number, "quote"), kwargs={"state": "done", "at": 3.0})
    with first.work.transaction():
        first.work.settle(number, "log", state="done", at=3.0)
        settling.start()
        await_lock(settling)
    settling.join()
    assert execute("SELECT is_owed, payload FROM freight_exchange.event") == [(False, b"")]


def test_replicas_that_ended_long_ago_are_forgotten_unless_they_own_something(store: PostgresStore) -> None:
    first, owner, idle, recent, alive = (join(store, "quote", version="1") for _ in range(5))
    assert owner.work.put_effect(effect("offer:7", "sending"), expected_state=None)
    term = take_term(alive)
    other = join(store, "quote", version="2")
    for seat in (first, owner, idle, recent, other):
        seat.leave()
    execute("UPDATE freight_exchange.replica SET lease_until = '2000-01-01' WHERE has_left")
    execute("UPDATE freight_exchange.replica SET lease_until = clock_timestamp() WHERE id = %s", recent.replica.id)
    term.prune(before=0.0)
    kept = {id for (id,) in execute("SELECT id FROM freight_exchange.replica")}
    assert kept == {seat.replica.id for seat in (first, owner, recent, alive, other)}


def test_replicas_are_forgotten_with_the_last_batch(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_sql, "PRUNE_BATCH", 2)
    first, gone, alive = join(store), join(store), join(store)
    for seat in (first, gone):
        seat.leave()
    execute("UPDATE freight_exchange.replica SET lease_until = '2000-01-01' WHERE has_left")
    term = take_term(alive)
    put(term, [seen(index) for index in range(3)])
    assert term.prune(before=math.inf)
    assert len(execute("SELECT id FROM freight_exchange.replica")) == 3
    assert not term.prune(before=math.inf)
    assert len(execute("SELECT id FROM freight_exchange.replica")) == 2


@pytest.mark.parametrize(
    ("ahead", "words"), [(90.0, "s ahead of that of"), (-7200.0, "s behind that of"), (30.0, None)]
)
def test_clock_that_differs_from_that_of_the_database_is_logged_once(
    store: PostgresStore,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    ahead: float,
    words: str | None,
) -> None:
    monkeypatch.setattr("freight_exchange.store.postgres.store.wall_time", lambda: time.time() + ahead)
    join(store), join(store)
    assert len(caplog.messages) == (words is not None)
    assert words is None or words in caplog.text
