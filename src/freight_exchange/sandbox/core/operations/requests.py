"""Rate requests: publishing, and the two lists for forwarders (service document, 4.2 to 4.4)."""

from __future__ import annotations

import re

from freight_exchange.sandbox.core.operations.bids import submit
from freight_exchange.sandbox.core.paging import missing, page
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.core.state import Cargo, Request
from freight_exchange.sandbox.core.validation import Refusal

__all__ = ["open_requests", "publish", "publish_or_submit", "search"]

_REQUEST_TYPES = frozenset({"Shipping", "Air Freight", "Trucking", "Warehousing"})
_PACKAGINGS = frozenset({"pallet", "carton", "piece"})
_INCOTERM = re.compile(r"[A-Z]{3}\Z")
_SEARCH_TYPES = frozenset({"all", "accept", "pending"})
_DEFAULT_WINDOW = 3600
_LONGEST_WINDOW = 432000


def publish_or_submit(visit: RequestContext) -> Answer:
    """POST quote/request publishes, but the bidding page's sample posts an offer there (4.9)."""
    return submit(visit) if "requestIndex" in visit.fields else publish(visit)


def publish(visit: RequestContext) -> Answer:
    visit.side("shipper")
    fields = visit.fields
    cargo = Cargo(
        commodityname=fields.text("commodityname"),
        requesttype=fields.word("requesttype", _REQUEST_TYPES),
        origin=fields.text("origin"),
        destination=fields.text("destination"),
        arrival=fields.date("arrival"),
        packaging=fields.word("packaging", _PACKAGINGS),
        quantity=fields.integer("quantity", least=1),
        length=fields.number("length"),
        width=fields.number("width"),
        height=fields.number("height"),
        weight=fields.number("weight"),
        incoterm=fields.text("incoterm"),
        hazardous=fields.integer("hazardous", least=0, most=1),
        notes=fields.optional_text("notes") or "",
    )
    if not _INCOTERM.match(cargo.incoterm):
        raise Refusal(400, "The field incoterm must be a 3-letter Incoterm.", "incoterm")
    request = visit.books.publish(visit.account, cargo, visit.now, visit.call)
    return visit.written(visit.renderer.collection("raterequests", [visit.renderer.request(request)]))


def open_requests(visit: RequestContext) -> Answer:
    """GET quote/request: the open requests of other parties."""
    visit.side("forwarder")
    return _listing(visit, "open", default_rows=10)


def search(visit: RequestContext) -> Answer:
    """POST quote/getrequests: the requests available to a forwarder, selected ones among them."""
    visit.side("forwarder")
    return _listing(visit, visit.fields.optional_word("type", _SEARCH_TYPES, "all"), default_rows=20)


def _listing(visit: RequestContext, kind: str, *, default_rows: int) -> Answer:
    fields, profile, renderer = visit.fields, visit.profile, visit.renderer
    window = _window(visit)
    if "index" in fields:
        request = visit.books.requests.seen(fields.identifier("index"), visit.seen_at)
        narrowed = profile.since_lookup == "applied" or (
            profile.since_lookup == "applied_if_sent" and "secondsSinceUpdate" in fields
        )
        found = [request] if request is not None and _shown(visit, request, kind) else []
        found = [request for request in found if _is_visible(visit, request)]
        if narrowed:
            found = [request for request in found if request.updated >= visit.now - window]
        if not found:
            missing(profile)
        return Answer(renderer.collection("raterequests", [renderer.request(request) for request in found]))
    since = visit.now - window
    rows = [
        request
        for request in visit.books.requests.recent(visit.seen_at, since)
        if request.updated >= since and _shown(visit, request, kind)
    ]
    rows = visit.books.sorter.requests(profile.order, rows)
    shown = page(visit, rows, default_rows, lambda request: _is_visible(visit, request))
    return Answer(renderer.collection("raterequests", [renderer.request(request) for request in shown]))


def _window(visit: RequestContext) -> int:
    if "secondsSinceUpdate" not in visit.fields:
        return _DEFAULT_WINDOW
    if visit.profile.since_out_of_range == "clamped":
        return min(max(visit.fields.integer("secondsSinceUpdate"), 1), _LONGEST_WINDOW)
    return visit.fields.integer("secondsSinceUpdate", least=1, most=_LONGEST_WINDOW)


def _is_visible(visit: RequestContext, request: Request) -> bool:
    """Whether the caller's rights cover the request (service document, 5)."""
    if request.owner == visit.account.index:
        return False
    match visit.profile.hidden:
        case "rows":
            return request.index % 3 != 0
        case "runs":
            return request.index // 10 % 2 == 0
        case _:
            return True


def _shown(visit: RequestContext, request: Request, kind: str) -> bool:
    """Whether the request is there, and the type asked for covers it."""
    if request.state == "withdrawn":
        return False
    match kind:
        case "accept":
            return request.state == "selected"
        case "pending" if visit.profile.pending_means == "no_offers":
            return request.state == "open" and not visit.books.offers_on(request.index, visit.seen_at)
        case "all":
            return request.state == "open" or visit.profile.search_default == "all"
        case _:
            return request.state == "open"
