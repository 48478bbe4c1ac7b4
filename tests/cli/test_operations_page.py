"""Tests of the page about operations against the real methods and commands."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime

import click
from tests.cli.harness import DRAFT, ROUTE, TILES, Shell
from tools.pages import ROOT, snippets_of

from freight_exchange.cli.app import program
from freight_exchange.options import ADDRESSES

PAGE = (ROOT / "docs" / "service.md").read_text()
ROWS = re.findall(r"^\| (4\.\d+) \| `(\w+ [\w/]+)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
WHEN = datetime(2036, 2, 1, 17)


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


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
