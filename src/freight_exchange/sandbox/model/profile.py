"""Quirks of a server: all points that the service document leaves open, or that servers handle differently."""

from __future__ import annotations

import functools
import typing
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import attrs

__all__ = ["Knob", "Profile"]

_T = TypeVar("_T")


class Knob(NamedTuple):
    """One quirk: its name, its documented value, its other values and its meaning."""

    name: str
    default: Any
    values: tuple[Any, ...]
    meaning: str


def _knob(default: _T, meaning: str, *values: _T) -> _T:
    return attrs.field(default=default, metadata={"meaning": meaning, "values": values})


@attrs.frozen(kw_only=True)
class Profile:
    """Behaviour of the simulated exchange. The defaults are what the service document states or shows."""

    # Collections (service document, 1)
    collection_shape: Literal["object", "list", "gaps", "shuffled"] = _knob(
        "object", "a collection as an object keyed 0, 1, ...; as a list; with gaps; with keys in any order"
    )
    empty_collection: Literal["object", "list", "null", "bare_object", "bare_list", "bare_null"] = _knob(
        "object", "a collection without records; bare: the reply has no collection key at all"
    )
    empty_offer: Literal["object", "list", "null", "absent"] = _knob(
        "object", "the `offer` of a listing record without offers"
    )
    empty_map: Literal["omitted", "object", "list", "null"] = _knob("omitted", "`rates` when there are none")

    # Offers
    offer_shape: Literal["collection", "entry", "list"] = _knob(
        "collection", "`offer` before selection; entry: a lone offer is not wrapped in a collection"
    )
    selected_offer_shape: Literal["entry", "collection"] = _knob(
        "entry", "`offer` after selection: the selected entry alone, or still the collection of all"
    )
    offer_id_key: Literal["offerId", "offerIndex", "index"] = _knob("offerId", "an offer's id in listings")
    approval_offer_id_key: Literal["offerIndex", "offerId", "index"] = _knob(
        "offerIndex", "an offer's id in the result of an approval"
    )
    submit_offer_id_key: Literal["index", "offerIndex", "offerId"] = _knob(
        "index", "an offer's id in the result of a submission"
    )
    offer_id_type: Literal["str", "int"] = _knob("str", "the JSON type of an offer's id")
    offer_currency_key: Literal["currencyId", "currencyIndex"] = _knob("currencyId", "an offer's currency in listings")
    submit_currency_key: Literal["currencyIndex", "currencyId"] = _knob(
        "currencyIndex", "the currency in the result of a submission"
    )
    bid_currency_key: Literal["currencyIndex", "currencyId"] = _knob("currencyIndex", "the currency in bid listings")
    bid_offer: Literal["absent", "empty"] = _knob("absent", "the `offer` key of a record in a bid listing")

    # Contacts after selection
    approval_contacts: Literal["offer", "record", "both"] = _knob(
        "offer", "where an approval's result has loadingPOC and loadingCompany"
    )
    listing_contacts: Literal["record", "offer", "both"] = _knob("record", "where the shipper's listings have them")
    bid_contacts: Literal["record", "offer"] = _knob("record", "where bid listings have them")
    pending_contacts: Literal["absent", "null", "list"] = _knob(
        "absent", "loadingPOC and loadingCompany before selection"
    )

    # Routes
    carrier_key: Literal["carrier", "carrierId"] = _knob("carrier", "a route's carrier in replies")
    vessel_key: Literal["vesselName", "vessel"] = _knob("vesselName", "a route's vessel in replies")
    route_time_keys: Literal["estDeparture", "departure"] = _knob(
        "estDeparture", "estDeparture and estArrival, or departure and arrival, in replies"
    )
    route_write: Literal["collection", "record", "empty_object", "empty_list", "no_body", "no_content"] = _knob(
        "collection", "the reply to POST and PUT route; no_content is 204"
    )
    route_text_match: Literal["exact", "contains"] = _knob("exact", "how text filters of GET route compare")

    # Scalars
    number_form: Literal["plain", "string", "padded", "exponent"] = _knob(
        "plain", "numbers as JSON numbers, as strings (ids too), as 12.50, as 1.25E+1"
    )
    hazardous_form: Literal["int", "string", "bool"] = _knob("int", "hazardous in replies")
    enabled_form: Literal["TRUE", "true", "True", "bool", "int"] = _knob("TRUE", "a user's `enabled`")
    company_index: Literal["absent", "int", "string"] = _knob("absent", "a company's `index` in the login's reply")
    word_case: Literal["documented", "upper", "lower"] = _knob("documented", "status, type and packaging words")
    unknown_words: Literal["none", "status", "requesttype", "packaging"] = _knob(
        "none", "an undocumented word in every other record"
    )
    date_form: Literal["plain", "zero", "empty", "nonsense", "null"] = _knob(
        "plain", "date-times: 0000-00-00 00:00:00, empty, nonsense or null instead"
    )
    extra_keys: bool = _knob(False, "undocumented keys in every record")
    optional_fields: Literal["present", "absent", "null"] = _knob("present", "fields that may be missing")
    poison: Literal["none", "string", "null", "hollow", "bad_index"] = _knob(
        "none", "the second record of a collection is broken"
    )
    bom: bool = _knob(False, "a byte-order mark in front of every body")
    content_type: Literal["application/json", "application/json; charset=utf-8", "text/html; charset=UTF-8", ""] = (
        _knob("application/json", "the content type of every reply; empty: no such header")
    )

    # Values that the service returns changed
    published_dimensions: Literal["as_sent", "permuted"] = _knob("as_sent", "length, width and height in replies")
    published_date: Literal["midnight", "as_sent", "day_later"] = _knob("midnight", "needdate against the arrival sent")
    published_weight: Literal["as_sent", "total"] = _knob("as_sent", "weight per unit, or of all units, in replies")
    published_notes: Literal["summary", "as_sent", "absent"] = _knob("summary", "notes in replies")
    rates_sum: Literal["as_sent", "fee_added"] = _knob("as_sent", "fee_added: rates no longer sum to offerAmount")
    amount_rounding: Literal["none", "cents", "whole"] = _knob("none", "rounding of an offer's amount")

    # Listings
    order: Literal["newest", "oldest", "index", "updated", "random"] = _knob(
        "newest", "the order of records; random is stable and seeded"
    )
    rows_clamp: int | None = _knob(None, "the most rows in a page, even if the client requests more", 1, 10)
    clamp_stride: Literal["clamped", "asked"] = _knob(
        "clamped", "under a clamp, pages count by the rows given or asked"
    )
    clamp_change: Literal["steady", "lowered", "raised", "hourly", "alternating"] = _knob(
        "steady",
        "a clamp of rows_clamp (or 2) and of ten times as many rows: lowered, or raised, after three pages; by the"
        " hour; from page to page",
    )
    rows_limit: int | None = _knob(None, "the most rows that may be requested: more is refused", 20)
    over_limit: Literal["400", "422", "500"] = _knob("400", "the status where more than rows_limit is requested")
    rights: Literal["before_paging", "after_paging"] = _knob(
        "before_paging",
        "when the rows that the caller may not see are left out: after_paging leaves short and empty pages",
    )
    hidden: Literal["none", "rows", "runs"] = _knob(
        "none",
        "others' requests that the caller may not see; rows: each third index; runs: 10 to 19, 30 to 39, ...",
    )
    default_rows: int | None = _knob(None, "rows of a page where the document has no default", 2)
    offset_ignored: bool = _knob(False, "every page is the first one")
    lone_offset: Literal["400", "ignored"] = _knob("400", "offset without rowsperpage, or the reverse")
    reference_rows: int | None = _knob(None, "rows of a page of carriers and currencies; None: no pages", 5)
    past_end: Literal["empty", "400", "404", "416", "422", "500", "last_page"] = _knob(
        "empty", "a page beyond the last one"
    )
    nothing_found: Literal["empty", "404", "404_bare"] = _knob("empty", "a listing without any record")
    lookup_missing: Literal["empty", "404", "400"] = _knob("empty", "a lookup by an index that is not there")
    late_visibility: float = _knob(0.0, "seconds until a write shows in replies to reads", 5.0)
    since_lookup: Literal["ignored", "applied", "applied_if_sent"] = _knob(
        "ignored", "whether secondsSinceUpdate, or its default, also narrows a lookup by index"
    )
    since_out_of_range: Literal["400", "clamped"] = _knob("400", "secondsSinceUpdate outside 1..432000")
    search_default: Literal["all", "open"] = _knob("all", "getrequests type all: with, or without, selected requests")
    pending_means: Literal["open", "no_offers"] = _knob("open", "getrequests type pending")
    bid_default: Literal["offers", "active"] = _knob("offers", "what a bid listing without type shows")

    # What the server accepts
    get_body: Literal["read", "dropped"] = _knob("read", "the JSON body of a GET")
    index_type: Literal["any", "int", "str"] = _knob("any", "the JSON type of ids that the server takes in a body")
    currency_field: Literal["either", "currencyIndex", "currencyId"] = _knob("either", "the field of an offer sent")
    carrier_field: Literal["either", "carrier", "carrierId"] = _knob("either", "the field of a route sent")
    content_type_check: Literal["required", "lenient"] = _knob("required", "a body without application/json is a 400")
    roles: Literal["free", "enforced"] = _knob("free", "enforced: 403 for the wrong side of the market")

    # States
    selected_status: Literal["Selected", "Available", "Closed"] = _knob(
        "Selected", "a request's status after selection"
    )
    decline_outcome: Literal["declined", "rejected", "removed", "unchanged"] = _knob(
        "declined", "the status of a declined offer; removed: it leaves the listings"
    )
    decline_reply: Literal["listing", "empty_object", "empty_list", "null", "no_body", "empty_offers", "message"] = (
        _knob("listing", "the reply to a decline; empty_offers: an empty collection")
    )
    second_approval: Literal["400", "switched", "repeated"] = _knob(
        "400",
        "approving where an offer is selected; switched: the other is taken; repeated: the same reply again",
    )
    second_offer: Literal["added", "400", "replaced"] = _knob("added", "another offer by the same forwarder")
    late_offer: Literal["400", "taken"] = _knob("400", "an offer on a request that has a selected one")

    # Errors and authentication
    failed_login_status: Literal[401, 400, 403, 422, 200] = _knob(401, "the status of a failed login")
    failed_login_key: Literal["message", "Unauthorized"] = _knob("message", "the key of a failed login's reply")
    unauthorized_status: Literal[401, 403, 400, 200] = _knob(401, "the status of a refused token")
    unauthorized_key: Literal["absent", "null", "false", "empty", "zero"] = _knob(
        "absent", "a key Unauthorized of that value in every reply of a call that succeeded; empty: an empty text"
    )
    bad_request_body: Literal["message", "error", "errors", "text", "empty"] = _knob(
        "message", "the body of a 400: an object with that key, plain text, nothing"
    )
    unknown_id_status: Literal[400, 404] = _knob(400, "a write that names a record which is not there")
    write_status: Literal[200, 201, 202] = _knob(200, "the status of a write that succeeded")
    expires_key: Literal["expires_on", "expires_in", "absent"] = _knob(
        "expires_on", "the token's lifetime in the reply"
    )
    expires_form: Literal["int", "string", "epoch"] = _knob("int", "the lifetime in seconds, or the time of expiry")
    token_lifetime: int = _knob(3600, "seconds that a token is valid", 5)
    token_form: Literal["opaque", "jwt"] = _knob("opaque", "the form of a token; the claims of a jwt are false")
    tokens: Literal["many", "latest", "same"] = _knob(
        "many", "a login adds a token; revokes the earlier ones; gives the valid one again"
    )
    latency: float = _knob(0.0, "seconds that each reply takes", 0.25)

    def __attrs_post_init__(self) -> None:
        for name, allowed in _literals().items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} must be one of {allowed}")

    @classmethod
    def knobs(cls) -> tuple[Knob, ...]:
        """Return every quirk with its other values, for tests that try each of them."""
        return _knobs()


@functools.cache
def _literals() -> Mapping[str, tuple[Any, ...]]:
    hints = typing.get_type_hints(Profile)
    return {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is Literal}


@functools.cache
def _knobs() -> tuple[Knob, ...]:
    allowed = _literals()
    found: list[Knob] = []
    for field in attrs.fields(Profile):
        values: tuple[Any, ...] = field.metadata["values"]
        if field.name in allowed:
            values = tuple(value for value in allowed[field.name] if value != field.default)
        elif isinstance(field.default, bool):
            values = (not field.default,)
        found.append(Knob(field.name, field.default, values, field.metadata["meaning"]))
    return tuple(found)
