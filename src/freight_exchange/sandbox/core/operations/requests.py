"""Rate requests: publish, and the two listings for forwarders (service document, 4.2 to 4.4)."""

from __future__ import annotations

import re

from freight_exchange.sandbox.core.operations.bids import submit
from freight_exchange.sandbox.core.paging import page, refuse_missing
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.core.validation import Refusal
from freight_exchange.sandbox.model.state import Cargo, Request

__all__ = ["open_requests", "publish", "publish_or_submit", "search"]

_REQUEST_TYPES = frozenset({"Shipping", "Air Freight", "Trucking", "Warehousing"})
_PACKAGINGS = frozenset({"pallet", "carton", "piece"})
_INCOTERM = re.compile(r"[A-Z]{3}\Z")
_SEARCH_TYPES = frozenset({"all", "accept", "pending"})
_DEFAULT_WINDOW = 3600
_MAX_WINDOW = 432000


def publish_or_submit(context: RequestContext) -> Answer:
    """Publish a request, or submit an offer: a sample in the document posts offers to quote/request too (4.9)."""
    return submit(context) if "requestIndex" in context.fields else publish(context)


def publish(context: RequestContext) -> Answer:
    context.require_role("shipper")
    fields = context.fields
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
    request = context.database.publish(context.account, cargo, context.now, context.call)
    return context.write_answer(context.renderer.collection("raterequests", [context.renderer.request(request)]))


def open_requests(context: RequestContext) -> Answer:
    """List the open requests of other parties (GET quote/request)."""
    context.require_role("forwarder")
    return _listing(context, "open", default_rows=10)


def search(context: RequestContext) -> Answer:
    """List the requests available to a forwarder, selected ones included (POST quote/getrequests)."""
    context.require_role("forwarder")
    return _listing(context, context.fields.optional_word("type", _SEARCH_TYPES, "all"), default_rows=20)


def _listing(context: RequestContext, kind: str, *, default_rows: int) -> Answer:
    fields, profile, renderer = context.fields, context.profile, context.renderer
    window = _window(context)
    if "index" in fields:
        request = context.database.requests.seen(fields.identifier("index"), context.read_time)
        narrowed = profile.since_lookup == "applied" or (
            profile.since_lookup == "applied_if_sent" and "secondsSinceUpdate" in fields
        )
        found = [request] if request is not None and _is_listed(context, request, kind) else []
        found = [request for request in found if _is_visible(context, request)]
        if narrowed:
            found = [request for request in found if request.updated >= context.now - window]
        if not found:
            refuse_missing(profile)
        return Answer(renderer.collection("raterequests", [renderer.request(request) for request in found]))
    since = context.now - window
    rows = [
        request
        for request in context.database.requests.recent(context.read_time, since)
        if request.updated >= since and _is_listed(context, request, kind)
    ]
    rows = context.database.sorter.requests(profile.order, rows)
    visible = page(context, rows, default_rows, lambda request: _is_visible(context, request))
    return Answer(renderer.collection("raterequests", [renderer.request(request) for request in visible]))


def _window(context: RequestContext) -> int:
    if "secondsSinceUpdate" not in context.fields:
        return _DEFAULT_WINDOW
    if context.profile.since_out_of_range == "clamped":
        return min(max(context.fields.integer("secondsSinceUpdate"), 1), _MAX_WINDOW)
    return context.fields.integer("secondsSinceUpdate", least=1, most=_MAX_WINDOW)


def _is_visible(context: RequestContext, request: Request) -> bool:
    """Return whether the caller may see the request (service document, 5)."""
    if request.owner == context.account.index:
        return False
    match context.profile.hidden:
        case "rows":
            return request.index % 3 != 0
        case "runs":
            return request.index // 10 % 2 == 0
        case _:
            return True


def _is_listed(context: RequestContext, request: Request, kind: str) -> bool:
    """Return whether a listing of this type has the request."""
    if request.state == "withdrawn":
        return False
    match kind:
        case "accept":
            return request.state == "selected"
        case "pending" if context.profile.pending_means == "no_offers":
            return request.state == "open" and not context.database.offers_on(request.index, context.read_time)
        case "all":
            return request.state == "open" or context.profile.search_default == "all"
        case _:
            return request.state == "open"
