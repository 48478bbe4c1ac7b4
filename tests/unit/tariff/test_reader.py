"""Tests of tariff files: their columns, and errors in their rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from freight_exchange import RequestType, ValidationError
from freight_exchange.tariff import Tariff, Unit

HEADER = "type,origin,destination,currency,kind,charge,unit,from,rate,minimum,valid_from,valid_until,hazardous,terms"
ROW = "Shipping,Hong Kong,Oslo,USD,freight,Freight,m3,,10,,,,,"


def write(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    file = folder / "tariff.csv"
    file.write_bytes(text.encode(encoding))
    return file


def problem(folder: Path, text: str, encoding: str = "utf-8") -> str:
    with pytest.raises(ValidationError) as caught:
        Tariff.read(write(folder, text, encoding), weight_per="unit")
    assert caught.value.field == "path"
    return str(caught.value)


def with_cell(column: str, cell: str) -> str:
    cells = dict(zip(HEADER.split(","), ROW.split(","), strict=True))
    return f"{HEADER}\n{','.join((cells | {column: cell}).values())}\n"


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("type", "Rail", "must be one of 'Shipping', 'Air Freight', 'Trucking', 'Warehousing', not 'Rail'"),
        ("type", "", "is empty"),
        ("origin", "Hong Kong||Shenzhen", "has an empty place between two |"),
        ("destination", "*|Oslo", "has * beside other places"),
        ("currency", "US$", "must be three letters such as USD, not 'US$'"),
        ("kind", "fee", "must be freight or surcharge, not 'fee'"),
        ("charge", "", "is empty"),
        ("unit", "cbm", "must be one of revenue ton, chargeable kg, kg, m3, package, shipment, percent, not 'cbm'"),
        ("unit", "chargeable kg", "Shipping has no chargeable kg; use revenue ton, kg or m3"),
        ("unit", "percent", "only a surcharge can be a percentage, of the freight"),
        ("from", "-1", "must not be negative, not '-1'"),
        ("rate", "", "is empty"),
        ("rate", "1.2.3", "must be a number such as 1840.50, not '1.2.3'"),
        ("rate", "NaN", "must be a number such as 1840.50"),
        ("from", "45 kg", "must be a number such as 1840.50, not '45 kg'"),
        ("minimum", "$75", "must be a number such as 1840.50, not '$75'"),
        ("rate", "0", "must be above zero for freight, not 0"),
        ("rate", "-5", "must be above zero for freight, not -5"),
        ("minimum", "0", "must be greater than zero, not 0"),
        ("valid_from", "1.3.2027", "must be a date such as 2027-03-01, not '1.3.2027'"),
        ("hazardous", "maybe", "must be yes or no, not 'maybe'"),
    ],
)
def test_bad_cell_is_named_by_line_and_column(tmp_path: Path, column: str, cell: str, message: str) -> None:
    assert f"tariff.csv: line 2, column {column}: {message}" in problem(tmp_path, with_cell(column, cell))


def test_all_bad_cells_are_named_at_once(tmp_path: Path) -> None:
    rows = [ROW.replace("10", "x"), ROW, ROW.replace("USD", "dollars").replace("m3", "cbm")]
    message = problem(tmp_path, "\n".join([HEADER, *rows]))
    assert [part.partition(":")[0] for part in message.removeprefix("tariff.csv: ").split("; ")] == [
        "line 2, column rate",
        "line 4, column currency",
        "line 4, column unit",
    ]


def test_many_problems_are_counted(tmp_path: Path) -> None:
    assert problem(tmp_path, "\n".join([HEADER, *[ROW.replace("10", "x")] * 23])).endswith("; and 3 more")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.replace("rate,", ""), "line 1 lacks column 'rate'; the columns are type, origin"),
        (HEADER.replace("minimum", "min"), "line 1 has unknown column 'min'"),
        (f"{HEADER},rate", "line 1 repeats column 'rate'"),
        ("", "line 2 lacks column 'type', 'origin'"),  # the first row that is not empty
    ],
)
def test_wrong_header_is_named(tmp_path: Path, header: str, message: str) -> None:
    assert message in problem(tmp_path, f"{header}\n{ROW}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER, "there is no row of rates"),
        (f"{HEADER}\n{ROW},,extra\n", "line 2 has 16 cells for 14 columns"),
        (f'{HEADER}\n{ROW}\n"Shipping', "line 3 is not CSV: unexpected end of data"),
    ],
)
def test_file_that_is_no_tariff_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert message in problem(tmp_path, text)


def test_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    assert "tariff.csv is not UTF-8 at byte" in problem(tmp_path, f"{HEADER}\n{ROW.replace('Oslo', '深圳')}", "gbk")


def test_file_as_spreadsheets_save_it_is_read(tmp_path: Path) -> None:
    text = f"\ufeff{HEADER},comment\r\n\r\n{ROW},ours\r\n{',' * 14}\r\n".replace(",", ";")
    (rule,) = Tariff.read(write(tmp_path, text), weight_per="total").rules
    assert (rule.line, rule.type, rule.unit, rule.rate) == (3, RequestType.SHIPPING, Unit.M3, Decimal(10))


def test_short_row_leaves_the_last_cells_empty(tmp_path: Path) -> None:
    (rule,) = Tariff.read(write(tmp_path, f"{HEADER}\n{ROW.rstrip(',')}"), weight_per="unit").rules
    assert (rule.minimum, rule.terms, rule.hazardous) == (None, None, None)


FREIGHT = "Shipping,{lane},USD,freight,Freight,{unit},{start},10,,{days},{hazardous},"


def rows(*changes: dict[str, str]) -> str:
    defaults = {"lane": "A,B", "unit": "m3", "start": "0", "days": ",", "hazardous": ""}
    return "\n".join([HEADER, *(FREIGHT.format(**(defaults | change)) for change in changes)])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {}, "lines 2 and 3 both price Freight on one lane and day from the same break"),
        ({"lane": "a|C,b"}, {"lane": " A ,B|D"}, "from the same break"),
        ({}, {"unit": "kg", "start": "5"}, "with different values of unit"),
        ({"days": "2027-01-01,2027-06-30"}, {"days": "2027-06-30,"}, "from the same break"),
        ({"hazardous": "yes"}, {}, "from the same break"),
    ],
)
def test_rows_that_contradict_each_other_are_refused(
    tmp_path: Path, first: dict[str, str], second: dict[str, str], message: str
) -> None:
    assert message in problem(tmp_path, rows(first, second))


@pytest.mark.parametrize(
    "change",
    [
        {"start": "5"},
        {"lane": "*,B", "unit": "kg"},
        {"lane": "A,C"},
        {"days": "2028-01-01,"},
        {"hazardous": "yes"},
    ],
)
def test_rows_that_never_meet_stand_together(tmp_path: Path, change: dict[str, str]) -> None:
    text = rows({"days": ",2027-12-31", "hazardous": "no"}, {"days": ",2027-12-31", "hazardous": "no"} | change)
    assert len(Tariff.read(write(tmp_path, text), weight_per="unit").rules) == 2


def test_freight_and_surcharge_of_one_name_contradict(tmp_path: Path) -> None:
    surcharge = ROW.replace("Hong Kong,Oslo", "A,B").replace("freight,", "surcharge,")
    assert "different values of kind" in problem(tmp_path, f"{rows({})}\n{surcharge}")


def test_end_before_beginning_and_break_of_a_lump_sum_are_refused(tmp_path: Path) -> None:
    assert "column valid_until: 2026-01-01 is before valid_from, 2027-01-01" in problem(
        tmp_path, rows({"days": "2027-01-01,2026-01-01"})
    )
    assert "column from: a rate per shipment has no breaks" in problem(
        tmp_path, rows({"unit": "shipment", "start": "2"})
    )


def test_every_column_is_documented(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "tariff.md").read_text(encoding="utf-8")
    columns = problem(tmp_path, "nonsense\n1").rpartition("the columns are ")[2].split(", ")
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")] == [*columns, "comment"]


def test_weight_reading_is_one_of_two_words(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="weight_per must be 'unit' or 'total', not 'each'"):
        Tariff([], weight_per="each")  # type: ignore[arg-type]


def test_rules_of_code_are_checked_too(tmp_path: Path) -> None:
    tariff = Tariff.read(write(tmp_path, f"{HEADER}\n{ROW}"), weight_per="unit")
    with pytest.raises(ValidationError, match="from the same break"):
        Tariff([*tariff.rules, *tariff.rules], weight_per="unit")
