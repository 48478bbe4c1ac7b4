"""Tests of the page about operations against the real methods and commands."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any

import click
import pytest
from tests.cli.harness import DRAFT, ROUTE, TILES, Shell
from tools.pages import ROOT, snippets_of

from freight_exchange import FreightExchange, RateRequestDraft, Route, RouteDraft
from freight_exchange.cli.app import program
from freight_exchange.options import ADDRESSES
from freight_exchange.testing import Sandbox

PAGE = (ROOT / "docs" / "service.md").read_text()
ROWS = re.findall(r"^\| (4\.\d+) \| `(\w+ [\w/]+)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
WHEN = datetime(2036, 2, 1, 17)


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def calls_of(sandbox: Sandbox) -> set[str]:
    return {f"{call.method} {call.path}" for call in sandbox.audit_log.calls}


def test_page_has_each_operation_of_the_document() -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    documented = []
    for number, title in re.findall(r"^### (4\.\d+) (.*) \{", page, re.MULTILINE):
        *others, last = title.split(", ")
        address = last.split(" ")[1]
        for part in [*others, last]:
            method, _, own = part.partition(" ")
            documented.append((number, f"{method} {own or address}"))
    assert sorted((number, operation) for number, operation, _, _ in ROWS) == sorted(documented)
    assert len(documented) == 17


async def publish(exchange: FreightExchange) -> object:
    return await exchange.requests.publish(RateRequestDraft(**{**DRAFT, "arrival": WHEN}))


async def watch(exchange: FreightExchange) -> None:
    async with exchange.watch(start="backfill") as feed:
        await anext(feed)


async def create(exchange: FreightExchange) -> object:
    times: dict[str, Any] = dict.fromkeys(("cy_cutoff", "cfs_cutoff", "departure", "arrival"), WHEN)
    return await exchange.routes.create(RouteDraft(**{**ROUTE, **times}))


async def get_route(exchange: FreightExchange) -> Route:
    (route, *_) = await exchange.routes.list()
    return await exchange.routes.get(route.index)


async def update(exchange: FreightExchange) -> object:
    return await exchange.routes.update(await get_route(exchange))


METHODS: dict[str, Callable[[FreightExchange], Awaitable[object]]] = {
    "exchange.login()": lambda exchange: exchange.login(),
    "exchange.requests.open()": lambda exchange: exchange.requests.open().first(),
    "exchange.requests.get_open(index)": lambda exchange: exchange.requests.get_open(1),
    "exchange.requests.publish(draft)": publish,
    "exchange.requests.search()": lambda exchange: exchange.requests.search().first(),
    "exchange.requests.get(index)": lambda exchange: exchange.requests.get(1),
    "exchange.watch()": watch,
    "exchange.routes.list()": lambda exchange: exchange.routes.list().first(),
    "exchange.routes.get(index)": get_route,
    "exchange.routes.create(draft)": create,
    "exchange.routes.update(route)": update,
    "exchange.offers.list()": lambda exchange: exchange.offers.list().first(),
    "exchange.offers.get(request)": lambda exchange: exchange.offers.get(1),
    "exchange.offers.search()": lambda exchange: exchange.offers.search().first(),
    "exchange.offers.approve(offer)": lambda exchange: exchange.offers.approve(5001),
    "exchange.offers.decline(offer)": lambda exchange: exchange.offers.decline(5001),
    "exchange.bids.list()": lambda exchange: exchange.bids.list().first(),
    "exchange.bids.submit(request)": lambda exchange: exchange.bids.submit(1, amount=1, currency=840),
    "exchange.carriers.list()": lambda exchange: exchange.carriers.list().first(),
    "exchange.carriers.get(index)": lambda exchange: exchange.carriers.get(1),
    "exchange.currencies.list()": lambda exchange: exchange.currencies.list().first(),
    "exchange.currencies.get(index)": lambda exchange: exchange.currencies.get(840),
    "exchange.currencies.by_code(code)": lambda exchange: exchange.currencies.by_code("USD"),
}


OPTIONS = {"publish": "publish", "approve": "approve", "decline": "approve", "submit": "submit"}


@pytest.mark.parametrize(("operation", "methods"), [(operation, methods) for _, operation, methods, _ in ROWS])
async def test_methods_reach_their_operation(operation: str, methods: str) -> None:
    names = [name for name in quoted(methods) if name.startswith("exchange.")]
    assert names
    for name in names:
        sandbox = Sandbox()
        account = sandbox.shipper if re.search(r"offers|publish", name) else sandbox.forwarder
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.rival, index, sandbox.now())
        options: dict[str, Any] = {}
        if "by an option" in methods:
            words = name.split("(")[0].split(".")[-1]
            options = {"addresses": {OPTIONS[words]: operation.split(" ")[1]}}
        client = FreightExchange(
            sandbox.url, email=account.email, password=account.password, http_client=sandbox.http_client(), **options
        )
        async with client as exchange:
            await METHODS[name](exchange)
        assert operation in calls_of(sandbox), name


def test_page_has_each_address() -> None:
    table = PAGE[PAGE.index("| Operation | Option") :]
    for option, addresses in ADDRESSES.items():
        (cell,) = re.findall(rf"`{option}` \| (.*) \|$", table, re.MULTILINE)
        assert [address.split(" ")[1] for address in quoted(cell)] == [*addresses]


TYPED: dict[str, tuple[str, ...]] = {
    "freight-exchange login": (),
    "freight-exchange whoami": (),
    "freight-exchange requests list": (),
    "freight-exchange requests get INDEX": ("1",),
    "freight-exchange requests watch": ("--start", "backfill", "--count", "1"),
    "freight-exchange requests publish": ("--file", "draft.json", "--yes"),
    "freight-exchange requests import FILE": ("requests.csv", "--past", "--yes"),
    "freight-exchange routes list": (),
    "freight-exchange routes get INDEX": ("ROUTE",),
    "freight-exchange routes create": ("--file", "route.json", "--yes"),
    "freight-exchange routes update INDEX": ("ROUTE", "--vessel", "Ever Other", "--yes"),
    "freight-exchange offers list": (),
    "freight-exchange offers watch": ("--start", "backfill", "--count", "1"),
    "freight-exchange offers export": (),
    "freight-exchange offers get REQUEST": ("1",),
    "freight-exchange offers compare REQUEST": ("1", "--to", "USD"),
    "freight-exchange tariff check FILE": ("tariff.csv", "--weight", "unit", "--requests"),
    "freight-exchange offers approve OFFER": ("5001", "--yes"),
    "freight-exchange offers decline OFFER": ("5001", "--yes"),
    "freight-exchange bids list": (),
    "freight-exchange bids submit REQUEST": ("1", "--amount", "1", "--currency", "USD", "--yes"),
    "freight-exchange carriers": (),
    "freight-exchange currencies": (),
}


def test_commands_reach_their_operation(shell: Shell) -> None:
    (shell.home / "draft.json").write_text(json.dumps(DRAFT))
    (shell.home / "route.json").write_text(json.dumps(ROUTE))
    (tariff,) = (one for one in snippets_of(ROOT / "docs" / "tariff.md") if one.name == "tariff.csv")
    (shell.home / "tariff.csv").write_text(tariff.code)
    (shell.home / "requests.csv").write_bytes((ROOT / "examples" / "requests.csv").read_bytes())
    shell.publish(TILES)
    (route,) = shell("routes", "create", "--file", "route.json", "--yes", "--json").objects
    exchange = shell.exchange
    exchange.offer(exchange.rival, 1, time.time())
    for _, operation, _, commands in ROWS:
        if commands.startswith("none"):
            continue
        for command in quoted(commands):
            words = [word for word in command.split(" ")[1:] if word.islower()]
            is_shipper = "offers" in words or words[-1] in ("publish", "import")
            shell.use_account(exchange.shipper if is_shipper else exchange.forwarder)
            if command.endswith("offers watch"):
                # It ends with its first event, which needs a pending offer.
                shell.publish(TILES)
                exchange.offer(exchange.rival, exchange.audit_log.publications[-1].request, time.time())
            before = len(exchange.audit_log.calls)
            arguments = [
                str(route["index"]) if word == "ROUTE" else word
                for word in TYPED[re.sub(r"--addresses \S+ ", "", command)]
            ]
            result = shell(*words, *arguments, typed="" if words == ["login"] else None)
            reached = {f"{call.method} {call.path}" for call in [*exchange.audit_log.calls][before:]}
            assert operation in reached, (command, result)


def commands_of(group: click.Group, *path: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands_of(command, *path, name)
        else:
            yield " ".join([*path, name])


def test_page_has_every_command_that_calls_the_service() -> None:
    local = {"bot", "store", "explain", "sandbox", "demo", "logout"}
    commands = {" ".join(word for word in command.split(" ")[1:] if word.islower()) for command in TYPED}
    assert commands == {command for command in commands_of(program) if command.split(" ")[0] not in local}
