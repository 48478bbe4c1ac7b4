"""Tables and objects, as people and programs are given them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest
from tests.unit.cli.rig import Shell, on_a_terminal
from tests.unit.cli.rig import plain as screen

from freight_exchange import Listing, Offer
from freight_exchange.cli.render.tables import Column, plain, said, show_details, show_json, show_table

COLUMNS: Sequence[Column[dict[str, Any]]] = (
    Column("INDEX", lambda row: row["index"], right=True),
    Column("NAME", lambda row: row["name"]),
    Column("NOTES", lambda row: row["notes"], spare=2),
    Column("AMOUNT", lambda row: row["amount"], right=True, spare=1),
)
ROWS = [
    {"index": 1, "name": "[red]Ti\x1bles", "notes": "n" * 30, "amount": Decimal("12.50")},
    {"index": 20, "name": "瓷砖", "notes": None, "amount": None},
]


def shown(monkeypatch: pytest.MonkeyPatch, columns: int | None, table: Sequence[Column[Any]] = COLUMNS) -> str:
    """The table, on a terminal of so many columns, or through a pipe."""
    stream = io.StringIO()
    if columns is not None:
        stream.isatty = lambda: True  # type: ignore[method-assign]  # it is a terminal, for this once
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", stream)
    show_table(ROWS, table, nothing="nothing")
    return stream.getvalue()


def test_through_a_pipe_a_table_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, None) == (
        f"INDEX  NAME            NOTES{' ' * 25}  AMOUNT\n    1  [red]Ti\\x1bles  {'n' * 30}   12.50\n   20  瓷砖\n"
    )


def test_on_a_terminal_it_looks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = shown(monkeypatch, 100)
    assert "\x1b[1m" in wide
    assert screen(wide) == shown(monkeypatch, None)


def test_where_there_is_no_room_columns_give_way_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow = screen(shown(monkeypatch, 40))
    assert "n" * 30 not in narrow
    assert narrow.splitlines()[0] == "INDEX  NAME            AMOUNT"
    assert capsys.readouterr().err == "The terminal has no room for NOTES.\n"
    tiny = screen(shown(monkeypatch, 16))
    assert max(map(len, tiny.splitlines())) <= 16
    assert capsys.readouterr().err == "The terminal has no room for NOTES, AMOUNT.\n"
    # What is needed goes on in the next line, and is not cut.
    assert "".join(line[7:].strip() for line in tiny.splitlines()[1:]).startswith("[red]Ti\\x1bles")


def test_a_text_is_folded_before_another_column_gives_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folding = [attrs.evolve(column, folds=column.title == "NOTES") for column in COLUMNS]
    table = screen(shown(monkeypatch, 50, folding))
    assert table.splitlines()[0].split() == ["INDEX", "NAME", "NOTES", "AMOUNT"]
    assert max(map(len, table.splitlines())) <= 50
    assert table.count("n") == 30
    assert capsys.readouterr().err == ""
    # But not into single letters.
    assert screen(shown(monkeypatch, 40, folding)).splitlines()[0].split() == ["INDEX", "NAME", "AMOUNT"]


def test_a_number_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = [attrs.evolve(column, spare=0) for column in COLUMNS if column.title != "NAME"]
    for columns in (40, 20, 8):
        digits = re.findall(r"[0-9.]", screen(shown(monkeypatch, columns, needed)))
        assert sorted(digits) == sorted("1" + "20" + "12.50")


def test_on_forty_columns_each_list_can_be_read(shell: Shell) -> None:
    shell.publish()
    shell("bids", "submit", "1", "--amount", "1840.50", "--currency", "USD", "--terms", "valid 14 days", "--yes")
    lists = {"requests": "12.800 W/M", "bids": "1840.50 USD", "routes": "2030-01-11 10:00 CET", "offers": "1840.50 USD"}
    for noun, whole in lists.items():
        if noun == "offers":
            shell.become(shell.exchange.shipper)
        status, told = on_a_terminal([noun, "list"], {}, columns=40)
        table = told.partition("The terminal has no room for")[0]
        assert (status, whole in table) == (0, True), told
        # Each record has a line, and a second one where a text is folded once.
        assert len(table.splitlines()) <= 4, told


def test_details_leave_out_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    show_details([("name", "Ti\x1bles"), ("weight", None), ("hazardous", False), ("notes", "")])
    assert capsys.readouterr().out == "name       Ti\\x1bles\nhazardous  no\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (Decimal("1E+3"), "1000"),
        (date(2027, 3, 1), "2027-03-01"),
        (datetime(2027, 3, 1, 17), "2027-03-01 17:00"),
        (datetime(2027, 3, 1, 17, tzinfo=UTC), "2027-03-01 17:00 UTC"),
        ("a\x9bb", "a\\x9bb"),
    ],
)
def test_what_people_read(value: object, text: str) -> None:
    assert said(value) == text


def test_a_record_within_a_record_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    listing = Listing(
        index=4,
        need_date=datetime(2027, 3, 1),
        offers=(Offer(id=7, amount=Decimal("1840.50"), rates={"Ocean": Decimal("1700.00")}),),
        extra={"urgency": "high"},
    )
    show_json(listing)
    line = capsys.readouterr().out
    assert '"amount":1840.50,' in line
    told = json.loads(line)
    assert told["need_date"] == "2027-03-01 00:00:00"
    assert told["offers"][0]["rates"] == {"Ocean": 1700.00}
    assert told["extra"] == {"urgency": "high"}
    assert told["contact"] is None
    assert plain(listing)["offers"][0]["id"] == 7
