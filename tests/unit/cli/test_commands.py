"""What each command sends, and what it prints: for people, and for programs."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.rig import TILES, Shell

from freight_exchange.cli.ending import Status
from freight_exchange.sandbox import Cargo

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
DRAFT: dict[str, Any] = {
    "commodity": "Ceramic tiles",
    "type": "shipping",
    "origin": "Hong Kong",
    "destination": "Long Beach",
    "arrival": "2027-03-01",
    "packaging": "pallet",
    "quantity": 20,
    "length": 1.2,
    "width": "1.0",
    "height": 0.9,
    "weight": 640,
    "incoterm": "fob",
    "hazardous": False,
}
ROUTE = {
    "origin": "Hong Kong",
    "destination": "Long Beach",
    "cy_cutoff": "2027-02-01 17:00",
    "cfs_cutoff": "2027-01-31 12:00",
    "departure": "2027-02-03 06:00",
    "arrival": "2027-02-19 08:00",
    "carrier": 1,
    "vessel": "Ever Sandbox",
    "voyage_id": "017E",
    "timezone": "Asia/Hong_Kong",
}


def table(text: str) -> list[dict[str, str]]:
    """The rows of a table, by their titles: its columns are where every line has two blanks."""
    lines = text.splitlines()
    length = max(map(len, lines))
    used = [any(line[at : at + 1].strip() for line in lines) for at in range(length)]
    begins = [at for at in range(length) if used[at] and not any(used[max(0, at - 2) : at])]
    ends = [*begins[1:], length]
    titles, *rows = ([line[a:b].strip() for a, b in zip(begins, ends, strict=True)] for line in lines)
    return [dict(zip(titles, row, strict=True)) for row in rows]


def objects(text: str) -> list[Any]:
    return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


class TestRequests:
    def test_a_list_says_what_a_carrier_would_charge_for(self, shell: Shell) -> None:
        shell.publish(TILES)
        shell.publish(BATTERIES)
        done = shell("requests", "list")
        assert (done.status, done.err) == (0, "")
        air, sea = table(done.out)
        assert sea == {
            "INDEX": "1", "REF": "FX000001", "TYPE": "Shipping", "COMMODITY": "Ceramic tiles", "ORIGIN": "Hong Kong",
            "DESTINATION": "Long Beach", "ARRIVAL": "2027-03-01", "UNITS": "20 pallets", "M3": "9.600", "KG": "12800",
            "CHARGEABLE": "12.800 W/M",
        }  # fmt: skip
        assert (air["M3"], air["KG"], air["CHARGEABLE"]) == ("4.5000", "1875.0", "1875.0 kg")

    def test_the_weight_may_be_read_as_that_of_all_units(self, shell: Shell) -> None:
        shell.publish(TILES)
        (sea,) = table(shell("requests", "list", "--weight", "total").out)
        assert (sea["KG"], sea["CHARGEABLE"]) == ("640", "9.600 W/M")

    def test_a_weight_that_cannot_be_is_marked(self, shell: Shell) -> None:
        index = shell.publish(Cargo(requesttype="Air Freight", weight=1))
        (row,) = table(shell("requests", "list").out)
        assert row["KG"] == "10?"
        told = shell("requests", "get", str(index))
        assert "Is its weight right? about 2.08 kg/m3" in told.err
        assert "Is its incoterm right? FOB is for sea" in told.err

    def test_json_is_an_object_a_line_with_every_digit(self, shell: Shell) -> None:
        shell.publish(BATTERIES)
        shell.publish(TILES)
        done = shell("requests", "list", "--json")
        sea, air = objects(done.out)
        assert (sea["index"], air["index"]) == (2, 1)
        assert air["weight"] == Decimal("12.5")
        assert air["length"] == Decimal("0.4")
        assert air["need_date"] == "2030-01-15 00:00:00"
        assert air["type"] == "Air Freight"
        assert air["hazardous"] is True
        assert air["chargeable"] == {"amount": Decimal("1875.0"), "unit": "kg", "by": "weight"}
        assert sea.keys() == air.keys()

    @pytest.mark.parametrize(
        "options",
        [
            ["--origin", "shenzhen"],
            ["--destination", "Frankfurt", "--destination", "Munich"],
            ["--type", "air freight"],
            ["--incoterm", "dap"],
            ["--commodity", "lithium  batteries"],
            ["--hazardous"],
            ["--max-volume", "5"],
            ["--max-weight", "100"],
            ["--limit", "1"],
            ["--state", "pending", "--limit", "1"],
        ],
    )
    def test_a_list_can_be_narrowed(self, shell: Shell, options: list[str]) -> None:
        shell.publish(TILES)
        shell.publish(BATTERIES)
        assert [request["index"] for request in objects(shell("requests", "list", "--json", *options).out)] == [2]

    def test_the_others_than_those(self, shell: Shell) -> None:
        shell.publish(TILES)
        shell.publish(BATTERIES)
        for options in (["--not-hazardous"], ["--need-by", "2028-01-01"]):
            assert [request["index"] for request in objects(shell("requests", "list", "--json", *options).out)] == [1]

    def test_how_far_back_is_what_the_service_is_asked(self, shell: Shell) -> None:
        shell("requests", "list", "--since", "6h")
        assert shell.exchange.truth.calls[-1].parameters["secondsSinceUpdate"] == 6 * 3600

    def test_a_list_of_nothing_says_so_and_prints_nothing(self, shell: Shell) -> None:
        assert shell("requests", "list") == type(shell("requests", "list"))(0, "", "There are no such requests.\n")
        assert shell("requests", "list", "--json").out == ""

    def test_one_request(self, shell: Shell) -> None:
        index = shell.publish(TILES)
        done = shell("requests", "get", str(index))
        assert "gross weight  12800 kg\n" in done.out
        assert "chargeable    12.800 W/M by weight\n" in done.out
        (told,) = objects(shell("requests", "get", str(index), "--json").out)
        assert told["ref_id"] == "FX000001"

    @pytest.mark.parametrize("spelling", ["options", "json", "toml", "stdin", "both"])
    def test_publishing(self, shell: Shell, spelling: str) -> None:
        shell.become(shell.exchange.shipper)
        path, piped = shell.home / "draft", ""
        arguments: list[str] = []
        match spelling:
            case "options":
                named = {name: value for name, value in DRAFT.items() if name != "hazardous"}
                arguments = [part for name, value in named.items() for part in (f"--{name}", str(value))]
                arguments += ["--not-hazardous"]
            case "json" | "both":
                said = DRAFT | ({"quantity": 3, "origin": "Ningbo"} if spelling == "both" else {})
                path.with_suffix(".json").write_text(json.dumps(said))
                arguments = ["--file", "draft.json"]
                arguments += ["--quantity", "20", "--origin", "Hong Kong"] if spelling == "both" else []
            case "toml":
                lines = [f"{name} = {json.dumps(value)}" for name, value in DRAFT.items() if name != "arrival"]
                path.with_suffix(".toml").write_text("\n".join([*lines, "arrival = 2027-03-01"]))
                arguments = ["--file", "draft.toml"]
            case "stdin":
                arguments, piped = ["--file", "-"], json.dumps(DRAFT)
        done = shell("requests", "publish", *arguments, "--yes", "--json", piped=piped)
        assert done.status == 0, done.err
        (told,) = objects(done.out)
        assert (told["commodity"], told["quantity"], told["volume"]) == ("Ceramic tiles", 20, Decimal("21.600"))
        (published,) = shell.exchange.truth.changes
        assert published.state.cargo.origin == "Hong Kong"
        assert published.state.cargo.arrival.startswith("2027-03-01")

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"weight": -1}, "weight must be greater than zero"),
            ({"incoterm": "FREE"}, "incoterm must be three letters"),
            ({"quantity": "many"}, "quantity must be"),
            ({"arrival": "soon"}, "arrival is no date"),
            ({"colour": "red"}, "'colour', which is no field"),
            ({"type": "Pigeon"}, "type must be one of"),
            ({"commodity": None}, "still missing: commodity (--commodity)"),
        ],
    )
    def test_what_is_wrong_with_a_draft_names_the_field(
        self, shell: Shell, change: dict[str, Any], sentence: str
    ) -> None:
        shell.become(shell.exchange.shipper)
        said = {name: value for name, value in (DRAFT | change).items() if value is not None}
        (shell.home / "draft.json").write_text(json.dumps(said))
        done = shell("requests", "publish", "--file", "draft.json", "--yes")
        assert done.status == Status.USAGE
        assert sentence in done.err
        assert shell.exchange.truth.calls == []

    @pytest.mark.parametrize("content", ["{", "[1]", "\x00"])
    def test_a_file_that_is_no_draft(self, shell: Shell, content: str) -> None:
        Path("draft.json").write_text(content)
        done = shell("requests", "publish", "--file", "draft.json", "--yes")
        assert done.status == Status.USAGE
        assert "draft.json" in done.err
        assert "nothing was sent" in done.err


class TestOffersAndBids:
    def test_an_offer_from_its_submission_to_the_contacts(self, shell: Shell) -> None:
        request = shell.publish(TILES)
        done = shell(
            "bids", "submit", str(request), "--amount", "1840.50", "--currency", "usd", "--terms", "valid 14 days",
            "--rate", "Ocean Freight=1700", "--rate", "A=B=140.50", "--yes",
        )  # fmt: skip
        assert done.status == 0, done.err
        assert "offer            1840.50 USD\n" in done.out
        assert "  Ocean Freight  1700\n" in done.out
        (offer,) = shell.exchange.truth.offers_on(request)
        assert offer.offer.rates == {"Ocean Freight": 1700, "A=B": Decimal("140.50")}
        assert table(shell("bids", "list").out)[0]["OFFER"] == "1840.50 USD"

        shell.become(shell.exchange.shipper)
        (row,) = table(shell("offers", "list", "--state", "offers").out)
        assert (row["OFFER"], row["AMOUNT"], row["STATUS"]) == (str(offer.offer.index), "1840.50 USD", "pending")
        assert "terms            valid 14 days" in shell("offers", "get", str(request)).out
        approved = shell("offers", "approve", row["OFFER"], "--yes")
        assert "email      forwarder@demo.example\n" in approved.out
        (told,) = objects(shell("offers", "list", "--json").out)
        assert told["selected"]["id"] == offer.offer.index

        shell.become(shell.exchange.forwarder)
        (row,) = table(shell("bids", "list", "--state", "sel").out)
        assert (row["STATUS"], row["CONTACT"]) == ("Selected", "Sylvia Ship <shipper@demo.example>")
        (bid,) = objects(shell("bids", "list", "--json").out)
        assert bid["amount"] == Decimal("1840.50")

    def test_an_offer_from_a_file(self, shell: Shell) -> None:
        request = shell.publish(TILES)
        Path("offer.json").write_text('{"amount": 1840.10, "currency": "USD", "rates": {"Ocean": 1700.10}}')
        done = shell("bids", "submit", str(request), "--file", "offer.json", "--rate", "Chassis=140", "--yes", "--json")
        assert done.status == 0, done.err
        (bid,) = objects(done.out)
        assert bid["amount"] == Decimal("1840.10")
        assert bid["offer"]["rates"] == {"Ocean": Decimal("1700.10"), "Chassis": 140}

    def test_nothing_is_asked_of_the_service_after_a_write(self, shell: Shell) -> None:
        # What failed then would be taken for the write's own failure.
        shell.publish(TILES)
        assert shell("bids", "submit", "1", "--amount", "9", "--currency", "USD", "--yes").status == 0
        assert shell.exchange.truth.calls[-1].path == "quote/submitoffer"
        shell.become(shell.exchange.shipper)
        assert shell("offers", "approve", "5001", typed="y\n").status == 0
        assert shell.exchange.truth.calls[-1].path == "quote/approveoffer"
        assert shell("requests", "publish", "--file", "-", "--yes", piped=json.dumps(DRAFT)).status == 0
        assert shell.exchange.truth.calls[-1].path == "quote/submitrequest"
        Path("route.json").write_text(json.dumps(ROUTE))
        assert shell("routes", "create", "--file", "route.json", "--yes").status == 0
        assert shell.exchange.truth.calls[-1].path == "route"

    def test_declining(self, shell: Shell) -> None:
        request = shell.publish(TILES)
        shell("bids", "submit", str(request), "--amount", "9", "--currency", "USD", "--yes")
        shell.become(shell.exchange.shipper)
        (row,) = table(shell("offers", "list").out)
        assert shell("offers", "decline", row["OFFER"], "--yes").status == 0
        assert shell.exchange.truth.calls[-1].parameters["approved"] == 0

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--amount", "0", "--currency", "USD"], "amount must be greater than zero"),
            (["--amount", "12"], "still missing: currency (--currency)"),
            (["--amount", "12", "--currency", "XXX"], "currency"),
            (["--amount", "12", "--currency", "USD", "--rate", "Ocean"], "--rate takes NAME=AMOUNT, not 'Ocean'"),
            (["--amount", "12", "--currency", "USD", "--rate", "Ocean=dear"], "rates"),
        ],
    )
    def test_an_offer_that_cannot_be_right_is_not_sent(self, shell: Shell, arguments: list[str], sentence: str) -> None:
        request = shell.publish(TILES)
        done = shell("bids", "submit", str(request), *arguments, "--yes")
        assert done.status == Status.USAGE
        assert sentence in done.err
        assert shell.exchange.truth.offers == []


class TestAsking:
    SUBMIT = ("bids", "submit", "1", "--amount", "1840.50", "--currency", "USD")

    def test_without_a_terminal_and_without_yes_nothing_is_sent(self, shell: Shell) -> None:
        shell.publish(TILES)
        for command in (
            self.SUBMIT,
            ("offers", "approve", "5001"),
            ("offers", "decline", "5001"),
            ("requests", "publish", "--quantity", "1"),
            ("routes", "create", "--vessel", "Ever"),
            ("routes", "update", "1", "--vessel", "Ever"),
        ):
            done = shell(*command)
            assert done.status == Status.USAGE
            assert "there is no terminal to ask on: give --yes" in done.err
        assert shell.exchange.truth.calls == []

    def test_a_no_sends_nothing_and_a_yes_sends_it(self, shell: Shell) -> None:
        shell.publish(TILES)
        done = shell(*self.SUBMIT, typed="n\n")
        assert done.status == Status.USAGE
        assert "Offer 1840.50 USD on 20 pallets of Ceramic tiles, Hong Kong to Long Beach? [y/N]:" in done.err
        assert done.err.endswith("Error: nothing was sent\n")
        assert shell.exchange.truth.offers == []
        assert shell(*self.SUBMIT, typed="y\n").status == 0
        assert len(shell.exchange.truth.offers) == 1

    def test_what_is_approved_is_said_first(self, shell: Shell) -> None:
        shell.publish(TILES)
        shell(*self.SUBMIT, "--yes")
        shell.become(shell.exchange.shipper)
        done = shell("offers", "approve", "5001", typed="y\n")
        assert "Approve offer 5001: 1840.50 USD on Ceramic tiles, Hong Kong to Long Beach? [y/N]:" in done.err
        assert done.status == 0
        gone = shell("offers", "approve", "77", typed="y\n")
        assert gone.status == Status.USAGE
        assert "there is no offer 77 on your requests; nothing was sent" in gone.err

    def test_an_end_of_input_sends_nothing(self, shell: Shell) -> None:
        shell.publish(TILES)
        done = shell(*self.SUBMIT, typed="")
        assert done.status == Status.INTERRUPTED
        assert shell.exchange.truth.offers == []


class TestRoutes:
    def test_from_creation_to_an_update(self, shell: Shell) -> None:
        Path("route.json").write_text(json.dumps(ROUTE))
        done = shell("routes", "create", "--file", "route.json", "--vessel", "Ever Patient", "--yes", "--json")
        assert done.status == 0, done.err
        (created,) = objects(done.out)
        assert created["vessel"] == "Ever Patient"
        assert created["departure"] == "2027-02-03 06:00:00+08:00"
        index = str(created["index"])
        updated = shell("routes", "update", index, "--vessel", "Ever Given", "--cy-cutoff", "2027-02-01 18:00", "--yes")
        assert updated.status == 0, updated.err
        told = shell("routes", "get", index).out
        assert "vessel       Ever Given\n" in told
        assert "cy cut-off   2027-02-01 18:00 HKT\n" in told
        assert "cfs cut-off  2027-01-31 12:00 HKT\n" in told
        (listed,) = objects(shell("routes", "list", "--vessel", "Ever Given", "--json").out)
        assert str(listed["index"]) == index
        assert any(row["VESSEL"] == "Ever Given" for row in table(shell("routes", "list").out))

    def test_an_update_says_what_it_changes(self, shell: Shell) -> None:
        Path("route.json").write_text(json.dumps(ROUTE))
        (created,) = objects(shell("routes", "create", "--file", "route.json", "--yes", "--json").out)
        index = created["index"]
        done = shell("routes", "update", str(index), "--vessel", "Ever Given", typed="n\n")
        assert f"Change route {index}: vessel Ever Sandbox to Ever Given? [y/N]:" in done.err
        assert shell("routes", "update", str(index), "--yes").status == Status.USAGE
        assert "vessel       Ever Sandbox\n" in shell("routes", "get", str(index)).out

    def test_a_zone_that_there_is_not(self, shell: Shell) -> None:
        Path("route.json").write_text(json.dumps(ROUTE | {"timezone": "Asia/Atlantis"}))
        done = shell("routes", "create", "--file", "route.json", "--yes")
        assert done.status == Status.USAGE
        assert "timezone must be the name of a known time zone" in done.err


class TestReference:
    def test_carriers_and_currencies(self, shell: Shell) -> None:
        assert table(shell("carriers").out)[0] == {"INDEX": "1", "NAME": "Pacific Star Line"}
        assert table(shell("currencies").out)[0] == {"INDEX": "1", "CODE": "USD", "NAME": "US Dollar"}
        assert objects(shell("currencies", "--json").out)[0]["code"] == "USD"


class TestTexts:
    def test_a_text_of_the_service_commands_no_terminal(self, shell: Shell) -> None:
        shell.publish(Cargo(commodityname="[bold]Ti\x1b[31mles\u202e\n", notes="\x07"))
        for command in (["list"], ["get", "1"], ["list", "--json"], ["watch", "--start", "backfill", "--count", "1"]):
            done = shell("requests", *command)
            assert done.status == 0
            assert "[bold]Ti" in done.out
            assert done.out.replace("\n", "").isprintable()
        assert objects(shell("requests", "list", "--json").out)[0]["commodity"] == "[bold]Ti\x1b[31mles\u202e\n"
