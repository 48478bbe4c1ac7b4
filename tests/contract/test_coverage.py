"""Tests of the coverage table: seventeen operations, each at every address, with four kinds of proof."""

from __future__ import annotations

import pytest
from tests.contract.coverage import COLUMNS, PROVED, ROWS, Proof

from freight_exchange.options import ADDRESSES
from freight_sandbox.service import OPERATIONS


def test_rows_are_all_operations_at_all_addresses() -> None:
    assert {row.operation for row in ROWS} == set(range(1, 18))
    assert {(row.method, row.path) for row in ROWS} == {*OPERATIONS, ("POST", "login")}
    selected = {(operation, address) for row in ROWS for operation, address in row.addresses.items()}
    assert selected == {(operation, address) for operation, known in ADDRESSES.items() for address in known}


def test_incomplete_cell_is_reported() -> None:
    proof = Proof()
    assert f"{ROWS[0]} | http" in proof.missing()
    for part in COLUMNS["http"]:
        proof.add(ROWS[0].name, "http", part)
    assert f"{ROWS[0]} | http" not in proof.missing()
    assert f"{ROWS[1]} | http" in proof.missing()


def test_every_cell_is_filled(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.stash.get(PROVED, Proof()).missing() == {}
