"""Tests of `bids list` and `bids submit`."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from tests.cli.harness import DRAFT, ROUTE, SUBMIT, Shell

from freight_exchange.cli.run import Status


def test_offer_is_submitted_listed_approved_and_selected(shell: Shell) -> None:
    request = shell.publish()
    result = shell(
        "bids", "submit", str(request), "--amount", "1840.50", "--currency", "usd", "--terms", "valid 14 days",
        "--rate", "Ocean Freight=1700", "--rate", "A=B=140.50", "--yes",
    )  # fmt: skip
    assert result.status == 0, result.err
    assert "offer            1840.50 USD\n" in result.out
    assert "  Ocean Freight  1700\n" in result.out
    (offer,) = shell.exchange.audit_log.offers_on(request)
    assert offer.offer.rates == {"Ocean Freight": 1700, "A=B": Decimal("140.50")}
    assert shell("bids", "list").rows[0]["OFFER"] == "1840.50 USD"

    shell.use_account(shell.exchange.shipper)
    (row,) = shell("offers", "list", "--state", "with-offers").rows
    assert (row["OFFER"], row["AMOUNT"], row["STATUS"]) == (str(offer.offer.index), "1840.50 USD", "pending")
    assert "terms            valid 14 days" in shell("offers", "get", str(request)).out
    approved = shell("offers", "approve", row["OFFER"], "--yes")
    assert "email      forwarder@demo.example\n" in approved.out
    (listing,) = shell("offers", "list", "--json").objects
    assert [(row["id"], row["status"].casefold()) for row in listing["offers"]] == [(offer.offer.index, "selected")]

    shell.use_account(shell.exchange.forwarder)
    (row,) = shell("bids", "list", "--state", "Selected").rows
    assert (row["STATUS"], row["CONTACT"]) == ("Selected", "Sylvia Ship <shipper@demo.example>")
    (bid,) = shell("bids", "list", "--json").objects
    assert bid["amount"] == "1840.50"


def test_offer_is_read_from_file(shell: Shell) -> None:
    request = shell.publish()
    Path("offer.json").write_text('{"amount": 1840.10, "currency": "USD", "rates": {"Ocean": 1700.10}}')
    result = shell("bids", "submit", str(request), "--file", "offer.json", "--rate", "Chassis=140", "--yes", "--json")
    assert result.status == 0, result.err
    (bid,) = result.objects
    assert bid["amount"] == "1840.10"
    assert bid["offer"]["rates"] == {"Ocean": "1700.10", "Chassis": "140"}


def test_write_is_last_call_of_a_command(shell: Shell) -> None:
    # The failure of a later call would look like the write's own.
    def last_path() -> str:
        return shell.exchange.audit_log.calls[-1].path

    shell.publish()
    assert shell(*SUBMIT, "--yes").status == 0
    assert last_path() == "quote/submitoffer"
    shell.use_account(shell.exchange.shipper)
    assert shell("offers", "approve", "5001", typed="y\n").status == 0
    assert last_path() == "quote/approveoffer"
    assert shell("requests", "publish", "--file", "-", "--yes", piped=json.dumps(DRAFT)).status == 0
    assert last_path() == "quote/submitrequest"
    Path("route.json").write_text(json.dumps(ROUTE))
    assert shell("routes", "create", "--file", "route.json", "--yes").status == 0
    assert last_path() == "route"


def test_without_terminal_and_yes_nothing_is_sent(shell: Shell) -> None:
    shell.publish()
    for command in (
        SUBMIT,
        ("offers", "approve", "5001"),
        ("offers", "decline", "5001"),
        ("requests", "publish", "--file", "-"),
    ):
        result = shell(*command, piped=json.dumps(DRAFT))
        assert result.status == Status.USAGE
        assert "there is no terminal to ask on: give --yes" in result.err
    assert not {"quote/submitoffer", "quote/submitrequest"} & {call.path for call in shell.exchange.audit_log.calls}
    assert shell.exchange.audit_log.changes == shell.exchange.audit_log.changes[:1]


def test_offer_is_sent_only_if_confirmed(shell: Shell) -> None:
    shell.publish()
    result = shell(*SUBMIT, typed="n\n")
    assert result.status == Status.USAGE
    assert "Offer 1840.50 USD on 20 pallets of Ceramic tiles, Hong Kong to Long Beach? [y/N]:" in result.err
    assert result.err.endswith("Error: nothing was sent\n")
    assert shell(*SUBMIT, typed="").status == Status.INTERRUPTED
    assert shell.exchange.audit_log.offers == []
    assert shell(*SUBMIT, typed="y\n").status == 0
    assert len(shell.exchange.audit_log.offers) == 1


def test_question_shows_whole_offer(shell: Shell) -> None:
    shell.publish()
    Path("offer.json").write_text(
        '{"amount": 2000, "currency": "USD", "rates": {"Ocean": 1700.5, "Docs\\n": 40}, "terms": "no\\nrefund"}'
    )
    result = shell("bids", "submit", "1", "--file", "offer.json", typed="n\n")
    assert result.out == ""
    assert result.err.startswith(
        "offer    2000 USD\n"
        "  Ocean  1700.5\n"
        "  Docs   40\n"
        "terms    no refund\n"
        "Check the fees: the amount is 259.5 more than their sum.\n"
        "Offer 2000 USD on 20 pallets of Ceramic tiles, Hong Kong to Long Beach? [y/N]:"
    )
    assert "quote/submitoffer" not in {call.path for call in shell.exchange.audit_log.calls}


def test_difference_between_fees_and_amount_is_warned_of(shell: Shell) -> None:
    shell.publish()
    result = shell(*SUBMIT, "--rate", "Ocean=1900", "--yes")
    assert result.status == 0
    assert result.err == "Check the fees: the amount is 59.50 less than their sum.\n"
    shell.publish()
    equal = shell("bids", "submit", "2", *SUBMIT[3:], "--rate", "Ocean=1840.5", "--yes")
    assert equal.err == ""


def test_earlier_offers_on_request_are_shown_first(shell: Shell) -> None:
    shell.publish()
    shell.publish()
    assert "already" not in shell(*SUBMIT, "--yes").err
    message = "You have 1 offer on request 1 already: 1840.50 USD (Available).\n"
    run = shell(*SUBMIT, "--again", typed="n\n")
    assert run.err.index(message) < run.err.index("Offer 1840.50 USD on")
    for options in (["--yes"], ["--yes", "--json"]):
        result = shell(*SUBMIT, "--again", *options)
        assert (result.status, result.err) == (0, message)
        message = "You have 2 offers on request 1 already: 1840.50 USD (Available), 1840.50 USD (Available).\n"
    assert shell("bids", "submit", "2", *SUBMIT[3:], "--yes").err == ""


@pytest.mark.parametrize("how", ["--yes", "terminal"])
def test_identical_offer_is_refused_without_again(shell: Shell, how: str) -> None:
    shell.publish()
    shell(*SUBMIT, "--yes")
    Path("offer.json").write_text('{"amount": 1840.5, "currency": 840}')
    for command in (SUBMIT, ("bids", "submit", "1", "--file", "offer.json")):
        result = shell(*command, "--yes") if how == "--yes" else shell(*command, typed="y\n")
        assert result.status == Status.USAGE
        assert "already: give --again to send another; nothing was sent\n" in result.err
        assert "[y/N]" not in result.err
    assert len(shell.exchange.audit_log.offers) == 1
    assert shell("bids", "submit", "1", "--amount", "1840.50", "--currency", "EUR", "--yes").status == 0
    assert shell("bids", "submit", "1", "--amount", "1840.49", "--currency", "USD", "--yes").status == 0
