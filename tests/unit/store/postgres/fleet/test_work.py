"""Tests of concurrent writes of two replicas: the database accepts one of them."""

from __future__ import annotations

import threading

from tests.unit.store.postgres.replicas import await_lock, join, lapse, take_term
from tests.unit.store.rows import effect, event, put

from freight_exchange.store.postgres.store import PostgresStore
from freight_exchange.store.protocol import ConflictError
from freight_exchange.store.work import Effect


def test_replicas_with_different_handlers_claim_one_delivery_of_a_request(store: PostgresStore) -> None:
    """During a deploy, neither replica reads the deliveries of the other. The database refuses the second claim."""
    first, second = join(store, "log"), join(store, "quote")
    term = take_term(second)
    put(term, events=[event("a", 7)])
    term.enqueue({one.id: ["log", "quote"] for one in term.pending()}, at=1.0)
    refused = list[ConflictError]()

    def claim() -> None:
        try:
            second.work.claim(now=2.0, limit=9, handlers=["quote"])
        except ConflictError as error:
            refused.append(error)

    claiming = threading.Thread(target=claim)
    with first.work.transaction():
        assert [one.handler for one in first.work.claim(now=2.0, limit=9, handlers=["log"])] == ["log"]
        claiming.start()
        await_lock(claiming)
    claiming.join()
    assert len(refused) == 1
    assert second.work.claim(now=2.0, limit=9, handlers=["quote"]) == []


def test_late_reply_is_written_over_nothing_but_what_it_was_decided_by(store: PostgresStore) -> None:
    """The replica that took over the offer may find at the same time that it was not accepted."""
    first, second = join(store), join(store)
    first.work.put_effect(effect("offer:1:0", "sending"), expected_state=None)
    lapse(first)
    second.adopt()
    results = list[bool]()

    def give_back() -> None:
        results.append(second.work.put_effect(effect("offer:1:0", "intent"), expected_state="sending"))

    giving_back = threading.Thread(target=give_back)

    def replaces(stored: Effect) -> bool:
        giving_back.start()
        await_lock(giving_back)
        return stored.state == "sending"

    assert first.work.amend_effect(effect("offer:1:0", "confirmed"), replaces=replaces)
    giving_back.join()
    assert results == [False]
    assert second.work.effect("offer:1:0") == effect("offer:1:0", "confirmed")
