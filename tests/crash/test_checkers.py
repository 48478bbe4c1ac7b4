"""Checkers of the trials: each names what is wrong, and nothing else."""

from __future__ import annotations

import contextlib
import socket
import time
from decimal import Decimal
from typing import Any

import attrs
import pytest
from tests.crash import answers, bot, watcher
from tests.crash.proxy import TcpProxy
from tests.crash.watcher import Line

from freight_exchange.testing import Cargo, Profile, Sandbox
from freight_sandbox import Call

CARGO = Cargo(quantity=10, destination="Oakland")
RIGHT = bot.price(10, "Oakland")
ONE, TWO = ("1", "Oakland"), ("2", "Oakland")


def wrong(counts: Any, flaws: tuple[str, ...]) -> dict[str, int]:
    return {flaw: counts[flaw] for flaw in flaws if counts[flaw]}


def report(run: int, request: int = 1, *, contact: bool = True) -> dict[str, Any]:
    return {"run": run, "request": request, "contact": contact}


@pytest.mark.parametrize(
    ("amounts", "flaws"),
    [
        ([RIGHT], {}),
        ([], {"requests missed": 1}),
        ([RIGHT, RIGHT], {"offers too many": 1}),
        ([RIGHT + 1], {"wrong amounts": 1}),
        # The price after the update at second 5, which comes after the offer at second 3.
        ([bot.price(20, "Oakland")], {"wrong amounts": 1}),
    ],
)
def test_offers_are_counted(amounts: list[Decimal], flaws: dict[str, int]) -> None:
    exchange = Sandbox().exchange
    index = exchange.publish(exchange.shipper, 1.0, CARGO)
    for amount in amounts:
        exchange.offer(exchange.forwarder, index, 3.0, amount=amount)
    exchange.update(index, 5.0, attrs.evolve(CARGO, quantity=20))
    assert wrong(bot.check(exchange.audit_log), bot.FLAWS) == flaws


@pytest.mark.parametrize(
    ("reports", "flaws"),
    [
        ([report(1)], {}),
        ([report(1), report(2)], {}),
        ([], {"selections never reported": 1}),
        ([report(1), report(1)], {"selections reported wrongly": 1}),
        ([report(1, contact=False)], {"selections reported wrongly": 1}),
        ([report(1), report(1, 2)], {"selections reported wrongly": 1}),
    ],
)
def test_reports_of_selections_are_counted(reports: list[dict[str, Any]], flaws: dict[str, int]) -> None:
    exchange = Sandbox().exchange
    index = exchange.publish(exchange.shipper, 1.0, CARGO)
    exchange.select(exchange.offer(exchange.forwarder, index, 2.0, amount=RIGHT), 3.0)
    assert wrong(bot.check(exchange.audit_log, reports), bot.FLAWS) == flaws


def test_no_two_cargoes_cost_the_same() -> None:
    cargoes = [(quantity, port) for quantity in range(1, 51) for port in bot.PORTS]
    assert len({bot.price(quantity, port) for quantity, port in cargoes}) == len(cargoes)


@pytest.mark.parametrize(
    ("given", "flaws"),
    [
        ([(5003, 1)], {}),
        ([(5001, 0), (5003, 1)], {}),
        ([(5001, 0), (5002, 0), (5003, 0)], {}),
        ([(5001, 0)], {"not approved": 1}),
        ([(5002, 1)], {"wrong offer approved": 1}),
        ([(5003, 1), (5002, 1)], {"approvals too many": 1, "wrong offer approved": 1}),
        ([(5001, 0), (5001, 0), (5003, 1)], {"declines too many": 1}),
        (["by hand", (5002, 1)], {"approvals too many": 1, "wrong offer approved": 1}),
        ([(5003, 1), "raised before"], {"wrong offer approved": 1}),
    ],
)
def test_answers_are_counted(given: list[Any], flaws: dict[str, int]) -> None:
    sandbox = Sandbox(Profile(second_approval="switched", decline_outcome="unchanged"))
    exchange, changes = sandbox.exchange, list[answers.PriceChange]()
    headers = {"authorization": f"Bearer {exchange.token(exchange.shipper, 1.0)}", "content-type": "application/json"}
    request = exchange.publish(exchange.shipper, 1.0)
    for amount in (900, 800, 700):
        exchange.offer(exchange.forwarder, request, 1.0, amount=amount)
    for answer in given:
        if answer == "by hand":
            exchange.select(5003, 2.0)
        elif answer == "raised before":
            changes.append(answers.PriceChange(2.0, 5003, Decimal(999)))
        else:
            body = f'{{"offerIndex":{answer[0]},"approved":{answer[1]}}}'.encode()
            exchange.handle(Call("POST", "quote/approveoffer", {}, headers, body), 10.0)
    assert wrong(answers.check(exchange.audit_log, [request], changes), answers.FLAWS) == flaws


def event(run: int, kind: str, state: tuple[str, ...], index: int | None = 1) -> Line:
    return Line(run, kind, index, state)


@pytest.mark.parametrize(
    ("lines", "withdrawn", "flaws"),
    [
        ([event(1, "new", ONE), event(1, "updated", TWO), event(2, "updated", ONE)], False, {}),
        ([event(1, "new", TWO), event(1, "updated", ONE)], False, {}),
        ([event(1, "new", ONE)], False, {}),
        ([event(1, "new", ONE), event(2, "new", ONE)], False, {}),
        ([event(1, "new", ONE), event(1, "withdrawn", ONE)], True, {}),
        ([], True, {}),
        ([], False, {"missed": 1}),
        ([event(1, "new", ONE), event(1, "updated", TWO)], False, {"missed": 1}),
        ([event(1, "new", ONE)], True, {"missed": 1}),
        ([event(1, "new", ONE), event(1, "new", ONE)], False, {"repeated": 1}),
        ([event(1, "new", ONE), event(1, "new", ONE, 7)], False, {"invented": 1}),
        ([event(1, "new", ONE), event(1, "gap", (), None)], False, {"invented": 1}),
        ([event(1, "new", ("3", "Oakland")), event(1, "updated", ONE)], False, {"invented": 1}),
    ],
)
def test_events_are_counted(lines: list[Line], withdrawn: bool, flaws: dict[str, int]) -> None:
    sandbox = Sandbox()
    index = sandbox.publish(Cargo(quantity=1, destination="Oakland"))
    sandbox.exchange.update(index, 2.0, Cargo(quantity=2, destination="Oakland"))
    sandbox.exchange.update(index, 3.0, Cargo(quantity=1, destination="Oakland"))
    if withdrawn:
        sandbox.exchange.withdraw(index, 4.0)
    assert wrong(watcher.check(sandbox.audit_log.changes, lines), watcher.FLAWS) == flaws


@pytest.mark.parametrize("has_left", [True, False])
def test_stalled_proxy_delivers_only_what_a_client_that_stays_has_sent(has_left: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = TcpProxy(listener.getsockname()[1])
        client = socket.create_connection(("127.0.0.1", proxy.port))
        server, _ = listener.accept()
        proxy.stall()
        client.sendall(b"head of an offer")
        if has_left:
            # The proxy takes the head; the body waits unread behind it.
            time.sleep(0.05)
            client.sendall(b"body of an offer")
            client.close()
        proxy.resume()
        received = b""
        with contextlib.suppress(ConnectionResetError):
            received = server.recv(100)
        assert received == (b"" if has_left else b"head of an offer")
        client.close()
        server.close()
        proxy.close()
