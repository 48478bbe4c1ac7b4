"""Tests of deliveries that are postponed with an earlier one, in every `WorkStore`."""

from __future__ import annotations

from tests.unit.store.test_work import claimed, enqueued

from freight_exchange.store.work import WorkStore


def due_times(feed: WorkStore) -> dict[tuple[int, str], float]:
    return {(one.event, one.handler): one.not_before for one in feed.deliveries(state="ready")}


def test_retry_puts_off_later_deliveries_of_its_handler_and_request(feed: WorkStore) -> None:
    first, second, other = enqueued(feed, 7, 7, 8, handlers=("a", "b"))
    assert claimed(feed, limit=1) == [(first, "a")]
    feed.settle(first, "a", state="ready", not_before=90.0, at=51.0)
    put_off = {(first, "a"), (second, "a")}
    rest = [(number, name) for number in (first, second, other) for name in ("a", "b")]
    assert due_times(feed) == {key: 90.0 if key in put_off else 20.0 for key in rest}


def test_retry_brings_no_later_delivery_forward(feed: WorkStore) -> None:
    first, second = enqueued(feed, 7, 7)
    for not_before in (90.0, 60.0):
        assert claimed(feed, now=90.0) == [(first, "quote")]
        feed.settle(first, "quote", state="ready", not_before=not_before, at=51.0)
    assert due_times(feed) == {(first, "quote"): 60.0, (second, "quote"): 90.0}


def test_new_delivery_is_due_with_the_one_that_it_waits_for(feed: WorkStore) -> None:
    (first,) = enqueued(feed, 7)
    claimed(feed)
    feed.settle(first, "quote", state="ready", not_before=90.0, at=51.0)
    (second,), (other,) = enqueued(feed, 7, handlers=("log", "quote")), enqueued(feed, 8)
    expected = {(first, "quote"): 90.0, (second, "log"): 20.0, (second, "quote"): 90.0, (other, "quote"): 20.0}
    assert due_times(feed) == expected


def test_retry_about_no_request_puts_off_nothing(feed: WorkStore) -> None:
    first, second = enqueued(feed, None, None)
    claimed(feed, limit=1)
    feed.settle(first, "quote", state="ready", not_before=90.0, at=51.0)
    assert due_times(feed) == {(first, "quote"): 90.0, (second, "quote"): 20.0}


def test_result_puts_off_nothing(feed: WorkStore) -> None:
    first, second, third = enqueued(feed, 7, 7, 7)
    claimed(feed)
    feed.settle(first, "quote", state="dead", not_before=90.0, at=51.0)
    claimed(feed)
    feed.settle(second, "quote", state="done", not_before=90.0, at=52.0)
    assert due_times(feed) == {(third, "quote"): 20.0}


def test_replay_puts_off_later_deliveries(feed: WorkStore) -> None:
    first, second = enqueued(feed, 7, 7)
    claimed(feed)
    feed.settle(first, "quote", state="dead", at=51.0)
    feed.replay(first, "quote", at=60.0)
    assert due_times(feed) == {(first, "quote"): 60.0, (second, "quote"): 60.0}
