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
]


@pytest.mark.parametrize("sentence", SAID)
def test_what_speaks_of_records_that_are_not_there(sentence: str) -> None:
    assert wire.says_no_records(sentence)


@pytest.mark.parametrize("sentence", OTHER)
def test_what_may_be_a_gateways_is_none_of_them(sentence: str) -> None:
    assert not wire.says_no_records(sentence)


def test_routes_count_only_where_routes_were_asked_for() -> None:
    assert wire.says_no_records("No routes found.", wire.ROUTES.collection)
    assert not wire.says_no_records("No routes found.", wire.REQUESTS.collection)
    assert not wire.says_no_records("no route found", wire.ROUTES.collection)
