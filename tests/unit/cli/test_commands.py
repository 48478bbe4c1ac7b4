"""What each command sends, and what it prints: for people, and for programs."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.rig import TILES, Shell

from freight_exchange.cli.exit_status import Status
from freight_exchange.sandbox import Cargo, Fault
from freight_exchange.sandbox.faults import mutations

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
        assert done.status == 0
        assert done.err == (
            "KG reads each weight as that of one unit; --weight total reads it as the total of all units.\n"
        )
        air, sea = table(done.out)
        assert sea == {
            "INDEX": "1", "STATUS": "Available", "REF": "FX000001", "TYPE": "Shipping", "COMMODITY": "Ceramic tiles",
            "ORIGIN": "Hong Kong", "DESTINATION": "Long Beach", "ARRIVAL": "2027-03-01", "UNITS": "20 pallets",
            "M3": "9.600", "KG": "12800", "INCOTERM": "FOB", "CHARGEABLE": "12.800 W/M",
        }  # fmt: skip
        assert (air["M3"], air["KG"], air["CHARGEABLE"]) == ("4.5000", "1875.0", "1875.0 kg")

    def test_the_weight_may_be_read_as_that_of_all_units(self, shell: Shell) -> None:
        shell.publish(TILES)
        done = shell("requests", "list", "--weight", "total")
        (sea,) = table(done.out)
        assert done.err == ""
        assert (sea["KG"], sea["CHARGEABLE"]) == ("640", "9.600 W/M")

    def test_what_is_odd_is_marked(self, shell: Shell) -> None:
        index = shell.publish(Cargo(requesttype="Air Freight", weight=1))
        (row,) = table(shell("requests", "list").out)
        assert (row["KG"], row["INCOTERM"]) == ("10?", "FOB?")
        told = shell("requests", "get", str(index))
        assert (
            "Is its weight right? about 2.08 kg/m3 if it is that of one unit, where freight has 20 to 3000" in told.err
        )
        assert "Is its incoterm right? FOB is for sea" in told.err
        in_all = shell("requests", "get", str(index), "--weight", "total").err
        assert "Is its weight right? about 0.208 kg/m3 if it is that of all units" in in_all

    def test_json_says_what_is_odd(self, shell: Shell) -> None:
        index = shell.publish(Cargo(requesttype="Air Freight", weight=1))
        shell.publish(Cargo(requesttype="Air Freight", incoterm="DAP", weight=Decimal("300.5")))
        plain, odd = objects(shell("requests", "list", "--json").out)
        assert plain["weight_per"] == "unit"
        assert (plain["gross_weight"], plain["doubts"]) == (Decimal("3005.0"), [])
        assert odd["gross_weight"] == 10
        assert [doubt["field"] for doubt in odd["doubts"]] == ["weight", "incoterm"]
        assert odd["doubts"][1]["message"] == ("FOB is for sea and inland waterway transport only, not for Air Freight")
        assert objects(shell("requests", "get", str(index), "--json").out) == [odd]

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
            ["--type", "air-freight"],
            ["--type", "AIR_FREIGHT"],
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
        assert shell.exchange.audit_log.calls[-1].parameters["secondsSinceUpdate"] == 6 * 3600

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            (["--since", "6d"], "'--since': '6d' is too long: 5d is the most, which is all that the service lists"),
            (["--since", "99999999999999d"], "'--since': '99999999999999d' is too long"),
            (["--since", "0s"], "'--since': '0s' is too short: it must be more than 0s"),
            (["--since", "soon"], "'--since': 'soon' is no time such as 90s"),
            (["--max-volume", "much"], "--max-volume must be a number, not 'much'"),
            (["--need-by", "2027-03-01T12:00Z"], "--need-by takes no offset: give the time as the clocks there show"),
        ],
    )
    def test_what_cannot_be_asked_for(self, shell: Shell, options: list[str], sentence: str) -> None:
        done = shell("requests", "list", *options)
        assert (done.status, done.out) == (Status.USAGE, "")
        assert sentence in done.err
        assert shell.exchange.audit_log.calls == []

    def test_a_list_of_nothing_says_so_and_prints_nothing(self, shell: Shell) -> None:
        assert shell("requests", "list") == type(shell("requests", "list"))(
            0, "", "There are no such requests. What you have published is under `freight-exchange offers list`.\n"
        )
        assert shell("requests", "list", "--json").out == ""

    def test_one_request(self, shell: Shell) -> None:
        index = shell.publish(TILES)
        done = shell("requests", "get", str(index))
        assert "weight        640 kg, read as that of one unit\n" in done.out
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
        (published,) = shell.exchange.audit_log.changes
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
            ({"hazardous": None}, "still missing: hazardous (--hazardous or --not-hazardous)"),
            ({"quantity": 2.5}, "quantity must be a positive integer, not 2.5"),
            ({"hazardous": "no"}, "hazardous must be true or false, not 'no'"),
            ({"length": "long"}, "length must be a number, not 'long'"),
            ({"arrival": 5}, "arrival must be a date such as 2027-03-01 or '2027-03-01 17:00', not 5"),
            ({"arrival": "2027-03-01T12:00Z"}, "arrival takes no offset: give the time as the clocks there show it"),
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
        assert shell.exchange.audit_log.calls == []

    @pytest.mark.parametrize(
        ("name", "content", "sentence"),
        [
            ("draft.json", b"{", "draft.json cannot be read: Expecting property name"),
            ("draft.json", b"[1]", "draft.json must hold one object with the fields"),
            ("draft.json", b"\x00", "draft.json cannot be read: "),
            ("draft.json", b"", "draft.json cannot be read: it is empty"),
            ("draft.json", b'{"notes": "M\xf6bel"}', "draft.json cannot be read: byte 13 is no UTF-8"),
            ("draft.json", b"[" * 100_000, "draft.json cannot be read: it goes too deep"),
            ("draft.toml", b"a=" + b"[" * 5000, "draft.toml cannot be read: it goes too deep"),
            ("draft.json", b'{"quantity": ' + b"9" * 5000 + b"}", "it has a number of thousands of digits"),
            ("draft.json", b'{"quantity": 2, "quantity": 3}', "draft.json cannot be read: it gives 'quantity' twice"),
            ("draft.json", b'{"quantity": null}', "the file has null for quantity: leave it out, or say what it is"),
        ],
    )
    def test_a_file_that_is_no_draft(self, shell: Shell, name: str, content: bytes, sentence: str) -> None:
        Path(name).write_bytes(content)
        done = shell("requests", "publish", "--file", name, "--yes")
        assert done.status == Status.USAGE
        assert sentence in done.err
        assert "nothing was sent" in done.err

    @pytest.mark.parametrize(
        ("name", "encoding"),
        [
            ("draft.json", "utf-8-sig"),
            ("draft.json", "utf-16"),
            ("draft.toml", "utf-8-sig"),
            ("DRAFT.TOML", "utf-8"),
        ],
    )
    def test_a_file_as_windows_has_it(self, shell: Shell, name: str, encoding: str) -> None:
        shell.become(shell.exchange.shipper)
        lines = json.dumps(DRAFT)
        if name.lower().endswith("toml"):
            lines = "\r\n".join(f"{name} = {json.dumps(value)}" for name, value in DRAFT.items())
        Path(name).write_bytes(lines.encode(encoding))
        done = shell("requests", "publish", "--file", name, "--yes")
        assert done.status == 0, done.err

    def test_a_mark_before_what_is_piped_in(self, shell: Shell) -> None:
        shell.become(shell.exchange.shipper)
        done = shell("requests", "publish", "--file", "-", "--yes", piped="\ufeff" + json.dumps(DRAFT))
        assert done.status == 0, done.err
        assert "standard input cannot be read: it is empty" in shell("requests", "publish", "--file", "-", "--yes").err

    @pytest.mark.parametrize(("options", "status"), [(["--yes"], 0), (["--yes", "--json"], 0), ([], Status.USAGE)])
    def test_what_is_odd_about_a_draft_is_said_before_it_is_sent(
        self, shell: Shell, options: list[str], status: int
    ) -> None:
        shell.become(shell.exchange.shipper)
        Path("draft.json").write_text(json.dumps(DRAFT | {"weight": 1, "type": "Air Freight"}))
        done = shell("requests", "publish", "--file", "draft.json", *options, typed=None if options else "n\n")
        assert done.status == status
        assert len(shell.exchange.audit_log.changes) == (not status)
        assert "Is its weight right? about 0.926 kg/m3 if it is that of one unit" in done.err
        assert done.err.count("Is its weight right?") == 1
        assert done.err.count("Is its incoterm right? FOB is for sea") == 1


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
        (offer,) = shell.exchange.audit_log.offers_on(request)
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

    @pytest.mark.parametrize("rates", [None, [1], "x", 5])
    def test_rates_that_are_none(self, shell: Shell, rates: object) -> None:
        Path("offer.json").write_text(json.dumps({"amount": 5, "currency": "USD", "rates": rates}))
        done = shell("bids", "submit", "1", "--file", "offer.json", "--yes")
        assert done.status == Status.USAGE
        assert "rates" in done.err
        assert "nothing was sent" in done.err
        assert shell.exchange.audit_log.calls == []

    def test_a_null_in_a_file_is_refused_beside_an_option_too(self, shell: Shell) -> None:
        Path("offer.json").write_text('{"amount": null}')
        done = shell("bids", "submit", "1", "--file", "offer.json", "--amount", "5", "--currency", "USD", "--yes")
        assert done.status == Status.USAGE
        assert "the file has null for amount" in done.err

    def test_nothing_is_asked_of_the_service_after_a_write(self, shell: Shell) -> None:
        # What failed then would be taken for the write's own failure.
        shell.publish(TILES)
        assert shell("bids", "submit", "1", "--amount", "9", "--currency", "USD", "--yes").status == 0
        assert shell.exchange.audit_log.calls[-1].path == "quote/submitoffer"
        shell.become(shell.exchange.shipper)
        assert shell("offers", "approve", "5001", typed="y\n").status == 0
        assert shell.exchange.audit_log.calls[-1].path == "quote/approveoffer"
        assert shell("requests", "publish", "--file", "-", "--yes", piped=json.dumps(DRAFT)).status == 0
        assert shell.exchange.audit_log.calls[-1].path == "quote/submitrequest"
        Path("route.json").write_text(json.dumps(ROUTE))
        assert shell("routes", "create", "--file", "route.json", "--yes").status == 0
        assert shell.exchange.audit_log.calls[-1].path == "route"

    def test_declining(self, shell: Shell) -> None:
        request = shell.publish(TILES)
        shell("bids", "submit", str(request), "--amount", "9", "--currency", "USD", "--yes")
        shell.become(shell.exchange.shipper)
        (row,) = table(shell("offers", "list").out)
        assert shell("offers", "decline", row["OFFER"], "--yes").status == 0
        assert shell.exchange.audit_log.calls[-1].parameters["approved"] == 0

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--amount", "0", "--currency", "USD"], "amount must be greater than zero"),
            (["--amount", "12"], "still missing: currency (--currency)"),
            (["--amount", "12", "--currency", "XXX"], "currency"),
            (["--amount", "12", "--currency", "USD", "--rate", "Ocean"], "--rate takes NAME=AMOUNT, not 'Ocean'"),
            (["--amount", "12", "--currency", "USD", "--rate", "Ocean=dear"], "the rate 'Ocean' must be a number"),
        ],
    )
    def test_an_offer_that_cannot_be_right_is_not_sent(self, shell: Shell, arguments: list[str], sentence: str) -> None:
        request = shell.publish(TILES)
        done = shell("bids", "submit", str(request), *arguments, "--yes")
        assert done.status == Status.USAGE
        assert sentence in done.err
        assert shell.exchange.audit_log.offers == []


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
        assert shell.exchange.audit_log.calls == []

    def test_a_no_sends_nothing_and_a_yes_sends_it(self, shell: Shell) -> None:
        shell.publish(TILES)
        done = shell(*self.SUBMIT, typed="n\n")
        assert done.status == Status.USAGE
        assert "Offer 1840.50 USD on 20 pallets of Ceramic tiles, Hong Kong to Long Beach? [y/N]:" in done.err
        assert done.err.endswith("Error: nothing was sent\n")
        assert shell.exchange.audit_log.offers == []
        assert shell(*self.SUBMIT, typed="y\n").status == 0
        assert len(shell.exchange.audit_log.offers) == 1

    def test_what_is_approved_is_said_first(self, shell: Shell) -> None:
        shell.publish(TILES)
        shell(*self.SUBMIT, "--yes")
        shell.become(shell.exchange.shipper)
        done = shell("offers", "approve", "5001", typed="y\n")
        assert "Approve offer 5001: 1840.50 USD on Ceramic tiles, Hong Kong to Long Beach? [y/N]:" in done.err
        assert done.status == 0
        gone = shell("offers", "approve", "77", typed="y\n")
        assert gone.status == Status.NOT_FOUND
        assert "there is no offer 77 on your requests; nothing was changed" in gone.err

    @pytest.mark.parametrize("command", ["approve", "decline"])
    def test_an_offer_that_there_is_not_is_no_such_record_in_every_way(self, shell: Shell, command: str) -> None:
        shell.publish(TILES)
        shell(*self.SUBMIT, "--yes")
        shell.become(shell.exchange.shipper)
        for done in (
            shell("offers", command, "77", "--yes"),
            shell("offers", command, "77", "--yes", "--json"),
            shell("offers", command, "77", typed="y\n"),
        ):
            assert (done.status, done.out) == (Status.NOT_FOUND, "")
            assert "Error: there is no offer 77 on your requests; nothing was changed\n" in done.err
        # One that there is may be refused.
        assert shell("offers", "approve", "5001", "--yes").status == 0
        again = shell("offers", "approve", "5001", "--yes")
        assert again.status == Status.REFUSED, again.err

    def test_a_question_shows_all_that_is_to_be_sent(self, shell: Shell) -> None:
        shell.publish(TILES)
        Path("offer.json").write_text(
            '{"amount": 2000, "currency": "USD", "rates": {"Ocean": 1700.5, "Docs\\n": 40}, "terms": "no\\nrefund"}'
        )
        done = shell("bids", "submit", "1", "--file", "offer.json", typed="n\n")
        assert done.out == ""
        assert done.err.startswith(
            "offer    2000 USD\n"
            "  Ocean  1700.5\n"
            "  Docs   40\n"
            "terms    no refund\n"
            "Are its fees right? The amount is 259.5 more than they come to.\n"
            "Offer 2000 USD on 20 pallets of Ceramic tiles, Hong Kong to Long Beach? [y/N]:"
        )
        Path("draft.json").write_text(json.dumps(DRAFT | {"notes": "fragile"}))
        done = shell("requests", "publish", "--file", "draft.json", typed="n\n")
        assert done.out == ""
        for line in (
            "each          1.2 x 1.0 x 0.9 m\n",
            "incoterm      FOB\n",
            "hazardous     no\n",
            "notes         fragile\n",
        ):
            assert line in done.err
        Path("route.json").write_text(json.dumps(ROUTE))
        done = shell("routes", "create", "--file", "route.json", typed="n\n")
        assert done.out == ""
        for line in ("cy cut-off   2027-02-01 17:00 HKT\n", "carrier      1\n", "time zone    Asia/Hong_Kong\n"):
            assert line in done.err
        assert not {"route", "quote/submitrequest", "quote/submitoffer"} & {
            call.path for call in shell.exchange.audit_log.calls
        }

    def test_fees_that_do_not_make_the_amount_are_said_to_without_a_question_too(self, shell: Shell) -> None:
        shell.publish(TILES)
        done = shell(*self.SUBMIT, "--rate", "Ocean=1900", "--yes")
        assert done.status == 0
        assert done.err == "Are its fees right? The amount is 59.50 less than they come to.\n"
        shell.publish(TILES)
        right = shell("bids", "submit", "2", *self.SUBMIT[3:], "--rate", "Ocean=1840.5", "--yes")
        assert right.err == ""

    def test_an_offer_that_is_there_already_is_said_before_another(self, shell: Shell) -> None:
        shell.publish(TILES)
        shell.publish(TILES)
        assert "already" not in shell(*self.SUBMIT, "--yes").err
        there = "You have 1 offer on it already: 1840.50 USD (Available).\n"
        asked = shell(*self.SUBMIT, typed="n\n")
        assert asked.err.index(there) < asked.err.index("Offer 1840.50 USD on")
        for options in (["--yes"], ["--yes", "--json"]):
            told = shell(*self.SUBMIT, *options)
            assert (told.status, told.err) == (0, there)
            there = "You have 2 offers on it already: 1840.50 USD (Available), 1840.50 USD (Available).\n"
        assert shell("bids", "submit", "2", *self.SUBMIT[3:], "--yes").err == ""

    def test_a_request_that_is_awarded_is_said_to_be_before_the_question(self, shell: Shell) -> None:
        shell.publish(TILES)
        shell(*self.SUBMIT, "--yes")
        shell.become(shell.exchange.shipper)
        shell("offers", "approve", "5001", "--yes")
        shell.become(shell.exchange.forwarder)
        done = shell(*self.SUBMIT, typed="n\n")
        assert "(Selected).\n" in done.err
        assert "The request is Selected: its shipper has accepted an offer.\n" in done.err

    def test_a_doubtful_offer_is_said_with_those_alike_that_were_there(self, shell: Shell) -> None:
        shell.publish(TILES)
        shell(*self.SUBMIT, "--yes")
        shell("bids", "submit", "1", "--amount", "7", "--currency", "USD", "--yes")
        shell.exchange.faults.add(
            Fault(name="lost", path="quote/submitoffer", processed=True, mutate=mutations.json_reply(500, {}))
        )
        done = shell(*self.SUBMIT, "--yes")
        assert done.status == Status.OUTCOME_UNKNOWN, done.err
        assert "Before it was sent, 1 offer of 1840.50 USD of yours stood on request 1.\n" in done.err

    def test_an_end_of_input_sends_nothing(self, shell: Shell) -> None:
        shell.publish(TILES)
        done = shell(*self.SUBMIT, typed="")
        assert done.status == Status.INTERRUPTED
        assert shell.exchange.audit_log.offers == []


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

    def test_a_route_of_which_the_service_says_no_number_is_shown_as_it_was_sent(self, shell: Shell) -> None:
        no_number = mutations.json_reply(200, {})
        shell.exchange.faults.add(
            Fault(name="no number", path="route", method="POST", processed=True, mutate=no_number)
        )
        Path("route.json").write_text(json.dumps(ROUTE))
        done = shell("routes", "create", "--file", "route.json", "--yes", "--json")
        assert done.status == 0, done.err
        (told,) = objects(done.out)
        (listed,) = objects(shell("routes", "list", "--vessel", "Ever Sandbox", "--json").out)
        assert told == listed | {"index": None}
        assert done.err == "The route is created; the service did not say under which number.\n"

    def test_an_update_says_what_it_changes(self, shell: Shell) -> None:
        Path("route.json").write_text(json.dumps(ROUTE))
        (created,) = objects(shell("routes", "create", "--file", "route.json", "--yes", "--json").out)
        index = created["index"]
        done = shell("routes", "update", str(index), "--vessel", "Ever Given", typed="n\n")
        assert f"Change route {index}: vessel Ever Sandbox to Ever Given? [y/N]:" in done.err
        assert shell("routes", "update", str(index), "--yes").status == Status.USAGE
        assert "vessel       Ever Sandbox\n" in shell("routes", "get", str(index)).out

    def test_another_zone_leaves_the_times_what_the_clocks_show(self, shell: Shell) -> None:
        Path("route.json").write_text(json.dumps(ROUTE))
        (created,) = objects(shell("routes", "create", "--file", "route.json", "--yes", "--json").out)
        index = str(created["index"])
        update = ("routes", "update", index, "--timezone", "Europe/Berlin", "--departure", "2027-02-04T04:00:00Z")
        done = shell(*update, typed="n\n")
        assert done.status == Status.USAGE
        assert (
            f"Change route {index}: departure 2027-02-03 06:00 HKT to 2027-02-04 05:00 CET,"
            " timezone Asia/Hong_Kong to Europe/Berlin,"
            " cy_cutoff 2027-02-01 17:00 HKT to 2027-02-01 17:00 CET,"
            " cfs_cutoff 2027-01-31 12:00 HKT to 2027-01-31 12:00 CET? [y/N]:"
        ) in done.err
        (updated,) = objects(shell(*update, "--yes", "--json").out)
        assert updated["cy_cutoff"] == "2027-02-01 17:00:00+01:00"
        assert updated["departure"] == "2027-02-04 05:00:00+01:00"
        assert updated["arrival"] == created["arrival"]

    def test_the_same_clocks_under_another_name_change_no_date(self, shell: Shell) -> None:
        Path("route.json").write_text(json.dumps(ROUTE))
        (created,) = objects(shell("routes", "create", "--file", "route.json", "--yes", "--json").out)
        done = shell("routes", "update", str(created["index"]), "--timezone", "Asia/Shanghai", typed="n\n")
        assert ": timezone Asia/Hong_Kong to Asia/Shanghai? [y/N]:" in done.err

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"timezone": "Asia/Atlantis"}, "timezone must be the name of a known time zone"),
            ({"timezone": 5}, "timezone must be text, not 5"),
            ({"departure": 5}, "departure must be a date such as 2027-03-01"),
            ({"timezone": "Europe/Berlin", "departure": 5}, "departure must be a date such as 2027-03-01"),
            ({"carrier": "abc"}, "carrier must be a carrier's index, not a text"),
            ({"vessel": None}, "the file has null for vessel"),
        ],
    )
    def test_a_change_that_cannot_be_right(self, shell: Shell, change: dict[str, Any], sentence: str) -> None:
        Path("route.json").write_text(json.dumps(ROUTE))
        (created,) = objects(shell("routes", "create", "--file", "route.json", "--yes", "--json").out)
        Path("change.json").write_text(json.dumps(change))
        done = shell("routes", "update", str(created["index"]), "--file", "change.json", "--yes")
        assert done.status == Status.USAGE
        assert sentence in done.err
        assert objects(shell("routes", "get", str(created["index"]), "--json").out) == [created]

    def test_a_zone_that_there_is_not(self, shell: Shell) -> None:
        Path("route.json").write_text(json.dumps(ROUTE | {"timezone": "Asia/Atlantis"}))
        done = shell("routes", "create", "--file", "route.json", "--yes")
        assert done.status == Status.USAGE
        assert "timezone must be the name of a known time zone" in done.err


class TestReference:
    def test_carriers_and_currencies(self, shell: Shell) -> None:
        assert table(shell("carriers").out)[0] == {"INDEX": "1", "NAME": "Pacific Star Line"}
        assert table(shell("currencies").out)[0] == {"INDEX": "840", "CODE": "USD", "NAME": "US Dollar"}
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
