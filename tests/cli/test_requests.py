"""Tests of `requests list`, `get`, `publish` and `watch`."""

from __future__ import annotations

import json
import re
import time
from decimal import Decimal
from pathlib import Path

import pytest
from tests.cli.harness import DRAFT, TILES, Shell

from freight_exchange.cli.run import Status
from freight_sandbox import Cargo

BATTERIES = Cargo(
    commodityname="Lithium batteries",
    requesttype="Air Freight",
    origin="Shenzhen",
    destination="Frankfurt",
    quantity=150,
    length=Decimal("0.4"),
    width=Decimal("0.3"),
    height=Decimal("0.25"),
    weight=Decimal("12.5"),
    incoterm="DAP",
    hazardous=1,
)


class TestList:
    def test_table_shows_chargeable_quantity(self, shell: Shell) -> None:
        shell.publish(TILES)
        shell.publish(BATTERIES)
        result = shell("requests", "list")
        assert result.status == 0
        air, sea = result.rows
        assert sea == {
            "INDEX": "1", "STATUS": "Available", "REF": "FX000001", "TYPE": "Shipping", "COMMODITY": "Ceramic tiles",
            "ORIGIN": "Hong Kong", "DESTINATION": "Long Beach", "ARRIVAL": "2027-03-01", "UNITS": "20 pallets",
            "M3": "9.600", "KG": "12800", "INCOTERM": "FOB", "CHARGEABLE": "12.800 W/M",
        }  # fmt: skip
        assert (air["M3"], air["KG"], air["CHARGEABLE"]) == ("4.5000", "1875.0", "1875.0 kg")
        total = shell("requests", "list", "--weight", "total", "--type", "shipping")
        assert (total.rows[0]["KG"], total.rows[0]["CHARGEABLE"]) == ("640", "9.600 W/M")

    def test_json_has_every_digit_and_computed_values(self, shell: Shell) -> None:
        shell.publish(BATTERIES)
        shell.publish(TILES)
        sea, air = shell("requests", "list", "--json").objects
        assert (sea["index"], air["index"]) == (2, 1)
        assert air["weight"] == "12.5"
        assert air["length"] == "0.4"
        assert air["need_date"] == "2030-01-15T00:00:00"
        assert air["type"] == "Air Freight"
        assert air["hazardous"] is True
        assert air["weight_per"] == "unit"
        assert air["chargeable"] == {"amount": "1875.0", "unit": "kg", "by": "weight"}
        assert (air["gross_weight"], air["doubts"]) == ("1875.0", [])
        assert sea.keys() == air.keys()

    @pytest.mark.parametrize(
        "options",
        [
            ["--origin", "shenzhen"],
            ["--destination", "Frankfurt", "--destination", "Munich"],
            ["--type", "air freight"],
            ["--type", "air-freight"],
            ["--type", "AIR_FREIGHT"],
            ["--incoterm", "dap"],
            ["--commodity", "lithium  batteries"],
            ["--hazardous"],
            ["--max-volume", "5"],
            ["--origin", "Shenzhen", "--need-by", "2031-01-01"],
            ["--max-weight", "100"],
            ["--limit", "1"],
            ["--state", "open", "--limit", "1"],
        ],
        ids=" ".join,
    )
    def test_options_filter_requests(self, shell: Shell, options: list[str]) -> None:
        shell.publish(TILES)
        shell.publish(BATTERIES)
        assert [request["index"] for request in shell("requests", "list", "--json", *options).objects] == [2]

    def test_since_is_sent_to_service(self, shell: Shell) -> None:
        shell("requests", "list", "--since", "6h")
        assert shell.exchange.audit_log.calls[-1].parameters["secondsSinceUpdate"] == 6 * 3600

    def test_empty_list_prints_message_to_stderr(self, shell: Shell) -> None:
        result = shell("requests", "list")
        assert (result.status, result.out) == (0, "")
        assert result.err == "There are no such requests. See `freight-exchange offers list` for your own.\n"
        assert shell("requests", "list", "--json").out == ""


class TestGet:
    def test_request_is_shown_with_gross_weight(self, shell: Shell) -> None:
        index = shell.publish(TILES)
        result = shell("requests", "get", str(index))
        assert "weight        640 kg, read as that of one unit\n" in result.out
        assert "gross weight  12800 kg\n" in result.out
        assert "chargeable    12.800 W/M by weight\n" in result.out
        (request,) = shell("requests", "get", str(index), "--json").objects
        assert request["ref_id"] == "FX000001"

    def test_implausible_values_are_warned_of(self, shell: Shell) -> None:
        index = shell.publish(Cargo(requesttype="Air Freight", weight=1))
        (row,) = shell("requests", "list").rows
        assert (row["KG"], row["INCOTERM"]) == ("10?", "FOB?")
        warnings = shell("requests", "get", str(index)).err
        assert "Check the weight: about 2.08 kg/m3 if it is that of one unit, where freight has 20 to 3000" in warnings
        assert "Check the incoterm: FOB is for sea" in warnings
        total = shell("requests", "get", str(index), "--weight", "total").err
        assert "Check the weight: about 0.208 kg/m3 if it is that of all units" in total
        (request,) = shell("requests", "get", str(index), "--json").objects
        assert request["gross_weight"] == "10"
        assert [doubt["field"] for doubt in request["doubts"]] == ["weight", "incoterm"]
        assert (
            request["doubts"][1]["message"] == "FOB is for sea and inland waterway transport only, not for Air Freight"
        )
        assert shell("requests", "list", "--json").objects == [request]


class TestPublish:
    @pytest.mark.parametrize("source", ["options", "json", "toml", "stdin", "file and options"])
    def test_draft_is_published(self, shell: Shell, source: str) -> None:
        shell.use_account(shell.exchange.shipper)
        arguments, piped = ["--file", "draft.json"], ""
        match source:
            case "options":
                fields = {name: value for name, value in DRAFT.items() if name != "hazardous"}
                arguments = [part for name, value in fields.items() for part in (f"--{name}", str(value))]
                arguments += ["--not-hazardous"]
            case "json":
                Path("draft.json").write_text(json.dumps(DRAFT))
            case "toml":
                lines = [f"{name} = {json.dumps(value)}" for name, value in DRAFT.items() if name != "arrival"]
                Path("draft.toml").write_text("\n".join([*lines, "arrival = 2036-03-01"]))
                arguments = ["--file", "draft.toml"]
            case "stdin":
                arguments, piped = ["--file", "-"], json.dumps(DRAFT)
            case _:
                Path("draft.json").write_text(json.dumps(DRAFT | {"quantity": 3, "origin": "Ningbo"}))
                arguments += ["--quantity", "20", "--origin", "Hong Kong"]
        result = shell("requests", "publish", *arguments, "--yes", "--json", piped=piped)
        assert result.status == 0, result.err
        (request,) = result.objects
        assert (request["commodity"], request["quantity"], request["volume"]) == ("Ceramic tiles", 20, "21.600")
        (change,) = shell.exchange.audit_log.changes
        assert change.state.cargo.origin == "Hong Kong"
        assert change.state.cargo.arrival.startswith("2036-03-01")

    @pytest.mark.parametrize(("options", "status"), [(["--yes"], 0), (["--yes", "--json"], 0), ([], Status.USAGE)])
    def test_implausible_draft_is_warned_of_before_it_is_sent(
        self, shell: Shell, options: list[str], status: int
    ) -> None:
        shell.use_account(shell.exchange.shipper)
        Path("draft.json").write_text(json.dumps(DRAFT | {"weight": 1, "type": "Air Freight"}))
        result = shell("requests", "publish", "--file", "draft.json", *options, typed=None if options else "n\n")
        assert result.status == status
        assert len(shell.exchange.audit_log.changes) == (not status)
        assert "Check the weight: about 0.926 kg/m3 if it is that of one unit" in result.err
        assert result.err.count("Check the weight:") == 1
        assert result.err.count("Check the incoterm: FOB is for sea") == 1

    def test_arrival_in_past_is_refused_without_past(self, shell: Shell) -> None:
        shell.use_account(shell.exchange.shipper)
        Path("draft.json").write_text(json.dumps(DRAFT | {"arrival": "2016-03-01"}))
        result = shell("requests", "publish", "--file", "draft.json", "--yes")
        assert result.status == Status.USAGE
        assert "the arrival 2016-03-01 is in the past: correct it, or give --past; nothing was sent" in result.err
        assert shell.exchange.audit_log.calls == []
        assert shell("requests", "publish", "--file", "draft.json", "--yes", "--past").status == 0


# Watch

WATCH = ("requests", "watch", "--start", "backfill", "--count", "1")


def test_event_is_printed_as_line(shell: Shell) -> None:
    shell.publish()
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  new        1  FX000001  Shipping  Ceramic tiles  Hong Kong to Long Beach  9.600 m3\n",
        shell(*WATCH).out,
    )


def test_first_run_begins_at_start(shell: Shell) -> None:
    old = shell.exchange.publish(shell.exchange.shipper, time.time() - 7200, TILES)
    new = shell.publish()
    (event,) = shell("requests", "watch", "--json", "--count", "1", "--start", "1h").objects
    assert event["request"]["index"] == new
    events = shell("requests", "watch", "--json", "--count", "2", "--start", "backfill").objects
    assert {event["request"]["index"] for event in events} == {old, new}


def test_run_with_store_continues_after_last_event(shell: Shell) -> None:
    def next_index() -> int:
        (event,) = shell(*WATCH, "--store", "seen.db", "--interval", "1s", "--json").objects
        index: int = event["request"]["index"]
        return index

    published = [shell.publish() for _ in range(2)]
    assert sorted(next_index() for _ in published) == published
    last = shell.publish()
    assert next_index() == last


def test_options_filter_events(shell: Shell) -> None:
    shell.publish()
    wanted = shell.publish(Cargo(origin="Shenzhen"))
    (event,) = shell(*WATCH, "--origin", "Shenzhen", "--json").objects
    assert (event["request"]["index"], event["observed_between"][0]) == (wanted, None)


@pytest.mark.parametrize("options", [[], ["--weight", "total"]])
def test_request_of_event_equals_that_of_list(shell: Shell, options: list[str]) -> None:
    shell.publish(Cargo(requesttype="Air Freight", weight=1))
    (event,) = shell(*WATCH, "--json", *options).objects
    assert [event["request"]] == shell("requests", "list", "--json", *options).objects
