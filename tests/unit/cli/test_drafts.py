"""Tests of drafts read from options and files; `commands` tests what is sent."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from tests.unit.cli.harness import DRAFT

from freight_exchange import RateRequestDraft
from freight_exchange.cli.drafts import build_draft, reject_past_arrival
from freight_exchange.platform import clock


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(file: str) -> Any:
    return build_draft("RateRequestDraft", {"file": file})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"arrival": "soon"},
            "arrival must be a date such as 2027-03-01 or '2027-03-01 17:00', not 'soon'; nothing was",
        ),
        ({"colour": "red"}, "the file has an unknown field 'colour'; the fields are commodity, type, origin"),
        ({"commodity": ...}, "still missing: commodity (--commodity); nothing was sent"),
        ({"hazardous": ...}, "still missing: hazardous (--hazardous or --not-hazardous); nothing was sent"),
    ],
)
def test_missing_or_unknown_field_is_named(change: dict[str, Any], message: str) -> None:
    fields = {name: value for name, value in (DRAFT | change).items() if value is not ...}
    Path("draft.json").write_text(json.dumps(fields))
    with pytest.raises(click.UsageError) as caught:
        read("draft.json")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("draft.json", b"{", "draft.json cannot be read: Expecting property name"),
        ("draft.json", b"[1]", "draft.json must hold one object with the fields"),
        ("draft.json", b"\x00", "draft.json cannot be read: "),
        ("draft.json", b"", "draft.json cannot be read: it is empty"),
        ("draft.json", b'{"notes": "M\xf6bel"}', "draft.json cannot be read: byte 13 is not UTF-8"),
        ("draft.json", b"[" * 100_000, "draft.json cannot be read: it is nested too deeply"),
        ("draft.toml", b"a=" + b"[" * 5000, "draft.toml cannot be read: it is nested too deeply"),
        ("draft.json", b'{"quantity": ' + b"9" * 5000 + b"}", "it has a number of thousands of digits"),
        ("draft.json", b'{"quantity": 2, "quantity": 3}', "draft.json cannot be read: it gives 'quantity' twice"),
        ("draft.json", b'{"quantity": null}', "the file has null for quantity: leave it out, or give a value"),
    ],
)
def test_unreadable_file_is_rejected(name: str, content: bytes, message: str) -> None:
    Path(name).write_bytes(content)
    with pytest.raises(click.UsageError) as caught:
        read(name)
    assert message in caught.value.message
    assert caught.value.message.endswith("nothing was sent")


@pytest.mark.parametrize(
    ("name", "encoding"),
    [("draft.json", "utf-8-sig"), ("draft.json", "utf-16"), ("draft.toml", "utf-8-sig"), ("DRAFT.TOML", "utf-8")],
)
def test_file_written_on_windows_is_read(name: str, encoding: str) -> None:
    text = json.dumps(DRAFT)
    if name.lower().endswith("toml"):
        text = "\r\n".join(f"{field} = {json.dumps(value)}" for field, value in DRAFT.items())
    Path(name).write_bytes(text.encode(encoding))
    draft = read(name)
    assert isinstance(draft, RateRequestDraft)
    assert draft.commodity == "Ceramic tiles"


def test_standard_input_may_begin_with_byte_order_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeff" + json.dumps(DRAFT)))
    assert read("-").quantity == 20
    with pytest.raises(click.UsageError, match="standard input cannot be read: it is empty"):
        read("-")


def test_null_in_file_is_rejected_even_if_option_is_given() -> None:
    Path("offer.json").write_text('{"amount": null}')
    with pytest.raises(click.UsageError, match="the file has null for amount"):
        build_draft("Offer", {"file": "offer.json", "amount": "5", "currency": "USD"})


def test_arrival_is_past_once_its_day_is_over_in_every_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wall_time", datetime(2026, 11, 24, 11, 59, tzinfo=UTC).timestamp)
    for arrival in (datetime(2026, 11, 23), datetime(2026, 11, 24), None, "soon"):
        reject_past_arrival(arrival, past=False)
    monkeypatch.setattr(clock, "wall_time", datetime(2026, 11, 24, 12, 0, tzinfo=UTC).timestamp)
    with pytest.raises(click.UsageError, match="the arrival 2026-11-23 is in the past: correct it, or give --past"):
        reject_past_arrival(datetime(2026, 11, 23, 23, 59), past=False)
    reject_past_arrival(datetime(2026, 11, 23), past=True)
