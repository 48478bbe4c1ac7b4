"""Tests of `offers approve` and `offers decline`; `test_bids` lists and reads offers."""

from __future__ import annotations

import re

import pytest
from tests.cli.harness import SUBMIT, Shell

from freight_exchange.cli.run import Status
from freight_exchange.testing import Fault
from freight_sandbox.faults import json_reply


@pytest.fixture
def shipper(shell: Shell) -> Shell:
    """Return the shell of a shipper with offer 5001 on a request."""
    shell.publish()
    shell(*SUBMIT, "--yes")
    shell.use_account(shell.exchange.shipper)
    return shell


def test_offer_is_declined(shipper: Shell) -> None:
    (row,) = shipper("offers", "list").rows
    assert shipper("offers", "decline", row["OFFER"], "--yes").status == 0
    assert shipper.exchange.audit_log.calls[-1].parameters["approved"] == 0


@pytest.mark.parametrize("command", ["approve", "decline"])
def test_unknown_offer_is_not_found(shipper: Shell, command: str) -> None:
    for result in (
        shipper("offers", command, "77", "--yes"),
        shipper("offers", command, "77", "--yes", "--json"),
        shipper("offers", command, "77", typed="y\n"),
    ):
        assert (result.status, result.out) == (Status.NOT_FOUND, "")
        assert "There is no such offer." in result.err
        assert "Offer 77 is not among those that your requests show.\n" in result.err


def test_offers_are_compared_in_one_currency(shipper: Shell) -> None:
    result = shipper("offers", "compare", "1", "--to", "EUR", "--rate", "usd=0.9")
    (row,) = result.rows
    assert (row["RANK"], row["OFFER"], row["TOTAL"], row["OFFERED"]) == ("1", "5001", "1656.45", "1840.50 USD")
    (comparison,) = shipper("offers", "compare", "1", "--to", "USD", "--json").objects
    assert comparison["offers"][0]["total"] == "1840.50"


def test_offer_is_watched_as_line_and_as_json(shipper: Shell) -> None:
    line = shipper("offers", "watch", "--count", "1").out
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  new        request 1  offer 5001  1840.50 USD  Hong Kong to Long Beach\n", line
    )
    (event,) = shipper("offers", "watch", "1", "--count", "1", "--json").objects
    assert (event["object"], event["kind"], event["offer"]["id"]) == ("offer_event", "new", 5001)


def test_watch_goes_on_if_the_currencies_cannot_be_read(shipper: Shell) -> None:
    refusal = json_reply(400, {"message": "Not now."})
    shipper.exchange.faults.add(Fault(name="refusal", path="currency", processed=False, mutate=refusal))
    result = shipper("offers", "watch", "--count", "1")
    assert "offer 5001  1840.50 (currency 840)" in result.out
    assert "The codes of currencies cannot be read, so their indexes are shown" in result.err


def test_watch_with_store_continues_after_last_event(shipper: Shell) -> None:
    options = ("--store", "tender.db", "--interval", "1s", "--count", "1", "--json")
    (event,) = shipper("offers", "watch", *options).objects
    assert event["kind"] == "new"
    shipper("offers", "approve", "5001", "--yes")
    (event,) = shipper("offers", "watch", *options).objects
    assert (event["kind"], event["answer"]) == ("answered", "approved")


def test_offers_are_exported_with_a_column_for_each_fee(shipper: Shell) -> None:
    header, row = shipper("offers", "export", "--csv").out.splitlines()
    assert header.startswith("request,ref_id,commodity,origin,destination,offer,status,amount,currency,terms")
    assert row.startswith("1,")
    assert ",5001,pending,1840.50,USD," in row
    assert shipper("offers", "export", "1").out.splitlines() == [header, row]
    (record,) = shipper("offers", "export", "--json").objects
    assert record["fees"] == {} or set(record["fees"]) <= set(header.split(","))


def test_answer_to_a_hidden_offer_shows_the_sentence_of_the_service(shipper: Shell) -> None:
    """Fault 34: after an approval the service lists the approved offer alone, so absence proves nothing."""
    shipper.use_account(shipper.exchange.forwarder)
    shipper("bids", "submit", "1", "--amount", "1900", "--currency", "USD", "--yes")
    shipper.use_account(shipper.exchange.shipper)
    assert shipper("offers", "approve", "5002", "--yes").status == 0
    for typed in ("y\n", None):
        result = shipper("offers", "approve", "5001", *([] if typed else ["--yes"]), typed=typed)
        assert result.status == Status.NOT_FOUND
        assert "An offer has already been selected." in result.err
        assert "there is no offer" not in result.err
    assert (
        "Approve offer 5001: your requests do not show it, perhaps because another"
        in shipper("offers", "approve", "5001", typed="n\n").err
    )
