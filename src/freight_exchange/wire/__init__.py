"""Wire JSON to models and back: pure functions, and the only place that knows a wire spelling."""

from __future__ import annotations

from freight_exchange.wire.absence import says_no_records
from freight_exchange.wire.decoding import (
    BIDS,
    CARRIERS,
    CURRENCIES,
    MOST_DESCRIBED,
    OFFERS,
    REQUESTS,
    ROUTES,
    Kind,
    Rows,
    bid,
    index_of_raw,
    one,
    rows,
    written_route,
)
from freight_exchange.wire.encoding import (
    Body,
    CarrierField,
    CurrencyField,
    check_paired,
    credentials,
    list_parameters,
    offer,
    request_draft,
    response,
    route,
    route_filters,
)
from freight_exchange.wire.json import dump, parse
from freight_exchange.wire.keeping import keep, keep_bid, recall, recall_bid
from freight_exchange.wire.login import Login, login, rejection, sentence, sentence_of_text, unauthorized

__all__ = [
    "BIDS",
    "CARRIERS",
    "CURRENCIES",
    "MOST_DESCRIBED",
    "OFFERS",
    "REQUESTS",
    "ROUTES",
    "Body",
    "CarrierField",
    "CurrencyField",
    "Kind",
    "Login",
    "Rows",
    "bid",
    "check_paired",
    "credentials",
    "dump",
    "index_of_raw",
    "keep",
    "keep_bid",
    "list_parameters",
    "login",
    "offer",
    "one",
    "parse",
    "recall",
    "recall_bid",
    "rejection",
    "request_draft",
    "response",
    "route",
    "route_filters",
    "rows",
    "says_no_records",
    "sentence",
    "sentence_of_text",
    "unauthorized",
    "written_route",
]
