"""Differences that each quirk of a service makes in the results of the SDK, with the reasons.

A value of a knob that is not listed changes no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import attrs
from tests.contract.changes import (
    EXTRA,
    HIDDEN,
    NO_FEES,
    NO_ROUTE,
    POISONED,
    PUBLISH,
    RESPOND,
    ROUTE_WRITES,
    SHIPMENTS,
    SUBMIT,
    WITHOUT_OPTIONAL,
    Change,
    any_missing,
    body_dropped,
    both,
    declined,
    every_offer,
    fails,
    late,
    listed,
    lists,
    only,
    priced,
    records,
    rows,
    settled,
    switched,
    text_indexes,
    unknown_word,
    with_a_fee,
    with_notes,
    without_dates,
)
from tests.contract.scenarios import Failed

from freight_exchange import (
    BadRequestError,
    Carrier,
    Company,
    Currency,
    Listing,
    NotFoundError,
    Offer,
    OfferStatus,
    RateRequest,
    RequestStatus,
    Route,
    User,
)
from freight_exchange.models import UnknownWord
from freight_exchange.sandbox import Profile

__all__ = ["BESIDE", "DIFFERENCES", "SUITED", "Difference"]


@attrs.frozen
class Difference:
    """Change of the outcomes of a row and its reason; `in_order` is false if only the order of records may differ."""

    reason: str
    change: Change
    in_order: bool = True


def _without_third(found: object) -> object:
    """Leave out the third request, in a listing or as the record itself."""
    if isinstance(found, list):
        return [record for record in found if record.index != 3]
    return Failed(NotFoundError) if isinstance(found, RateRequest) and found.index == 3 else found


DIFFERENCES: Final[Mapping[str, Difference]] = {
    "empty_map=object": Difference("an empty map of fees is not a missing one", NO_FEES),
    "empty_map=list": Difference("an empty map of fees is not a missing one", NO_FEES),
    "selected_offer_shape=collection": Difference(
        "the service still shows the offers that were not selected", records(Listing, every_offer)
    ),
    "route_write=empty_object": Difference("there is no route in the reply", NO_ROUTE),
    "route_write=empty_list": Difference("there is no route in the reply", NO_ROUTE),
    "route_write=no_body": Difference("there is no route in the reply", NO_ROUTE),
    "route_write=no_content": Difference("there is no route in the reply", NO_ROUTE),
    "route_text_match=contains": Difference(
        "the service finds parts of names", rows(("GET route",), lambda o: {"part": o["named"]})
    ),
    **{
        f"company_index={value}": Difference(
            "the company has its index",
            records(User, lambda user: attrs.evolve(user, company=attrs.evolve(user.company, index=72))),
        )
        for value in ("int", "string")
    },
    "unknown_words=status": Difference("a new word stays readable", unknown_word("status", "Under Review", *SHIPMENTS)),
    "unknown_words=requesttype": Difference("a new word stays readable", unknown_word("type", "Rail", RateRequest)),
    "unknown_words=packaging": Difference("a new word stays readable", unknown_word("packaging", "Drum", *SHIPMENTS)),
    "date_form=zero": Difference("no date, and its text kept", without_dates("0000-00-00 00:00:00")),
    "date_form=empty": Difference("no date, and its text kept", without_dates("")),
    "date_form=nonsense": Difference("no date, and its text kept", without_dates("next Tuesday")),
    "date_form=null": Difference("no date, and a route without one is not put back", without_dates(None)),
    "extra_keys=True": Difference(
        "unknown fields are kept",
        records(
            (*SHIPMENTS, Offer, Company, Route, Carrier, Currency, User),
            lambda record: attrs.evolve(record, extra=EXTRA),
        ),
    ),
    "optional_fields=absent": Difference("what is left out is None", WITHOUT_OPTIONAL),
    "optional_fields=null": Difference("what is null is None", WITHOUT_OPTIONAL),
    **{
        f"poison={value}": Difference("the broken record is left out, the others are not", POISONED)
        for value in ("string", "null", "hollow", "bad_index")
    },
    "published_dimensions=permuted": Difference(
        "the service permutes them",
        records(
            SHIPMENTS,
            lambda shipment: attrs.evolve(
                shipment, width=shipment.length, height=shipment.width, length=shipment.height
            ),
        ),
    ),
    "published_date=as_sent": Difference(
        "the service keeps the hour",
        records(SHIPMENTS, lambda s: attrs.evolve(s, need_date=s.need_date + timedelta(hours=9, minutes=30))),
    ),
    "published_date=day_later": Difference(
        "the service moves the date",
        records(SHIPMENTS, lambda s: attrs.evolve(s, need_date=s.need_date + timedelta(days=1))),
    ),
    "published_weight=total": Difference(
        "the service returns the weight of all units",
        records(SHIPMENTS, lambda s: attrs.evolve(s, weight=s.weight * s.quantity)),
    ),
    "published_notes=as_sent": Difference(
        "the service returns the shipper's own notes",
        both(
            records(SHIPMENTS, lambda s: attrs.evolve(s, notes="")),
            rows(PUBLISH, with_notes),
        ),
    ),
    "published_notes=absent": Difference(
        "the service returns no notes", records(SHIPMENTS, lambda s: attrs.evolve(s, notes=None))
    ),
    "rates_sum=fee_added": Difference("the service adds a fee", records(Offer, with_a_fee)),
    "amount_rounding=cents": Difference("the service rounds", priced("1840.57", "1700.25")),
    "amount_rounding=whole": Difference("the service rounds", priced("1841", "1700")),
    **{
        f"order={value}": Difference("no order is promised", lambda row, outcomes: outcomes, in_order=False)
        for value in ("oldest", "index", "updated", "random")
    },
    "offset_ignored=True": Difference(
        "a second page that is the first ends the listing",
        lists(lambda name, found: found[:2] if name == "paged" else found),
    ),
    "hidden=rows": Difference(
        "the third request is not for this forwarder",
        rows(
            ("POST quote/getrequests",),
            lambda o: {name: _without_third(found) for name, found in o.items()},
        ),
    ),
    "reference_rows=5": Difference(
        "the document shows no pages of carriers and currencies",
        rows(("GET carrier", "GET currency"), lambda o: {"all": listed(o, "all")[:5]}),
    ),
    "nothing_found=404_bare": Difference(
        "a bare 404 is how a wrong address looks", lists(lambda name, found: found or Failed(NotFoundError))
    ),
    "lookup_missing=400": Difference("the service calls it a bad request", any_missing),
    "search_default=open": Difference("the service lists open requests alone", HIDDEN),
    "pending_means=no_offers": Difference(
        "the service means those without offers",
        rows(("POST quote/getrequests",), lambda o: {"pending": only(4, 1)(listed(o, "pending"))}),
    ),
    "bid_default=active": Difference(
        "the service lists active bids by default",
        rows(("GET quote/bid",), lambda o: {"all": o["active"], "paged": o["active"]}),
    ),
    "get_body=dropped": Difference("what is not received cannot be obeyed", body_dropped),
    "index_type=str": Difference("the service wants indexes as text, against its own table", text_indexes),
    "currency_field=currencyId": Difference("the service wants the other name", rows(SUBMIT, fails(BadRequestError))),
    "carrier_field=carrierId": Difference(
        "the service wants the other name", rows(ROUTE_WRITES, fails(BadRequestError))
    ),
    "selected_status=Available": Difference("the status is the service's", settled(RequestStatus.AVAILABLE)),
    "selected_status=Closed": Difference("the status is the service's", settled(UnknownWord("Closed"))),
    "decline_outcome=rejected": Difference("the word is the service's", declined(UnknownWord("rejected"))),
    "decline_outcome=removed": Difference("the offer is gone", declined(None)),
    "decline_outcome=unchanged": Difference("the service changes nothing", declined(OfferStatus.PENDING)),
    **{
        f"decline_reply={value}": Difference(
            "there is no listing in the reply", rows(RESPOND, lambda o: {"declined": None})
        )
        for value in ("empty_object", "empty_list", "null", "no_body", "empty_offers", "message")
    },
    "second_approval=switched": Difference("the service takes the other offer", rows(RESPOND, switched)),
    "second_approval=repeated": Difference(
        "the service repeats its answer", rows(RESPOND, lambda o: {"again": o["approved"]})
    ),
    "second_offer=400": Difference("the service takes one offer", rows(SUBMIT, fails(BadRequestError, "second"))),
    "late_offer=taken": Difference("the service takes late offers", rows(SUBMIT, late)),
    "unknown_id_status=404": Difference(
        "the service answers 404", rows((*SUBMIT, *RESPOND, "PUT route"), fails(NotFoundError, "unknown"))
    ),
}

BESIDE: Final[Mapping[str, Profile]] = {
    "clamp_stride": Profile(rows_clamp=20),
    "clamp_change": Profile(rows_clamp=20),
    "over_limit": Profile(rows_limit=20),
}
"""Profile that a knob needs to have an effect."""

SUITED: Final[Mapping[str, Mapping[str, object]]] = {
    "get_body=dropped": {"get_parameters": "query"},
    "currency_field=currencyId": {"currency_field": "currencyId"},
    "carrier_field=carrierId": {"carrier_field": "carrierId"},
}
"""Client options that match a quirk, so that it changes no result."""
