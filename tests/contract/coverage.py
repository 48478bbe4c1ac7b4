"""Coverage of the service document: operations and addresses by kinds of proof."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import pytest

from freight_exchange.options import Addresses
from freight_sandbox import Profile

__all__ = ["COLUMNS", "KNOB_VALUES", "PROVED", "REPORT", "ROWS", "Column", "Proof", "Row", "report", "row_named"]

Column = Literal["typed", "http", "document", "knobs"]

REPORT: Final = Path("build") / "contract.json"
"""Report of a run, relative to the root of the project."""


@attrs.frozen
class Row:
    """Operation at one of its addresses.

    Attributes:
        operation: The number among the seventeen methods and addresses of the service document.
        method, path: The HTTP call.
        call: The method of the SDK.
        addresses: The option of the client that selects the address.
        suffix: The operation, if one address serves two.
    """

    operation: int
    method: str
    path: str
    call: str
    addresses: Addresses = attrs.field(factory=Addresses)
    suffix: str = ""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}{self.suffix and f' ({self.suffix})'}"

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
"""Parts that fill a cell of a column."""


@attrs.define
class Proof:
    """Cells that passed tests have filled."""

    cells: dict[tuple[str, Column], set[str]] = attrs.field(factory=dict)
    knobs: dict[str, list[str]] = attrs.field(factory=dict)

    def add(self, row: str, column: Column, part: str) -> None:
        self.cells.setdefault((row, column), set()).add(part)

    def missing(self) -> Mapping[str, Collection[str]]:
        """Return the incomplete cells with their missing parts."""
        incomplete = {
            f"{row.name} | {column}": sorted(parts - self.cells.get((row.name, column), set()))
            for row in ROWS
            for column, parts in COLUMNS.items()
        }
        without_effect = {
            f"knob | {value}": ["a reply that it changes"] for value in KNOB_VALUES if not self.knobs.get(value)
        }
        return {cell: parts for cell, parts in {**incomplete, **without_effect}.items() if parts}


PROVED: Final = pytest.StashKey[Proof]()


def report(proof: Proof) -> dict[str, Any]:
    """Convert a proof to JSON."""
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
