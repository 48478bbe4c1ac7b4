"""Operations of section 4 of the service document, at all their addresses."""

from __future__ import annotations

from collections.abc import Mapping

from freight_exchange.sandbox.core.operations import bids, offers, reference_lists, requests, routes
from freight_exchange.sandbox.core.request_context import Operation

__all__ = ["OPERATIONS"]

OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", "quote/request"): requests.open_requests,
    ("POST", "quote/request"): requests.publish_or_submit,
    ("POST", "quote/submitrequest"): requests.publish,
    ("POST", "request"): requests.publish,
    ("POST", "quote/getrequests"): requests.search,
    ("GET", "route"): routes.search,
    ("POST", "route"): routes.create,
    ("PUT", "route"): routes.update,
    ("GET", "quote/offer"): offers.listing,
    ("POST", "quote/offer"): offers.respond,
    ("POST", "quote/getoffers"): offers.search,
    ("POST", "quote/approveoffer"): offers.respond,
    ("GET", "quote/bid"): bids.listing,
    ("POST", "quote/bid"): bids.submit,
    ("POST", "quote/submitoffer"): bids.submit,
    ("GET", "carrier"): reference_lists.carriers,
    ("GET", "currency"): reference_lists.currencies,
}
