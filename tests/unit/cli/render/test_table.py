"""Tests of tables."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import attrs
import pytest
from tests.unit.cli.harness import SUBMIT, Shell, render_screen

from freight_exchange.cli.render.table import Column, print_table

COLUMNS: Sequence[Column[dict[str, Any]]] = (
    Column("INDEX", lambda row: row["index"], align_right=True),
    Column("NAME", lambda row: row["name"]),
    Column("NOTES", lambda row: row["notes"], drop_order=2),
    Column("AMOUNT", lambda row: row["amount"], align_right=True, drop_order=1),
)
ROWS = [
    {"index": 1, "name": "[red]Ti\x1bles", "notes": "n" * 30, "amount": Decimal("12.50")},
    {"index": 20, "name": "瓷砖", "notes": None, "amount": None},
    {"index": 3, "name": "e\u0301toile", "notes": "n", "amount": None},
]


def print_to(monkeypatch: pytest.MonkeyPatch, width: int | None, columns: Sequence[Column[Any]] = COLUMNS) -> str:
    """Return the table as printed to a terminal of a width, or to a pipe."""
    stream = io.StringIO()
    if width is not None:
        stream.isatty = lambda: True  # type: ignore[method-assign]  # a terminal for this call
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", stream)
    print_table(ROWS, columns, empty_message="nothing")
    return stream.getvalue()


def test_pipe_gets_aligned_table_of_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert print_to(monkeypatch, None) == (
        f"INDEX  NAME            NOTES{' ' * 25}  AMOUNT\n"
        f"    1  [red]Ti\\x1bles  {'n' * 30}   12.50\n"
        "   20  瓷砖\n"
        f"    3  e\u0301toile{' ' * 8}  n\n"
    )


def test_terminal_shows_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    output = print_to(monkeypatch, 100)
    assert "\x1b[1m" in output
    assert render_screen(output) == print_to(monkeypatch, None)


def test_narrow_terminal_drops_columns_and_names_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow = render_screen(print_to(monkeypatch, 40))
    assert "n" * 30 not in narrow
    assert narrow.splitlines()[0] == "INDEX  NAME            AMOUNT"
    assert capsys.readouterr().err == "The terminal has no room for NOTES.\n"
    tiny = render_screen(print_to(monkeypatch, 16))
    assert max(map(len, tiny.splitlines())) <= 16
    assert capsys.readouterr().err == "The terminal has no room for NOTES, AMOUNT.\n"
    # A required column wraps and is not cut.
    assert "".join(line[7:].strip() for line in tiny.splitlines()[1:]).startswith("[red]Ti\\x1bles")


def test_text_wraps_before_another_column_is_dropped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [attrs.evolve(column, wraps=column.title == "NOTES") for column in COLUMNS]
    table = render_screen(print_to(monkeypatch, 50, columns))
    assert table.splitlines()[0].split() == ["INDEX", "NAME", "NOTES", "AMOUNT"]
    assert max(map(len, table.splitlines())) <= 50
    assert table.count("n") == 31
    assert capsys.readouterr().err == ""
    # Below the least width it is dropped.
    assert render_screen(print_to(monkeypatch, 40, columns)).splitlines()[0].split() == ["INDEX", "NAME", "AMOUNT"]


@pytest.mark.parametrize("width", [40, 20, 8])
def test_number_is_never_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    columns = [attrs.evolve(column, drop_order=0) for column in COLUMNS if column.title != "NAME"]
    digits = re.findall(r"[0-9.]", render_screen(print_to(monkeypatch, width, columns)))
    assert sorted(digits) == sorted("1" + "20" + "3" + "12.50")


def test_lists_are_readable_on_forty_columns(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.publish()
    shell(*SUBMIT, "--terms", "valid 14 days", "--yes")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    lists = {"requests": "12.800 W/M", "bids": "1840.50 USD", "routes": "2030-01-11 10:00 CET", "offers": "1840.50 USD"}
    for noun, value in lists.items():
        if noun == "offers":
            shell.use_account(shell.exchange.shipper)
        result = shell(noun, "list")
        table = render_screen(result.out)
        assert (result.status, value in table) == (0, True), table
        assert max(map(len, table.splitlines())) <= 40, table
        # Each record has a line, and a second one where a text wraps.
        assert len(table.splitlines()) <= 4, table
