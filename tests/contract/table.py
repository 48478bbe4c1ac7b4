"""The table to be filled: every operation at every address, and what is proved of each. No test is in here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import pytest

from freight_exchange.options import Addresses
from freight_exchange.sandbox import Profile

__all__ = ["COLUMNS", "KNOB_VALUES", "PROVED", "REPORT", "ROWS", "Column", "Proof", "Row", "report", "row_named"]

Column = Literal["typed", "http", "document", "knobs"]

REPORT: Final = Path("build") / "contract.json"
"""Where a run leaves what it proved, relative to the project's root."""


@attrs.frozen
class Row:
    """An operation at one of its addresses.

    Attributes:
        operation: Its number among the service document's seventeen methods and addresses.
        method, path: The call.
        call: What a user types.
        addresses: What the client is built with for this address.
        what: Which of two operations, where one address serves both.
    """

    operation: int
    method: str
    path: str
    call: str
    addresses: Addresses = attrs.field(factory=Addresses)
    what: str = ""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}{self.what and f' ({self.what})'}"

    def __str__(self) -> str:
        return self.name


ROWS: Final = (
    Row(1, "POST", "login", "login()"),
    Row(2, "GET", "quote/request", "requests.open(), .get_open()"),
    Row(3, "POST", "quote/request", "requests.publish()", Addresses(publish="quote/request"), "publish"),
    Row(3, "POST", "quote/request", "bids.submit()", Addresses(submit="quote/request"), "submit"),
    Row(4, "POST", "quote/submitrequest", "requests.publish()", Addresses(publish="quote/submitrequest")),
    Row(4, "POST", "request", "requests.publish()", Addresses(publish="request")),
    Row(5, "POST", "quote/getrequests", "requests.search(), .get()"),
    Row(6, "GET", "route", "routes.list(), .get()"),
    Row(7, "POST", "route", "routes.create()"),
    Row(8, "PUT", "route", "routes.update()"),
    Row(9, "GET", "quote/offer", "offers.list(), .get()", Addresses(get_offer="quote/offer")),
    Row(10, "POST", "quote/offer", "offers.approve(), .decline()", Addresses(approve="quote/offer")),
    Row(11, "POST", "quote/getoffers", "offers.search(), .get()", Addresses(get_offer="quote/getoffers")),
    Row(12, "POST", "quote/approveoffer", "offers.approve(), .decline()", Addresses(approve="quote/approveoffer")),
    Row(13, "GET", "quote/bid", "bids.list()"),
    Row(14, "POST", "quote/bid", "bids.submit()", Addresses(submit="quote/bid")),
    Row(15, "POST", "quote/submitoffer", "bids.submit()", Addresses(submit="quote/submitoffer")),
    Row(16, "GET", "carrier", "carriers.list(), .get()"),
    Row(17, "GET", "currency", "currencies.list(), .get(), .by_code()"),
)


def row_named(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


def _value(knob: str, value: object) -> str:
    return f"{knob}={value}"


KNOB_VALUES: Final = tuple(_value(knob.name, value) for knob in Profile.knobs() for value in knob.values)

COLUMNS: Final[Mapping[Column, frozenset[str]]] = {
    "typed": frozenset({"fields"}),
    "http": frozenset({"asyncio", "trio"}),
    "document": frozenset({"sent", "accepted"}),
    "knobs": frozenset(KNOB_VALUES),
}
"""What a cell needs before it counts as filled: a listing that was only read on one backend is not proved."""


@attrs.define
class Proof:
    """What the tests that passed have proved so far."""

    cells: dict[tuple[str, Column], set[str]] = attrs.field(factory=dict)
    knobs: dict[str, list[str]] = attrs.field(factory=dict)

    def add(self, row: str, column: Column, part: str) -> None:
        self.cells.setdefault((row, column), set()).add(part)

    def missing(self) -> Mapping[str, Collection[str]]:
        """The cells that are not filled, and what each lacks."""
        lacking = {
            f"{row.name} | {column}": sorted(parts - self.cells.get((row.name, column), set()))
            for row in ROWS
            for column, parts in COLUMNS.items()
        }
        silent = {f"knob | {value}": ["a reply that it changes"] for value in KNOB_VALUES if not self.knobs.get(value)}
        return {cell: parts for cell, parts in {**lacking, **silent}.items() if parts}


PROVED: Final = pytest.StashKey[Proof]()


def report(proof: Proof) -> dict[str, Any]:
    """The proof as JSON."""
    return {
        "rows": [
            {
                "operation": row.operation,
                "address": row.name,
                "call": row.call,
                "cells": {
                    column: [len(parts & proof.cells.get((row.name, column), set())), len(parts)]
                    for column, parts in COLUMNS.items()
                },
            }
            for row in ROWS
        ],
        "knobs": {value: proof.knobs.get(value, []) for value in KNOB_VALUES},
    }
