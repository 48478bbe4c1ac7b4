"""The table that the other tests fill: seventeen operations, every address, four proofs of each."""

from __future__ import annotations

import pytest
from tests.contract.table import COLUMNS, PROVED, ROWS, Proof

from freight_exchange.options import ADDRESSES
from freight_exchange.sandbox.core.operations import OPERATIONS


def test_the_rows_are_every_operation_at_every_address() -> None:
    assert {row.operation for row in ROWS} == set(range(1, 18))
    assert {(row.method, row.path) for row in ROWS} == {*OPERATIONS, ("POST", "login")}
    chosen = {(operation, address) for row in ROWS for operation, address in row.addresses.items()}
    assert chosen == {(operation, address) for operation, known in ADDRESSES.items() for address in known}


def test_a_cell_that_nothing_fills_is_found() -> None:
    proof = Proof()
    assert f"{ROWS[0]} | http" in proof.missing()
    for part in COLUMNS["http"]:
        proof.add(ROWS[0].name, "http", part)
    assert f"{ROWS[0]} | http" not in proof.missing()
    assert f"{ROWS[1]} | http" in proof.missing()


def test_every_cell_is_filled(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.stash.get(PROVED, Proof()).missing() == {}
