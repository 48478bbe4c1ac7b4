"""Tests of `tariff check`."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tests.unit.cli.harness import TILES, Shell

from freight_exchange.cli.exit_status import Status

HEADER = "type,origin,destination,currency,kind,charge,unit,rate"


@pytest.fixture
def tariff(tmp_path: Path) -> Path:
    file = tmp_path / "tariff.csv"
    file.write_text(f"{HEADER}\nShipping,Hong Kong,Long Beach,USD,freight,Ocean Freight,revenue ton,62.40\n")
    return file


def test_tariff_is_checked_without_an_exchange(shell: Shell, tariff: Path) -> None:
    result = shell("tariff", "check", str(tariff), "--weight", "unit")
    assert (result.status, result.out) == (0, f"{tariff}: 1 rows, all valid.\n")
    assert not shell.exchange.audit_log.calls


def test_quotes_for_open_requests_are_shown_and_nothing_is_sent(shell: Shell, tariff: Path) -> None:
    quoted, refused = shell.publish(), shell.publish(attrs.evolve(TILES, destination="Oslo"))
    result = shell("tariff", "check", str(tariff), "--weight", "unit", "--requests")
    rows = {row["REQUEST"]: row for row in result.rows}
    assert rows[str(quoted)]["AMOUNT"] == "798.72 USD"
    assert rows[str(quoted)]["CHARGES"] == "Ocean Freight 798.72"
    assert "no quote: there is no freight rate for Shipping from Hong Kong to Oslo" in result.out
    printed = shell("tariff", "check", str(tariff), "--weight", "unit", "--requests", "--json").objects
    answers = {answer["request"]: answer for answer in printed}
    assert answers[quoted]["amount"] == "798.72"
    assert "no freight rate" in answers[refused]["reason"]
    assert not shell.exchange.audit_log.calls_to("POST", "quote/submitoffer")


def test_wrong_tariff_is_refused_by_line_and_column(shell: Shell, tariff: Path) -> None:
    tariff.write_text(f"{HEADER}\nRail,Hong Kong,Long Beach,USD,freight,Ocean Freight,revenue ton,x\n")
    result = shell("tariff", "check", str(tariff), "--weight", "unit")
    assert (result.status, result.out) == (Status.USAGE, "")
    assert "line 2, column type: must be one of" in result.err
    assert "line 2, column rate: must be a number such as 1250.50, not 'x'" in result.err


def test_weight_and_file_are_required(shell: Shell, tmp_path: Path, tariff: Path) -> None:
    assert shell("tariff", "check", str(tariff)).status == Status.USAGE
    assert shell("tariff", "check", str(tmp_path / "none.csv"), "--weight", "unit").status == Status.USAGE
