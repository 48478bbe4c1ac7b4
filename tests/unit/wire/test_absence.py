"""Which sentences mean that a listing is empty, and which are the errors that they sound like."""

from __future__ import annotations

import pytest

from freight_exchange import wire

SAID = [
    "No records found.",
    "no records found",
    "NO RECORDS FOUND",
    "No  records\nfound",
    "No rate requests found",
    "No open rate requests found.",
    "No matching air freight requests found.",
    "There are no open requests",
    "There are no requests.",
    "There are currently no offers.",
    "No requests",
    "No results.",
    "Your search returned no results.",
    "No requests matching your criteria",
    "No requests in the last 30 seconds.",
    "No results for this search.",
    "No carriers available.",
    "0 records found",
    "Zero results.",
    "No data found",
    "No data was found.",
    "No request found",
    "No such record exists.",
    "No record with index 5 was found.",
    "Record not found.",
    "Records could not be found",
    "Request with index 5 was not found",
    "Request 5 does not exist.",
    "This request doesn't exist.",
    "The offer couldn\u2019t be found.",
    "Item not found",
    "No requests are available",
    "No requests are available.",
    "No offers were found.",
    "No rate-requests found",
    "No raterequests found.",
    "No records could be found.",
    "Sorry, no results found.",
    "We found no matching requests.",
    "There are no open rate requests at the moment.",
    "No carriers available at this time.",
    "No requests updated since 2024-01-01 00:00:00",
    "No requests were updated within the last 432000 seconds.",
    "No offers found for your request.",
    "No bids found for request 5",
    "No open requests for your company",
    "No results found. Please try another search.",
    "No routes between this origin and destination",
    "No active rate requests in this time window.",
    "No rate requests updated since then",
    "You have no bids.",
    "You currently have no offers",
    "There are no offers for this rate request yet.",
    "No bids have been submitted so far.",
    "No record(s) found.",
]
OTHER = [
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


@pytest.mark.parametrize("sentence", SAID)
def test_what_speaks_of_records_that_are_not_there(sentence: str) -> None:
    assert wire.says_no_records(sentence)


@pytest.mark.parametrize("sentence", OTHER)
def test_what_may_be_a_gateways_is_none_of_them(sentence: str) -> None:
    assert not wire.says_no_records(sentence)


@pytest.mark.parametrize("word", ["at this time ", "for the request 5 ", "could be found ", "open rate request "])
def test_a_long_sentence_is_read_in_no_time(word: str) -> None:
    assert not wire.says_no_records(f"No requests {word * 20_000}nonsense")
    assert not wire.says_no_records(f"{word * 20_000}not found nonsense")


def test_routes_count_only_where_routes_were_asked_for() -> None:
    assert wire.says_no_records("No routes found.", wire.ROUTES.collection)
    assert not wire.says_no_records("No routes found.", wire.REQUESTS.collection)
    assert not wire.says_no_records("no route found", wire.ROUTES.collection)
