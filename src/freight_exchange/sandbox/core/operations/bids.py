"""A forwarder's offers: submit and list (service document, 4.9 and 4.10)."""

from __future__ import annotations

from freight_exchange.sandbox.core.paging import page
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.core.validation import Refusal
from freight_exchange.sandbox.model.state import Offer, Request

__all__ = ["listing", "submit"]

_TYPES = frozenset({"active", "nsel", "sel", "offers"})


def submit(context: RequestContext) -> Answer:
    context.require_role("forwarder")
    fields, profile, database = context.fields, context.profile, context.database
    index = fields.identifier("requestIndex")
    amount = fields.number("offer")
    currency = _currency(context)
    rates = fields.amounts("rates")
    terms = fields.optional_text("terms")
    request = database.requests.get(index)
    if request is None or request.state == "withdrawn" or request.owner == context.account.index:
        raise Refusal(profile.unknown_id_status, "There is no such rate request.", "requestIndex")
    if request.state == "selected" and profile.late_offer == "400":
        raise Refusal(400, "The rate request is closed.", "requestIndex")
    if profile.second_offer != "added":
        for earlier in database.offers_on(index, context.now):
            if earlier.account == context.account.index and earlier.status == "pending":
                if profile.second_offer == "400":
                    raise Refusal(400, "You have already submitted an offer.", "requestIndex")
                database.set_offer_status(earlier, "removed", context.now)
    offer = database.offer(
        context.account, index, amount, currency, rates, terms, context.now, context.call, profile.amount_rounding
    )
    return context.write_answer({"bid": context.renderer.submitted(request, offer)})


def _currency(context: RequestContext) -> int:
    """Read the currency. The document names the field currencyIndex, its sample currencyId (4.10)."""
    fields, wanted = context.fields, context.profile.currency_field
    if wanted == "either":
        wanted = "currencyIndex" if "currencyIndex" in fields or "currencyId" not in fields else "currencyId"
    currency = fields.identifier(wanted)
    if currency not in context.database.currencies:
        raise Refusal(400, "There is no such currency.", wanted)
    return currency


def listing(context: RequestContext) -> Answer:
    context.require_role("forwarder")
    database, profile, renderer = context.database, context.profile, context.renderer
    kind = context.fields.optional_word("type", _TYPES, profile.bid_default)
    account = context.account.index
    pairs: dict[int, Request] = {}
    offers: list[Offer] = []
    own = profile.rights == "before_paging"
    listed = database.offers_by(context.account, context.read_time) if own else database.all_offers(context.read_time)
    for offer in listed:
        # With late visibility an offer can show before its request.
        request = database.requests.seen(offer.request, context.read_time)
        if request is not None and _matches(kind, request, offer):
            pairs[offer.index] = request
            offers.append(offer)
    offers = database.sorter.offers(profile.order, offers)
    records = []
    for offer in page(context, offers, profile.default_rows, lambda offer: offer.account == account):
        request = pairs[offer.index]
        selected = request.selected == offer.index
        records.append(renderer.bid(request, offer, database.accounts[request.owner] if selected else None))
    return Answer(renderer.collection("bids", records))


def _matches(kind: str, request: Request, offer: Offer) -> bool:
    active = request.state == "open" and offer.status == "pending"
    selected = request.selected == offer.index
    match kind:
        case "active":
            return active
        case "sel":
            return selected
        case "nsel":
            return not active and not selected
        case _:
            return True
