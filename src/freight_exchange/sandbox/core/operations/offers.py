"""A shipper's requests with their offers, and the answer to an offer (service document, 4.6 to 4.8)."""

from __future__ import annotations

from collections.abc import Mapping

from freight_exchange.sandbox.core.paging import page, refuse_missing
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.core.validation import Refusal
from freight_exchange.sandbox.model.state import Account, Offer, Request
from freight_exchange.sandbox.rendering.shapes import Json

__all__ = ["listing", "respond", "search"]

_BRIEF: Mapping[str, object] = {
    "empty_object": {},
    "empty_list": [],
    "null": None,
    "empty_offers": {"offers": {}},
    "message": {"message": "The offer has been declined."},
}
"""Replies to a decline that have no listing."""

_TYPES = frozenset({"all", "offers", "sel", "nsel"})


def listing(context: RequestContext) -> Answer:
    """List the shipper's requests (GET quote/offer)."""
    return _listing(context, "all")


def search(context: RequestContext) -> Answer:
    """List the shipper's requests of a type (POST quote/getoffers)."""
    return _listing(context, context.fields.optional_word("type", _TYPES, "all"))


def _listing(context: RequestContext, kind: str) -> Answer:
    context.require_role("shipper")
    database, fields, profile = context.database, context.fields, context.profile
    if "index" in fields:
        index = fields.identifier("index")
        requests_of = database.requests_of(context.account, context.read_time)
        found = [request for request in requests_of if request.index == index and _matches(context, request, kind)]
        if not found:
            refuse_missing(profile)
        return Answer(context.renderer.collection("offers", [_record(context, request) for request in found]))
    before = profile.rights == "before_paging"
    listed = (
        database.requests_of(context.account, context.read_time) if before else database.all_requests(context.read_time)
    )
    rows = [request for request in listed if _matches(context, request, kind)]
    rows = database.sorter.requests(profile.order, rows)
    visible = page(context, rows, profile.default_rows, lambda request: request.owner == context.account.index)
    return Answer(context.renderer.collection("offers", [_record(context, request) for request in visible]))


def _matches(context: RequestContext, request: Request, kind: str) -> bool:
    match kind:
        case "offers":
            return bool(context.database.offers_on(request.index, context.read_time))
        case "sel":
            return request.state == "selected"
        case "nsel":
            return request.state != "selected"
        case _:
            return True


def _record(context: RequestContext, request: Request) -> Json:
    offers = context.database.offers_on(request.index, context.read_time)
    if request.selected is not None and context.profile.selected_offer_shape == "entry":
        offers = [offer for offer in offers if offer.index == request.selected]
    return context.renderer.listing(request, offers, _forwarder(context, request), "listing")


def _forwarder(context: RequestContext, request: Request) -> Account | None:
    """Return the account whose offer is selected, the only forwarder whom the shipper sees."""
    selected = context.database.offers.get(request.selected) if request.selected is not None else None
    return context.database.accounts[selected.account] if selected is not None else None


def respond(context: RequestContext) -> Answer:
    """Approve or decline an offer (POST quote/approveoffer and POST quote/offer)."""
    context.require_role("shipper")
    index = context.fields.identifier("offerIndex")
    approved = context.fields.integer("approved", least=0, most=1)
    offer = context.database.offers.get(index)
    request = context.database.requests.get(offer.request) if offer is not None else None
    if offer is None or request is None or request.owner != context.account.index or offer.status == "removed":
        raise Refusal(context.profile.unknown_id_status, "There is no such offer.", "offerIndex")
    if request.state == "withdrawn":
        raise Refusal(400, "The rate request is withdrawn.", "offerIndex")
    request, offer = _approve(context, request, offer) if approved else _decline(context, request, offer)
    if not approved and context.profile.decline_reply != "listing":
        return _decline_answer(context)
    visible = [offer] if offer.status != "removed" else []
    record = context.renderer.listing(request, visible, _forwarder(context, request) if approved else None, "approval")
    return context.write_answer(context.renderer.collection("offers", [record]))


def _decline_answer(context: RequestContext) -> Answer:
    """Answer a decline without a listing."""
    if context.profile.decline_reply == "no_body":
        return Answer(status=context.profile.write_status, is_empty=True)
    return context.write_answer(_BRIEF[context.profile.decline_reply])


def _approve(context: RequestContext, request: Request, offer: Offer) -> tuple[Request, Offer]:
    behaviour = context.profile.second_approval
    if request.selected is not None:
        if behaviour == "repeated" and request.selected == offer.index:
            return request, offer
        previous = context.database.offers.get(request.selected)
        if behaviour != "switched" or previous is None or previous.index == offer.index:
            raise Refusal(400, "An offer has already been selected.", "offerIndex")
        context.database.set_offer_status(previous, "pending", context.now)
    elif offer.status != "pending":
        raise Refusal(400, "The offer is no longer pending.", "offerIndex")
    return context.database.select(request, offer, context.now, context.call)


def _decline(context: RequestContext, request: Request, offer: Offer) -> tuple[Request, Offer]:
    """Decline an offer. The document does not show the effect, so the profile decides."""
    if offer.status != "pending":
        raise Refusal(400, "The offer is no longer pending.", "offerIndex")
    outcome = context.profile.decline_outcome
    if outcome == "unchanged":
        return request, offer
    return request, context.database.set_offer_status(offer, outcome, context.now)
