"""Excuses of the judge of servers with quirks: each holds for what no reply contained, and for nothing else."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import attrs
from tests.model.servers.drawing import draw
from tests.model.servers.market import Content, Market
from tests.model.servers.quirks import Cache, Empty, Quirks, Span
from tests.model.servers.run import Log
from tests.model.servers.server import Served, StrangeServer
from tests.model.servers.unseen import Unseen

CONTENT = Content("upright", 1, "Durban", "FOB", "Available")
ALL = Empty(Span(1000.0, 5000.0), listings=True, lookups=True, share=1.0, form="object")


def unseen(quirks: Quirks, *listings: tuple[float, int, bool], stamp: float = 900.0, live: float = 1.0) -> Unseen:
    """Return the replies to a watcher that made these listings: time, window, and whether they list request 1."""
    market = Market(lambda at: at)
    market.publish(stamp, CONTENT)
    schedule = attrs.evolve(
        draw(1, ("texts",)), quirks=quirks, market=market, end=30_000.0, interval=timedelta(seconds=300)
    )
    server = StrangeServer(market, quirks, 1)
    for at, window, lists_it in listings:
        body: dict[str, Any] = {"secondsSinceUpdate": window, "offset": 0}
        server.served.append(Served(at, "listing", body, False, {1: CONTENT} if lists_it else {}, as_of=at))
    return Unseen(schedule, Log(live=[live], listed=live + 1.0), server)


def test_state_left_while_hidden_if_the_widest_window_is_an_hour() -> None:
    hour = Quirks(windows="an hour", empties=(ALL,))
    assert unseen(hour).left_while_hidden(1, 900.0, CONTENT)
    assert not unseen(Quirks(empties=(ALL,))).left_while_hidden(1, 900.0, CONTENT)
    assert not unseen(Quirks(windows="an hour")).left_while_hidden(1, 900.0, CONTENT)


def test_state_that_a_listing_contains_or_that_was_listed_for_intervals_was_not_hidden() -> None:
    hour = Quirks(windows="an hour", empties=(ALL,))
    assert not unseen(hour, (950.0, 345, True)).left_while_hidden(1, 900.0, CONTENT)
    assert not unseen(hour, stamp=500.0).left_while_hidden(1, 500.0, CONTENT)


def test_update_left_when_no_window_reaches_back_to_it() -> None:
    hour = Quirks(windows="an hour")
    assert unseen(hour, (4000.0, 345, False), (4600.0, 345, False)).left(1) == 4600.0
    assert unseen(Quirks(), (4000.0, 345, False)).left(1) is None


def test_first_scan_hides_what_a_failure_or_a_cache_of_shuffled_pages_hides() -> None:
    failing = Quirks(empties=(attrs.evolve(ALL, span=Span(0.0, 100.0)),))
    cached = Quirks(shuffled=True, cache=Cache(60.0, listings=True, lookups=True, key="body", until=math.inf))
    for quirks in (failing, cached):
        assert unseen(quirks, (0.5, 432_000, False)).was_hidden_at_entry(1)
        assert not unseen(quirks, (0.5, 432_000, True)).was_hidden_at_entry(1)
    assert not unseen(Quirks(shuffled=True), (0.5, 432_000, False)).was_hidden_at_entry(1)


def test_scan_after_the_first_one_decides_unless_a_failure_hides_the_update() -> None:
    failing = Quirks(empties=(ALL,))
    during = {"stamp": 1500.0, "live": 1499.0}
    assert unseen(failing, (1600.0, 200, False), **during).was_hidden_when_decided(1, 1499.5)
    assert not unseen(Quirks(), (1600.0, 200, False), **during).was_hidden_when_decided(1, 1499.5)
    assert not unseen(failing, (1600.0, 200, False), (5100.0, 345, True), **during).was_hidden_when_decided(1, 1499.5)
    assert not unseen(failing, (1600.0, 200, False), **during).was_hidden_when_decided(1, 1501.0)


def test_clock_that_is_set_back_brings_in_only_what_no_listing_contained_before() -> None:
    back = Quirks(jumps=((2000.0, -3600.0),))
    assert unseen(back, (500.0, 3600, False)).was_brought_back_by_the_clock(1, 2100.0)
    assert not unseen(back, (500.0, 3600, True)).was_brought_back_by_the_clock(1, 2100.0)
    assert not unseen(back, (500.0, 3600, False)).was_brought_back_by_the_clock(1, 1900.0)
    assert not unseen(Quirks(jumps=((2000.0, 3600.0),))).was_brought_back_by_the_clock(1, 2100.0)
