"""The shipper's side: its requests with their offers, and answering one (service document, 4.6 to 4.8)."""

from __future__ import annotations

from collections.abc import Mapping

from freight_exchange.sandbox.core.paging import missing, page
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.core.state import Account, Offer, Request
from freight_exchange.sandbox.core.validation import Refusal
from freight_exchange.sandbox.rendering.shapes import Json

__all__ = ["listing", "respond", "search"]

_BRIEF: Mapping[str, object] = {
    "empty_object": {},
    "empty_list": [],
    "null": None,
    "empty_offers": {"offers": {}},
    "message": {"message": "The offer has been declined."},
}
"""Replies to a decline that show no listing."""

_TYPES = frozenset({"all", "offers", "sel", "nsel"})


def listing(visit: RequestContext) -> Answer:
    """GET quote/offer."""
    return _listing(visit, "all")


def search(visit: RequestContext) -> Answer:
    """POST quote/getoffers."""
    return _listing(visit, visit.fields.optional_word("type", _TYPES, "all"))


def _listing(visit: RequestContext, kind: str) -> Answer:
    visit.side("shipper")
    books, fields, profile = visit.books, visit.fields, visit.profile
    if "index" in fields:
        index = fields.identifier("index")
        owned = books.owned(visit.account, visit.seen_at)
        found = [request for request in owned if request.index == index and _covers(visit, request, kind)]
        if not found:
            missing(profile)
        return Answer(visit.renderer.collection("offers", [_record(visit, request) for request in found]))
    before = profile.rights == "before_paging"
    listed = books.owned(visit.account, visit.seen_at) if before else books.all_requests(visit.seen_at)
    rows = [request for request in listed if _covers(visit, request, kind)]
    rows = books.sorter.requests(profile.order, rows)
    shown = page(visit, rows, profile.default_rows, lambda request: request.owner == visit.account.index)
    return Answer(visit.renderer.collection("offers", [_record(visit, request) for request in shown]))


def _covers(visit: RequestContext, request: Request, kind: str) -> bool:
    match kind:
        case "offers":
            return bool(visit.books.offers_on(request.index, visit.seen_at))
        case "sel":
            return request.state == "selected"
        case "nsel":
            return request.state != "selected"
        case _:
            return True


def _record(visit: RequestContext, request: Request) -> Json:
    offers = visit.books.offers_on(request.index, visit.seen_at)
    if request.selected is not None and visit.profile.selected_offer_shape == "entry":
        offers = [offer for offer in offers if offer.index == request.selected]
    return visit.renderer.listing(request, offers, _forwarder(visit, request), "listing")


def _forwarder(visit: RequestContext, request: Request) -> Account | None:
    """The one whose offer is selected: nobody else's name ever reaches the shipper."""
    selected = visit.books.offers.get(request.selected) if request.selected is not None else None
    return visit.books.accounts[selected.account] if selected is not None else None


def respond(visit: RequestContext) -> Answer:
    """POST quote/approveoffer and POST quote/offer."""
    visit.side("shipper")
    index = visit.fields.identifier("offerIndex")
    approved = visit.fields.integer("approved", least=0, most=1)
    offer = visit.books.offers.get(index)
    request = visit.books.requests.get(offer.request) if offer is not None else None
    if offer is None or request is None or request.owner != visit.account.index or offer.status == "removed":
        raise Refusal(visit.profile.unknown_id_status, "There is no such offer.", "offerIndex")
    if request.state == "withdrawn":
        raise Refusal(400, "The rate request is withdrawn.", "offerIndex")
    request, offer = _approve(visit, request, offer) if approved else _decline(visit, request, offer)
    if not approved and visit.profile.decline_reply != "listing":
        return _briefly(visit)
    shown = [offer] if offer.status != "removed" else []
    record = visit.renderer.listing(request, shown, _forwarder(visit, request) if approved else None, "approval")
    return visit.written(visit.renderer.collection("offers", [record]))


def _briefly(visit: RequestContext) -> Answer:
    """Answer a decline without a listing."""
    if visit.profile.decline_reply == "no_body":
        return Answer(status=visit.profile.write_status, empty=True)
    return visit.written(_BRIEF[visit.profile.decline_reply])


def _approve(visit: RequestContext, request: Request, offer: Offer) -> tuple[Request, Offer]:
    habit = visit.profile.second_approval
    if request.selected is not None:
        if habit == "repeated" and request.selected == offer.index:
            return request, offer
        previous = visit.books.offers.get(request.selected)
        if habit != "switched" or previous is None or previous.index == offer.index:
            raise Refusal(400, "An offer has already been selected.", "offerIndex")
        visit.books.set_offer(previous, "pending", visit.now)
    elif offer.status != "pending":
        raise Refusal(400, "The offer is no longer pending.", "offerIndex")
    return visit.books.select(request, offer, visit.now, visit.call)


def _decline(visit: RequestContext, request: Request, offer: Offer) -> tuple[Request, Offer]:
    """What declining does is not shown: the profile decides."""
    if offer.status != "pending":
        raise Refusal(400, "The offer is no longer pending.", "offerIndex")
    outcome = visit.profile.decline_outcome
    if outcome == "unchanged":
        return request, offer
    return request, visit.books.set_offer(offer, outcome, visit.now)
