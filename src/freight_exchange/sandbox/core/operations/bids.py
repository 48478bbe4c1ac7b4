"""The forwarder's offers: submitting one, and listing them (service document, 4.9 and 4.10)."""

from __future__ import annotations

from freight_exchange.sandbox.core.paging import page
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.core.state import Offer, Request
from freight_exchange.sandbox.core.validation import Refusal

__all__ = ["listing", "submit"]

_TYPES = frozenset({"active", "nsel", "sel", "offers"})


def submit(visit: RequestContext) -> Answer:
    visit.side("forwarder")
    fields, profile, books = visit.fields, visit.profile, visit.books
    index = fields.identifier("requestIndex")
    amount = fields.number("offer")
    currency = _currency(visit)
    rates = fields.amounts("rates")
    terms = fields.optional_text("terms")
    request = books.requests.get(index)
    if request is None or request.state == "withdrawn" or request.owner == visit.account.index:
        raise Refusal(profile.unknown_id_status, "There is no such rate request.", "requestIndex")
    if request.state == "selected" and profile.late_offer == "400":
        raise Refusal(400, "The rate request is closed.", "requestIndex")
    if profile.second_offer != "added":
        for earlier in books.offers_on(index, visit.now):
            if earlier.account == visit.account.index and earlier.status == "pending":
                if profile.second_offer == "400":
                    raise Refusal(400, "You have already submitted an offer.", "requestIndex")
                books.set_offer(earlier, "removed", visit.now)
    offer = books.offer(
        visit.account, index, amount, currency, rates, terms, visit.now, visit.call, profile.amount_rounding
    )
    return visit.written({"bid": visit.renderer.submitted(request, offer)})


def _currency(visit: RequestContext) -> int:
    """The document names the field currencyIndex, its sample currencyId (4.10)."""
    fields, wanted = visit.fields, visit.profile.currency_field
    if wanted == "either":
        wanted = "currencyIndex" if "currencyIndex" in fields or "currencyId" not in fields else "currencyId"
    currency = fields.identifier(wanted)
    if currency not in visit.books.currencies:
        raise Refusal(400, "There is no such currency.", wanted)
    return currency


def listing(visit: RequestContext) -> Answer:
    visit.side("forwarder")
    books, profile, renderer = visit.books, visit.profile, visit.renderer
    kind = visit.fields.optional_word("type", _TYPES, profile.bid_default)
    account = visit.account.index
    pairs: dict[int, Request] = {}
    offers: list[Offer] = []
    own = profile.rights == "before_paging"
    listed = books.offers_by(visit.account, visit.seen_at) if own else books.all_offers(visit.seen_at)
    for offer in listed:
        # An offer can show up a moment before its request does, when both are late.
        request = books.requests.seen(offer.request, visit.seen_at)
        if request is not None and _covers(kind, request, offer):
            pairs[offer.index] = request
            offers.append(offer)
    offers = books.sorter.offers(profile.order, offers)
    records = []
    for offer in page(visit, offers, profile.default_rows, lambda offer: offer.account == account):
        request = pairs[offer.index]
        selected = request.selected == offer.index
        records.append(renderer.bid(request, offer, books.accounts[request.owner] if selected else None))
    return Answer(renderer.collection("bids", records))


def _covers(kind: str, request: Request, offer: Offer) -> bool:
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
