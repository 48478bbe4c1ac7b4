"""Tests of files: drafts in JSON and TOML, import of requests from spreadsheets, and tariffs."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import attrs
import pytest
from tests.cli.harness import DRAFT, TILES, Shell
from tools.pages import ROOT

from freight_exchange.cli.run import Status
from freight_sandbox import Fault
from freight_sandbox.faults import json_reply

EXAMPLE = ROOT / "examples" / "requests.csv"
HEADER = "commodity,type,origin,destination,arrival,packaging,quantity,length,width,height,weight,incoterm,hazardous"
ROW = "Möbel,Shipping,Hong Kong,Long Beach,2036-03-01,pallet,20,1.2,1.0,0.9,640,FOB,no"
TARIFF = "type,origin,destination,currency,kind,charge,unit,rate"


@pytest.fixture
def shipper(shell: Shell) -> Shell:
    """Shell of the shipper, beside a copy of the example."""
    shell.use_account(shell.exchange.shipper)
    Path("requests.csv").write_bytes(EXAMPLE.read_bytes())
    return shell


# Drafts


@pytest.mark.parametrize(
    ("name", "encoding"),
    [("draft.json", "utf-8-sig"), ("draft.json", "utf-16"), ("draft.toml", "utf-8-sig"), ("DRAFT.TOML", "utf-8")],
)
def test_file_written_on_windows_is_read(shipper: Shell, name: str, encoding: str) -> None:
    text = json.dumps(DRAFT)
    if name.lower().endswith("toml"):
        text = "\r\n".join(f"{field} = {json.dumps(value)}" for field, value in DRAFT.items())
    Path(name).write_bytes(text.encode(encoding))
    assert shipper("requests", "publish", "--file", name, "--yes").status == 0
    assert shipper("requests", "publish", "--file", "-", "--yes", piped="\ufeff" + json.dumps(DRAFT)).status == 0


# Import


def test_file_is_published_once(shipper: Shell) -> None:
    result = shipper("requests", "import", "requests.csv", "--yes")
    assert result.status == 0, result.err
    assert result.out.splitlines()[0] == "line 2, Ceramic tiles: published as FX000001"
    assert result.out.endswith("5 of 5 rows are published.\n")
    again = shipper("requests", "import", "requests.csv", "--yes", "--json")
    assert (again.status, again.out) == (0, "")
    assert len(shipper.exchange.audit_log.publications) == 5


def test_import_is_confirmed(shipper: Shell) -> None:
    declined = shipper("requests", "import", "requests.csv", typed="n\n")
    assert "Publish 5 of 5 requests in requests.csv? [y/N]:" in declined.err
    assert declined.status == Status.USAGE
    assert shipper("requests", "import", "requests.csv").status == Status.USAGE
    assert shipper("requests", "import").status == Status.USAGE
    assert shipper.exchange.audit_log.publications == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",40,", ",forty,", "line 3, column quantity: must be a whole number, not 'forty'"),
        (",FOB,", ",F,", "line 3, column incoterm: must be three letters"),
        ("2036-03-01", "2020-03-01", "line 2 of requests.csv: the arrival 2020-03-01 is in the past: correct it, or"),
        (",0.8,18,", ',0.8,"1,800",', "line 3, column weight: must be 1.800 or 1800, as '1,800' may mean either"),
        (",0.8,18,", ',0.8,"1,80,0",', "line 3, column weight: must be a number such as 1840.50, not '1,80,0'"),
    ],
)
def test_wrong_row_is_refused_before_anything_is_sent(shipper: Shell, old: str, new: str, message: str) -> None:
    Path("requests.csv").write_text(EXAMPLE.read_text().replace(old, new))
    result = shipper("requests", "import", "requests.csv", "--yes")
    assert result.status == Status.USAGE
    assert message in result.err
    # Each problem has a line of its own.
    assert all(line.count("column") <= 1 for line in result.err.splitlines())
    assert result.err.endswith("nothing was sent\n")
    assert not shipper.exchange.audit_log.calls
    assert not Path("requests.csv.progress").exists()


def test_refused_rows_end_with_their_status(shipper: Shell) -> None:
    no = json_reply(400, {"message": "there is no such port"})
    shipper.exchange.faults.add(Fault(name="refused", path="quote/submitrequest", processed=False, times=1, mutate=no))
    result = shipper("requests", "import", "requests.csv", "--yes", "--json")
    assert result.status == Status.REFUSED
    assert [row["request"] for row in result.objects] == [None, 1, 2, 3, 4]
    assert "1 rows were refused" in result.err


def test_check_needs_no_login_and_sends_nothing(shipper: Shell) -> None:
    """Fault 43: a file is checked before the day on which it is published."""
    shipper.clear_environment()
    checked = shipper("requests", "import", "requests.csv", "--check")
    assert (checked.status, checked.out) == (0, "requests.csv: 5 rows, all valid. Nothing was sent.\n")
    assert shipper("requests", "import", "requests.csv", "--check", "--json").objects == [
        {"file": "requests.csv", "rows": 5}
    ]
    Path("requests.csv").write_text(EXAMPLE.read_text().replace(",18,FOB", ",1,FREE").replace(",640,", ",6,"))
    wrong = shipper("requests", "import", "requests.csv", "--check")
    assert wrong.status == Status.USAGE
    assert "line 3, column incoterm: must be three letters" in wrong.err
    Path("requests.csv").write_text(EXAMPLE.read_text().replace(",640,", ",6,"))
    assert "line 2: check the weight: about 5.56 kg/m3" in shipper("requests", "import", "requests.csv", "--check").err
    assert not shipper.exchange.audit_log.calls
    assert not Path("requests.csv.progress").exists()


def test_template_is_a_file_that_can_be_published(shipper: Shell) -> None:
    """Faults 39 and 43: its arrivals are some weeks from today."""
    printed = shipper("requests", "import", "--template")
    assert (printed.status, printed.err) == (0, "")
    Path("template.csv").write_text(printed.out)
    rows = list(csv.DictReader(printed.out.splitlines()))
    today = datetime.now(UTC).date()
    assert all(timedelta(days=20) < date.fromisoformat(row["arrival"]) - today < timedelta(days=90) for row in rows)
    assert list(rows[0]) == [*HEADER.split(","), "notes"]
    published = shipper("requests", "import", "template.csv", "--yes")
    assert published.out.endswith(f"{len(rows)} of {len(rows)} rows are published.\n")


SEMICOLONS = f"{HEADER}\n{ROW}".replace(",", ";")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (f"{HEADER}\n{ROW}\n", "utf-8-sig"),
        (f"{HEADER}\r\n{ROW}\r\n", "cp1252"),
        (f"sep=,\r\n{HEADER}\r\n{ROW}\r\n", "utf-8"),
        (SEMICOLONS, "cp1252"),
        (f"sep=;\r\n{SEMICOLONS}\r\n", "utf-8-sig"),
        (f"SEP=\t\n{SEMICOLONS}\n".replace(";", "\t"), "utf-8"),
        (SEMICOLONS.replace("1.2", "1,2").replace("0.9", "0,900").replace("640", "640,0"), "cp1252"),
        (SEMICOLONS.replace("640", "0.640,00").replace("0.640", "640"), "utf-8"),
    ],
    ids=["mark", "cp1252", "sep=,", "semicolons", "sep=;", "tabs", "decimal commas", "a comma at the end"],
)
def test_file_of_a_spreadsheet_is_read(shipper: Shell, text: str, encoding: str) -> None:
    """Fault 38: separators, decimal commas and encodings as spreadsheets of several countries write them."""
    Path("sheet.csv").write_bytes(text.encode(encoding))
    result = shipper("requests", "import", "sheet.csv", "--yes")
    assert result.status == 0, result.err
    (change,) = shipper.exchange.audit_log.changes
    cargo = change.state.cargo
    assert cargo.commodityname == "Möbel"
    assert [float(size) for size in (cargo.length, cargo.width, cargo.height, cargo.weight)] == [1.2, 1, 0.9, 640]


@pytest.mark.parametrize(
    ("cell", "weight"),
    [("1.250,5", "1250.5"), ("1,250.5", "1250.5"), ("1,250,000", "1250000"), ("12,75", "12.75"), ("0,125", "0.125")],
)
def test_comma_with_one_meaning_is_read(shipper: Shell, cell: str, weight: str) -> None:
    Path("sheet.csv").write_text(SEMICOLONS.replace("640", cell))
    assert shipper("requests", "import", "sheet.csv", "--yes").status == 0
    (change,) = shipper.exchange.audit_log.changes
    assert str(change.state.cargo.weight) == weight


@pytest.mark.parametrize(("name", "encoding"), [("深圳", "gbk"), ("Łódź", "cp1250"), ("Möbel", "utf-16")])
def test_text_of_another_encoding_is_not_guessed(shipper: Shell, name: str, encoding: str) -> None:
    Path("sheet.csv").write_bytes(f"{HEADER}\n{ROW}\n".replace("Möbel", name).encode(encoding))
    result = shipper("requests", "import", "sheet.csv", "--check")
    assert result.status == Status.USAGE
    assert "sheet.csv is not UTF-8 at byte" in result.err


# Tariffs


@pytest.fixture
def tariff(tmp_path: Path) -> Path:
    file = tmp_path / "tariff.csv"
    file.write_text(f"{TARIFF}\nShipping,Hong Kong,Long Beach,USD,freight,Ocean Freight,revenue ton,62.40\n")
    return file


def test_tariff_is_checked_without_an_exchange(shell: Shell, tariff: Path) -> None:
    result = shell("tariff", "check", str(tariff), "--weight", "unit")
    assert (result.status, result.out) == (0, f"{tariff}: 1 rows, all valid.\n")
    tariff.write_text(tariff.read_text().replace(",", ";").replace("62.40", "62,40"), encoding="cp1252")
    assert shell("tariff", "check", str(tariff), "--weight", "unit").status == 0
    assert not shell.exchange.audit_log.calls


def test_quotes_for_open_requests_are_shown_and_nothing_is_sent(shell: Shell, tariff: Path) -> None:
    quoted, refused = shell.publish(), shell.publish(attrs.evolve(TILES, destination="Oslo"))
    result = shell("tariff", "check", str(tariff), "--weight", "unit", "--requests")
    assert f"{quoted}  Shipping  Hong Kong to Long Beach  798.72 USD  Ocean Freight 798.72\n" in result.out
    assert "no quote: there is no freight rate for Shipping from Hong Kong to Oslo" in result.out
    printed = shell("tariff", "check", str(tariff), "--weight", "unit", "--requests", "--json").objects
    answers = {answer["request"]: answer for answer in printed}
    assert answers[quoted]["amount"] == "798.72"
    assert "no freight rate" in answers[refused]["reason"]
    assert not shell.exchange.audit_log.calls_to("POST", "quote/submitoffer")


def test_wrong_tariff_is_refused_by_line_and_column(shell: Shell, tariff: Path) -> None:
    tariff.write_text(f"{TARIFF}\nRail,Hong Kong,Long Beach,USD,freight,Ocean Freight,revenue ton,x\n")
    result = shell("tariff", "check", str(tariff), "--weight", "unit")
    assert (result.status, result.out) == (Status.USAGE, "")
    assert "line 2, column type: must be one of" in result.err
    assert "line 2, column rate: must be a number such as 1840.50, not 'x'" in result.err
    assert shell("tariff", "check", str(tariff)).status == Status.USAGE
    assert shell("tariff", "check", "none.csv", "--weight", "unit").status == Status.USAGE
