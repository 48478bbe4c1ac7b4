"""Tests of the checker of a bot that is killed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from tests.crash.bot.checker import Reported, check, reported
from tests.crash.bot.tariff import PORTS, price
from tests.crash.bot.trigger_log import Delivered, Entered, Step, StoreContents, fresh, read, read_after_death

from freight_exchange.testing import Cargo, Sandbox
from freight_sandbox.audit import AuditLog

RIGHT = price(10, "Oakland")
CARGO = Cargo(quantity=10, destination="Oakland")
KINDS = ("missed", "duplicated", "wrong", "unended", "dead", "astray", "unreported")


def market(*amounts: Decimal, selected: bool = False) -> AuditLog:
    """Return an exchange with one request, published at second 1, and an offer on it at each second from 2 on."""
    sandbox = Sandbox()
    exchange = sandbox.exchange
    index = exchange.publish(exchange.shipper, 1.0, CARGO)
    offers = [exchange.offer(exchange.forwarder, index, 2.0, amount=amount) for amount in amounts]
    if selected:
        exchange.select(offers[0], 3.0)
    return sandbox.audit_log


def steps(*states: str, key: str = "offer:1:0") -> list[Step]:
    """Return the steps of an offer through these states."""
    return [Step(1, key, was, became) for was, became in zip((None, *states), states, strict=False)]


CONFIRMED = Entered("offer:1:0", "confirmed", RIGHT)
DONE = Delivered(1, "quote", "done", 1, None)
GOOD = StoreContents(steps=steps("intent", "sending", "confirmed"), offers=[CONFIRMED], deliveries=[DONE])


def flawed(
    audit_log: AuditLog, contents: StoreContents = GOOD, received: tuple[Reported, ...] = (), *, ledger: bool = True
) -> Mapping[str, int]:
    """Return the number of flaws of each kind."""
    result = check(audit_log, contents, received, ledger=ledger)
    found = {kind: len(getattr(result, kind)) for kind in KINDS}
    assert len(result.flaws) == sum(found.values())
    return {kind: count for kind, count in found.items() if count}


def test_one_offer_of_the_right_amount_on_each_request_is_good() -> None:
    assert flawed(market(RIGHT)) == {}
    result = check(market(RIGHT), GOOD)
    assert (result.published, result.offered, result.duplicates) == (1, 1, 0)
    assert result.idle


def test_a_request_without_an_offer_is_missed() -> None:
    assert flawed(market(), attrs.evolve(GOOD, steps=[], offers=[])) == {"missed": 1}
    assert not check(market(), StoreContents()).idle


def test_a_second_offer_is_a_duplicate_even_if_it_is_the_right_amount_twice() -> None:
    assert flawed(market(RIGHT, RIGHT), ledger=False) == {"duplicated": 1}
    assert check(market(RIGHT, RIGHT, RIGHT), GOOD).duplicates == 2
    # The ledger has one of them.
    assert flawed(market(RIGHT, RIGHT)) == {"duplicated": 1, "astray": 1}


def test_an_amount_is_right_if_the_request_cost_so_much_before() -> None:
    assert flawed(market(RIGHT + 1), ledger=False) == {"wrong": 1}
    for changed_at, offered_at, amount, wrong in (
        (2.0, 3.0, RIGHT, 0),
        (2.0, 3.0, price(20, "Oakland"), 0),
        (3.0, 2.0, price(20, "Oakland"), 1),
    ):
        sandbox = Sandbox()
        index = sandbox.exchange.publish(sandbox.exchange.shipper, 1.0, CARGO)
        sandbox.exchange.update(index, changed_at, attrs.evolve(CARGO, quantity=20))
        sandbox.exchange.offer(sandbox.exchange.forwarder, index, offered_at, amount=amount)
        assert len(check(sandbox.audit_log, StoreContents(), ledger=False).wrong) == wrong


def test_no_two_cargoes_here_cost_the_same() -> None:
    cargoes = [(quantity, port) for quantity in range(1, 51) for port in PORTS]
    assert len({price(quantity, port) for quantity, port in cargoes}) == len(cargoes)


@pytest.mark.parametrize("state", ["intent", "sending", "unknown"])
def test_an_offer_that_is_not_at_its_end_is_reported(state: str) -> None:
    contents = attrs.evolve(GOOD, offers=[CONFIRMED, Entered("offer:1:1", state, RIGHT)])
    assert flawed(market(RIGHT), contents) == {"unended": 1}
    assert not check(market(RIGHT), contents).idle


@pytest.mark.parametrize("state", ["ready", "claimed"])
def test_a_delivery_that_waits_is_reported(state: str) -> None:
    contents = attrs.evolve(GOOD, deliveries=[DONE, Delivered(2, "quote", state, 1, None)])
    assert flawed(market(RIGHT), contents) == {"unended": 1}


def test_an_event_that_no_handler_was_given_is_reported() -> None:
    assert flawed(market(RIGHT), attrs.evolve(GOOD, waiting=1)) == {"unended": 1}


def test_a_dead_letter_is_reported() -> None:
    contents = attrs.evolve(GOOD, deliveries=[DONE, Delivered(2, "quote", "dead", 9, "it failed")])
    assert flawed(market(RIGHT), contents) == {"dead": 1}


@pytest.mark.parametrize(
    "past",
    [
        ("sending", "confirmed"),
        ("intent", "confirmed"),
        ("intent", "sending", "sending", "confirmed"),
        ("intent", "sending", "confirmed", "sending", "confirmed"),
        ("intent", "sending", "rejected", "intent", "sending", "confirmed"),
        ("intent", "sending", "unknown", "sending", "confirmed"),
        ("intent", "sending", "unknown", "rejected"),
    ],
)
def test_a_step_that_no_offer_may_take_is_reported(past: tuple[str, ...]) -> None:
    assert flawed(market(RIGHT), attrs.evolve(GOOD, steps=steps(*past))) == {"astray": 1}


@pytest.mark.parametrize(
    "past",
    [
        ("intent", "intent", "sending", "confirmed"),
        ("intent", "sending", "intent", "sending", "confirmed"),
        ("intent", "sending", "unknown", "unknown", "confirmed"),
        ("intent", "sending", "unknown", "intent", "sending", "confirmed"),
    ],
)
def test_the_steps_that_offers_may_take_are_good(past: tuple[str, ...]) -> None:
    assert flawed(market(RIGHT), attrs.evolve(GOOD, steps=steps(*past))) == {}


def test_a_step_from_where_the_offer_was_not_is_reported() -> None:
    past = [*steps("intent", "sending"), Step(2, "offer:1:0", "unknown", "confirmed")]
    assert flawed(market(RIGHT), attrs.evolve(GOOD, steps=past)) == {"astray": 1}
    # Another offer's steps are its own.
    between = [*steps("intent"), *steps("intent", key="offer:2:0"), Step(1, "offer:1:0", "intent", "sending")]
    assert flawed(market(RIGHT), attrs.evolve(GOOD, steps=between)) == {}


def test_the_ledger_and_the_exchange_have_the_same_offers() -> None:
    assert flawed(market(RIGHT), attrs.evolve(GOOD, offers=[])) == {"astray": 1}
    other = attrs.evolve(CONFIRMED, amount=RIGHT + 1)
    assert flawed(market(RIGHT), attrs.evolve(GOOD, offers=[other])) == {"astray": 2}
    refused = Entered("offer:1:1", "rejected", RIGHT)
    assert flawed(market(RIGHT), attrs.evolve(GOOD, offers=[CONFIRMED, refused])) == {}


def test_a_selection_is_reported_and_reported_again_only_by_a_later_run() -> None:
    audit_log = market(RIGHT, selected=True)
    assert flawed(audit_log, received=(Reported(1, 1, True),)) == {}
    assert check(audit_log, GOOD, (Reported(1, 1, True), Reported(2, 1, True))).reported_again == 1
    assert flawed(audit_log, received=(Reported(1, 1, True), Reported(2, 1, True))) == {}
    assert flawed(audit_log) == {"unreported": 1}
    assert flawed(audit_log, received=(Reported(1, 1, True), Reported(1, 1, True))) == {"unreported": 1}
    assert flawed(audit_log, received=(Reported(1, 1, False),)) == {"unreported": 1}
    assert flawed(market(RIGHT), received=(Reported(1, 1, True),)) == {"unreported": 1}


def test_retries_and_doubts_are_counted() -> None:
    past = steps("intent", "sending", "unknown", "intent", "sending", "unknown", "unknown", "confirmed")
    result = check(
        market(RIGHT), attrs.evolve(GOOD, steps=past, deliveries=[DONE, Delivered(2, "won", "done", 4, None)])
    )
    assert (result.doubted, result.taken, result.not_taken, result.retries) == (2, 1, 1, 3)


def test_a_line_that_was_cut_off_was_not_written(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    assert reported(journal) == []
    journal.write_text('{"run":1,"request":7,"contact":true}\n{"run":1,"re')
    assert reported(journal) == [Reported(1, 7, True)]


def test_the_trigger_log_has_each_step_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fresh(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO feed VALUES (1, 'requests', 'url', 'me', NULL, 3, NULL, 0)")
        connection.execute("INSERT INTO effect VALUES (1, 'offer:1:0', 'intent', ?, 0)", (b'{"amount":"1.50"}',))
        connection.execute("INSERT INTO effect VALUES (1, 'selections', 'primed', x'', 0)")
        connection.execute("UPDATE effect SET state = 'sending' WHERE key = 'offer:1:0'")
        connection.execute("INSERT INTO event (feed, key, kind, payload, at) VALUES (1, 'e', 'new', x'', 0)")
        connection.execute("INSERT INTO delivery VALUES (1, 1, 'quote', 1, 'ready', 0, 0, NULL)")
        for state in ("claimed", "ready", "claimed", "done"):
            connection.execute("UPDATE delivery SET state = ?", (state,))
    for contents in (read(path), read_after_death(path)):
        assert contents.steps == [Step(3, "offer:1:0", None, "intent"), Step(3, "offer:1:0", "intent", "sending")]
        assert contents.offers == [Entered("offer:1:0", "sending", Decimal("1.50"))]
        assert contents.offers[0].request == 1
        assert contents.states == {"sending": 1}
        assert contents.deliveries == [Delivered(1, "quote", "done", 2, None)]
        assert contents.waiting == 1
