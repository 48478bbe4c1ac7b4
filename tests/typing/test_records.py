"""Types of every field as a user's type checker sees them. mypy and pyright check this file; pytest imports it."""

# pyright: strict

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from decimal import Decimal

    from freight_exchange import (
        Bid,
        BidStatus,
        Carrier,
        Company,
        Contact,
        Currency,
        FreightExchangeError,
        Listing,
        Offer,
        OfferStatus,
        Packaging,
        RateLimitedError,
        RateRequest,
        RateRequestDraft,
        RequestStatus,
        RequestType,
        Route,
        RouteDraft,
        User,
        ValidationError,
    )
    from freight_exchange.models import UnknownWord


def user(user: User) -> None:
    names = user.first_name, user.middle_name, user.last_name, user.email, user.title, user.image_url
    assert_type(names, tuple[str | None, str | None, str | None, str | None, str | None, str | None])
    assert_type(user.enabled, bool | None)
    assert_type(user.last_login, datetime | None)
    assert_type(user.company, Company | None)
    assert_type(user.extra, Mapping[str, object])


def company(company: Company, contact: Contact) -> None:
    assert_type(company.index, int | None)
    place = company.address1, company.city, company.state, company.postal, company.country
    assert_type(place, tuple[str | None, str | None, str | None, str | None, str | None])
    rest = company.name, company.phone, company.fax, company.oti_license
    assert_type(rest, tuple[str | None, str | None, str | None, str | None])
    assert_type((contact.name, contact.email), tuple[str | None, str | None])


def freight(request: RateRequest | Listing | Bid) -> None:
    assert_type(request.index, int)
    texts = request.ref_id, request.commodity, request.origin, request.destination, request.notes, request.incoterm
    assert_type(texts, tuple[str | None, str | None, str | None, str | None, str | None, str | None])
    assert_type(request.type, RequestType | UnknownWord | None)
    assert_type(request.need_date, datetime | None)
    assert_type(request.quantity, int | None)
    assert_type(request.packaging, Packaging | UnknownWord | None)
    sizes = request.length, request.width, request.height, request.weight, request.volume
    assert_type(sizes, tuple[Decimal | None, Decimal | None, Decimal | None, Decimal | None, Decimal | None])
    assert_type((request.measure_unit, request.mass_unit), tuple[str | None, str | None])
    assert_type(request.hazardous, bool | None)
    assert_type(request.extra, Mapping[str, object])


def request(request: RateRequest, draft: RateRequestDraft) -> None:
    assert_type(request.status, RequestStatus | UnknownWord | None)
    texts = draft.commodity, draft.origin, draft.destination, draft.incoterm
    assert_type(texts, tuple[str, str, str, str])
    assert_type((draft.type, draft.packaging), tuple[RequestType, Packaging])
    assert_type((draft.arrival, draft.quantity, draft.hazardous), tuple[datetime, int, bool])
    sizes = draft.length, draft.width, draft.height, draft.weight, draft.volume
    assert_type(sizes, tuple[Decimal, Decimal, Decimal, Decimal, Decimal])
    assert_type(draft.notes, str | None)


def listing(listing: Listing) -> None:
    assert_type(listing.status, RequestStatus | UnknownWord | None)
    assert_type(listing.offers, tuple[Offer, ...])
    assert_type(listing.selected, Offer | None)
    assert_type(listing.contact, Contact | None)
    assert_type(listing.company, Company | None)


def bid(bid: Bid) -> None:
    assert_type(bid.status, BidStatus | UnknownWord | None)
    assert_type(bid.amount, Decimal | None)
    assert_type(bid.currency, int | None)
    assert_type(bid.offer, Offer | None)
    assert_type(bid.contact, Contact | None)
    assert_type(bid.company, Company | None)


def offer(offer: Offer) -> None:
    assert_type((offer.id, offer.currency), tuple[int | None, int | None])
    amounts = offer.amount, offer.rates_total, offer.difference
    assert_type(amounts, tuple[Decimal | None, Decimal | None, Decimal | None])
    assert_type(offer.status, OfferStatus | UnknownWord | None)
    assert_type(offer.terms, str | None)
    assert_type(offer.rates, Mapping[str, Decimal] | None)


def route(route: Route, draft: RouteDraft) -> None:
    assert_type(route.index, int)
    texts = route.origin, route.destination, route.vessel, route.voyage_id, route.timezone
    assert_type(texts, tuple[str | None, str | None, str | None, str | None, str | None])
    times = route.cy_cutoff, route.cfs_cutoff, route.departure, route.arrival
    assert_type(times, tuple[datetime | None, datetime | None, datetime | None, datetime | None])
    assert_type(route.carrier, int | None)
    names = draft.origin, draft.destination, draft.vessel, draft.voyage_id, draft.timezone
    assert_type(names, tuple[str, str, str, str, str])
    due = draft.cy_cutoff, draft.cfs_cutoff, draft.departure, draft.arrival
    assert_type(due, tuple[datetime, datetime, datetime, datetime])
    assert_type(draft.carrier, int)


def reference(carrier: Carrier, currency: Currency) -> None:
    assert_type((carrier.index, carrier.name), tuple[int, str | None])
    assert_type((currency.index, currency.name, currency.code), tuple[int, str | None, str | None])


def errors(error: FreightExchangeError, invalid: ValidationError, limited: RateLimitedError) -> None:
    assert_type((error.message, error.method, error.path), tuple[str, str | None, str | None])
    assert_type((error.status, error.attempts, error.elapsed), tuple[int | None, int, float | None])
    assert_type(error.body, object)
    assert_type(error.may_have_taken_effect, bool)
    assert_type(invalid.field, str)
    assert_type(limited.retry_after, float | None)
