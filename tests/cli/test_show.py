"""Tests of tables, records, JSON and CSV, as a terminal, a pipe or a file shows them."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.cli.harness import SUBMIT, Shell, finish, locate_program, render_screen, start

from freight_sandbox import Cargo

LISTS = {"requests": "12.800 W/M", "bids": "1840.50 USD", "routes": "2030-01-11 10:00 CET", "offers": "1840.50 USD"}


def test_terminal_and_pipe_show_the_same_table(shell: Shell) -> None:
    for name in ("[red]Ti\x1bles", "瓷砖", "e\u0301toile"):
        shell.publish(Cargo(commodityname=name))
    piped = shell("requests", "list").out
    assert "  [red]Ti\\x1bles  Hong Kong" in piped
    output = shell("requests", "list", columns=200).out
    assert "\x1b[1m" in output
    assert render_screen(output) == piped


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_narrow_terminal_drops_columns_and_names_them(shell: Shell, columns: int) -> None:
    shell.publish()
    shell(*SUBMIT, "--terms", "valid 14 days", "--yes")
    for noun, value in LISTS.items():
        if noun == "offers":
            shell.use_account(shell.exchange.shipper)
        result = shell(noun, "list", columns=columns)
        table = render_screen(result.out)
        assert (result.status, value in table) == (0, True), table
        assert max(map(len, table.splitlines())) <= columns, table
        # Each record has a line, and a second one where a text wraps.
        assert len(table.splitlines()) <= 4, table
        dropped = re.findall(r"The terminal has no room for (.*)\.", result.err)
        assert all(title not in table.splitlines()[0].split() for one in dropped for title in one.split(", "))
        assert dropped or columns > 40


@pytest.mark.parametrize("columns", [20, 8])
def test_number_is_never_cut(shell: Shell, columns: int) -> None:
    table = render_screen(shell("currencies", columns=columns).out)
    numbers = "".join(re.findall(r"\d", table))
    assert sorted(numbers) == sorted("840978344156826392702")


def test_control_characters_are_escaped_in_each_format(shell: Shell) -> None:
    name = "[bold]Ti\x1b[31mles\u202e\x7f\n"
    shell.publish(Cargo(commodityname=name, notes="\x07"))
    for command in (
        ["list"], ["get", "1"], ["list", "--json"], ["list", "--csv"], ["watch", "--start", "backfill", "--count", "1"]
    ):  # fmt: skip
        result = shell("requests", *command)
        assert result.status == 0
        assert "[bold]Ti" in result.out
        assert result.out.replace("\n", "").isprintable()
    assert shell("requests", "list", "--json").objects[0]["commodity"] == name


def test_characters_that_the_encoding_lacks_are_escaped(shell: Shell) -> None:
    shell.publish(Cargo(commodityname="瓷砖"))
    shell.set("PYTHONIOENCODING", "latin-1")
    assert "\\u74f7\\u7816" in finish(start("requests", "list")).out
    line = finish(start("requests", "list", "--json")).out
    assert line.isascii()
    assert json.loads(line)["commodity"] == "瓷砖"


# CSV


def test_lists_are_printed_as_csv(shell: Shell) -> None:
    shell.publish(Cargo(weight=12, commodityname="Tiles, glazed"))
    (row,) = csv.DictReader(shell("requests", "list", "--csv").out.splitlines())
    assert (row["index"], row["commodity"], row["weight"]) == ("1", "Tiles, glazed", "12")
    assert (row["hazardous"], row["extra"], row["need_date"]) == ("false", "", "2030-01-15T00:00:00")
    assert row["chargeable.unit"] == "W/M"
    shell(*SUBMIT, "--rate", "Fuel=40.50", "--yes")
    (bid,) = csv.DictReader(shell("bids", "list", "--csv").out.splitlines())
    assert (bid["index"], bid["amount"], bid["contact.name"]) == ("1", "1840.50", "")
    shell.use_account(shell.exchange.shipper)
    shell.publish()
    without, offer = csv.DictReader(shell("offers", "list", "--csv").out.splitlines())
    assert (without["index"], without["offer.amount"]) == ("2", "")
    assert (offer["index"], offer["offer.amount"], offer["offer.rates"]) == ("1", "1840.50", '{"Fuel": "40.50"}')
    assert shell("carriers", "--csv").out.startswith("index,name,extra\n")


@pytest.mark.parametrize("mark", ["=", "+", "-", "@", "\t=", "＝", "＋", "－", "＠"])  # noqa: RUF001  # wide forms
def test_no_text_becomes_a_formula(shell: Shell, mark: str) -> None:
    """A spreadsheet reads the full-width forms as well (fault 38)."""
    shell.publish(Cargo(commodityname=f"{mark}HYPERLINK(1)", origin="-5"))
    shell(*SUBMIT, "--rate", f"{mark}fee=5", "--yes")
    (row,) = csv.DictReader(shell("requests", "list", "--csv").out.splitlines())
    assert row["commodity"] == f"'{mark.replace(chr(9), ' ')}HYPERLINK(1)"
    assert row["origin"] == "-5"
    shell.use_account(shell.exchange.shipper)
    # A column is named by the service too.
    assert shell("offers", "export", "--csv").out.splitlines()[0].partition("terms,")[2].startswith("'")


def test_file_of_csv_opens_in_a_spreadsheet(shell: Shell) -> None:
    """Excel takes a file without the mark for one in the code page of the country (fault 38)."""
    shell.publish(Cargo(commodityname="Möbel"))
    with Path("list.csv").open("wb") as file:
        command = [*locate_program(), "requests", "list", "--csv"]
        subprocess.run(command, stdout=file, check=True, env={**os.environ, "PYTHONUTF8": "1"})
    assert Path("list.csv").read_bytes().startswith(b"\xef\xbb\xbfindex,")
    assert "Möbel" in Path("list.csv").read_text(encoding="utf-8-sig")
    assert not shell("requests", "list", "--csv").out.startswith("\ufeff")
