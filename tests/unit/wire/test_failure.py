"""Tests of sentences that mean an empty listing, and of errors that resemble them."""

from __future__ import annotations

import pytest

from freight_exchange import wire

EMPTY_SENTENCES = [
    "No records found.",
    "no records found",
    "NO RECORDS FOUND",
    "No  records\nfound",
    "No record found",
    "No records were found.",
    "No results found.",
    "No data found",
    "No rate requests found",
    "No raterequests found.",
    "No requests found",
]
OTHER = [
    "There are no open requests",
    "No results.",
    "0 records found",
    "Record not found.",
    "No routes found.",
    "",
    "Not Found",
    "Nothing here",
    "The request could not be routed",
    "Your request could not be processed",
    "No data available from upstream",
    "No data available",
    "No data",
    "No healthy upstream for request",
    "No healthy upstream for requests",
    "no handler for request found",
    "Service unavailable: could not process request",
    "Invalid request: tenant not found",
    "Request: tenant not found",
    "Request handler could not be found",
    "The requested item was not found",
    "The requested URL was not found on this server. No records found.",
    "Request not allowed",
    "Request failed with status code 404",
    "The request is not valid for this tenant",
    "The server is no longer accepting requests",
    "We are no longer accepting requests",
    "No more requests",
    "No more requests found",
    "0 requests remaining",
    "10 requests.",
    "No records could be read",
    "No requests can be taken at present",
    "No results available from the backend",
    "No records found: the query failed",
    "Do not send requests",
    "Cannot GET /requests",
    "no Route matched with those values",
    "no route",
    "No route found",
    "No item",
    "No request",
    "There is no such item.",
    "Could not find the data",
    # Of other records,
    "User record not found",
    "Session data not found",
    "No session data found",
    "API key record not found",
    "Company record does not exist",
    "No DNS records found",
    "No record found for this user",
    "No data found for your account",
    "Record for the session was not found",
    # of more than that,
    "No results found. Please sign in again.",
    "Record not found: shard 3 is offline",
    "No data found (replica out of sync)",
    "No results within the given time",
    "No records found in time",
    "No records found, try again",
    "0 of 5 records found",
    "No records found, and more could not be read",
    # or about a reader who has none.
    "No requests are accepted",
    "No requests are allowed for this account",
    "You have made no requests",
    "Page with no records found",
]


@pytest.mark.parametrize("sentence", EMPTY_SENTENCES)
def test_known_sentences_mean_an_empty_listing(sentence: str) -> None:
    assert wire.reports_no_records(sentence, wire.REQUESTS.collection)


@pytest.mark.parametrize("sentence", OTHER)
def test_any_other_sentence_may_be_a_gateways(sentence: str) -> None:
    assert not wire.reports_no_records(sentence, wire.REQUESTS.collection)


@pytest.mark.parametrize("kind", [wire.OFFERS, wire.BIDS, wire.ROUTES, wire.CARRIERS, wire.CURRENCIES])
def test_each_collection_by_its_own_name(kind: wire.Kind[object]) -> None:
    assert wire.reports_no_records("No records found.", kind.collection)
    assert wire.reports_no_records(f"No {kind.collection} found.", kind.collection)
    assert not wire.reports_no_records("No rate requests found.", kind.collection)


def test_unknown_collection_has_only_the_general_sentence() -> None:
    assert wire.reports_no_records("No records found.", "bid")
    assert not wire.reports_no_records("No bids found.", "bid")
