"""Quirks: all points that the service document leaves open, or that servers handle differently.

`Profile` lists them. The functions below it turn documented JSON into that of a profile, one function a quirk or a few
that touch the same fields; then come the rules of pages, and the reply around the JSON.
"""

from __future__ import annotations

import datetime as dt
import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, Literal, NamedTuple, TypeVar

import attrs

from freight_sandbox.codec import Raw, encode
from freight_sandbox.fields import Fields, Refusal
from freight_sandbox.records import Company, Number, Request, Token
from freight_sandbox.wire import Reply

Json = dict[str, Any]
_T = TypeVar("_T")


class Knob(NamedTuple):
    """One quirk: its name, its documented value, its other values (of numbers: examples) and its meaning."""

    name: str
    default: Any
    values: tuple[Any, ...]
    meaning: str
    is_number: bool


def _knob(default: _T, meaning: str, *values: _T) -> _T:
    return attrs.field(default=default, metadata={"meaning": meaning, "values": values})


@attrs.frozen(kw_only=True)
class Profile:
    """Behaviour of the simulated exchange. The defaults are what the service document states or shows."""

    # Collections (service document, 1)
    collection_shape: Literal["object", "list", "gaps", "shuffled"] = _knob("object", "collections; the keys may vary")
    empty_collection: Literal["object", "list", "null", "bare_object", "bare_list", "bare_null"] = _knob(
        "object", "a collection without records; bare: the reply has no collection key at all"
    )
    empty_offer: Literal["object", "list", "null", "absent"] = _knob("object", "`offer` in listings without offers")
    empty_map: Literal["omitted", "object", "list", "null"] = _knob("omitted", "`rates` when there are none")

    # Offers
    offer_shape: Literal["collection", "entry", "list"] = _knob("collection", "`offer` before selection; entry: alone")
    selected_offer_shape: Literal["entry", "collection"] = _knob("entry", "`offer` after selection: one, or all")
    offer_id_key: Literal["offerId", "offerIndex", "index"] = _knob("offerId", "an offer's id in listings")
    approval_offer_id_key: Literal["offerIndex", "offerId", "index"] = _knob("offerIndex", "an offer's id in approvals")
    submit_offer_id_key: Literal["index", "offerIndex", "offerId"] = _knob("index", "an offer's id in submissions")
    offer_id_type: Literal["str", "int"] = _knob("str", "the JSON type of an offer's id")
    offer_currency_key: Literal["currencyId", "currencyIndex"] = _knob("currencyId", "an offer's currency in listings")
    submit_currency_key: Literal["currencyIndex", "currencyId"] = _knob("currencyIndex", "the currency in submissions")
    bid_currency_key: Literal["currencyIndex", "currencyId"] = _knob("currencyIndex", "the currency in bid listings")
    bid_offer: Literal["absent", "empty"] = _knob("absent", "the `offer` key of a record in a bid listing")

    # Contacts after selection: loadingPOC and loadingCompany
    approval_contacts: Literal["offer", "record", "both"] = _knob("offer", "where approvals have the contacts")
    listing_contacts: Literal["record", "offer", "both"] = _knob("record", "where `offers` have them")
    bid_contacts: Literal["record", "offer"] = _knob("record", "where bid listings have the contacts")
    pending_contacts: Literal["absent", "null", "list"] = _knob("absent", "the contacts before selection")

    # Routes
    carrier_key: Literal["carrier", "carrierId"] = _knob("carrier", "a route's carrier in replies")
    vessel_key: Literal["vesselName", "vessel"] = _knob("vesselName", "a route's vessel in replies")
    route_time_keys: Literal["estDeparture", "departure"] = _knob("estDeparture", "a route's times in replies")
    route_write: Literal["collection", "record", "empty_object", "empty_list", "no_body", "no_content"] = _knob(
        "collection", "the reply to POST and PUT route; no_content is 204"
    )
    route_text_match: Literal["exact", "contains"] = _knob("exact", "how text filters of GET route compare")

    # Scalars
    number_form: Literal["plain", "string", "padded", "exponent"] = _knob("plain", "numbers: 12.5, '12.5', 12.50, 1E+1")
    hazardous_form: Literal["int", "string", "bool"] = _knob("int", "hazardous in replies")
    enabled_form: Literal["TRUE", "true", "True", "bool", "int"] = _knob("TRUE", "a user's `enabled`")
    company_index: Literal["absent", "int", "string"] = _knob("absent", "a company's `index` in the login's reply")
    word_case: Literal["documented", "upper", "lower"] = _knob("documented", "status, type and packaging words")
    unknown_words: Literal["none", "status", "requesttype", "packaging"] = _knob("none", "a new word in odd records")
    date_form: Literal["plain", "zero", "empty", "nonsense", "null"] = _knob("plain", "date-times; zero: 0000-00-00")
    extra_keys: bool = _knob(False, "undocumented keys in every record")
    optional_fields: Literal["present", "absent", "null"] = _knob("present", "fields that may be missing")
    poison: Literal["none", "string", "null", "hollow", "bad_index"] = _knob("none", "the second record is broken")
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
    order: Literal["newest", "oldest", "index", "updated", "random"] = _knob("newest", "the order; random is stable")
    rows_clamp: int | None = _knob(None, "the most rows in a page, even if the client requests more", 1, 10)
    clamp_stride: Literal["clamped", "asked"] = _knob("clamped", "a clamped page counts in rows given or asked")
    clamp_change: Literal["steady", "lowered", "raised", "hourly", "alternating"] = _knob(
        "steady", "a clamp of rows_clamp (or 2), and of ten times as many rows: after three pages, or as it says"
    )
    rows_limit: int | None = _knob(None, "the most rows that may be requested: more is refused", 20)
    over_limit: Literal["400", "422", "500"] = _knob("400", "the status where more than rows_limit is requested")
    rights: Literal["before_paging", "after_paging"] = _knob("before_paging", "when hidden rows are left out of pages")
    hidden: Literal["none", "rows", "runs"] = _knob("none", "requests: each third; 10 to 19, 30 to 39, ...")
    default_rows: int | None = _knob(None, "rows of a page where the document has no default", 2)
    offset_ignored: bool = _knob(False, "every page is the first one")
    lone_offset: Literal["400", "ignored"] = _knob("400", "offset without rowsperpage, or the reverse")
    reference_rows: int | None = _knob(None, "rows of a page of carriers and currencies; None: no pages", 5)
    past_end: Literal["empty", "400", "404", "416", "422", "500", "last_page"] = _knob("empty", "a page after the last")
    nothing_found: Literal["empty", "404", "404_bare"] = _knob("empty", "a listing without any record")
    lookup_missing: Literal["empty", "404", "400"] = _knob("empty", "a lookup by an index that is not there")
    late_visibility: float = _knob(0.0, "seconds until a write shows in replies to reads", 5.0)
    since_lookup: Literal["ignored", "applied", "applied_if_sent"] = _knob("ignored", "secondsSinceUpdate at a lookup")
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
    selected_status: Literal["Selected", "Available", "Closed"] = _knob("Selected", "the status after selection")
    decline_outcome: Literal["declined", "rejected", "removed", "unchanged"] = _knob("declined", "a declined offer")
    decline_reply: Literal["listing", "empty_object", "empty_list", "null", "no_body", "empty_offers", "message"] = (
        _knob("listing", "the reply to a decline; empty_offers: an empty collection")
    )
    second_approval: Literal["400", "switched", "repeated"] = _knob("400", "approving where one is selected")
    second_offer: Literal["added", "400", "replaced"] = _knob("added", "another offer by the same forwarder")
    late_offer: Literal["400", "taken"] = _knob("400", "an offer on a request that has a selected one")

    # Errors and authentication
    failed_login_status: Literal[401, 400, 403, 422, 200] = _knob(401, "the status of a failed login")
    failed_login_key: Literal["message", "Unauthorized"] = _knob("message", "the key of a failed login's reply")
    unauthorized_status: Literal[401, 403, 400, 200] = _knob(401, "the status of a refused token")
    unauthorized_key: Literal["absent", "null", "false", "empty", "zero"] = _knob(
        "absent", "a key Unauthorized of that value in every reply of a call that succeeded; empty: an empty text"
    )
    bad_request_body: Literal["message", "error", "errors", "text", "empty"] = _knob("message", "the body of a 400")
    unknown_id_status: Literal[400, 404] = _knob(400, "a write that names a record which is not there")
    write_status: Literal[200, 201, 202] = _knob(200, "the status of a write that succeeded")
    expires_key: Literal["expires_on", "expires_in", "absent"] = _knob("expires_on", "the lifetime in the reply")
    expires_form: Literal["int", "string", "epoch"] = _knob("int", "the lifetime in seconds, or the time of expiry")
    token_lifetime: int = _knob(3600, "seconds that a token is valid", 5)
    token_form: Literal["opaque", "jwt"] = _knob("opaque", "the form of a token; the claims of a jwt are false")
    tokens: Literal["many", "latest", "same"] = _knob("many", "a login adds one, revokes others, or repeats one")
    latency: float = _knob(0.0, "seconds that each reply takes", 0.25)

    def __attrs_post_init__(self) -> None:
        for name, allowed in _literals().items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} must be one of {allowed}")

    @staticmethod
    @functools.cache
    def knobs() -> tuple[Knob, ...]:
        """Return every quirk with its other values, for tests that try each of them."""
        found: list[Knob] = []
        for field in attrs.fields(Profile):
            choices = (True, False) if isinstance(field.default, bool) else _literals().get(field.name)
            values = tuple(value for value in choices or field.metadata["values"] if value != field.default)
            found.append(Knob(field.name, field.default, values, field.metadata["meaning"], choices is None))
        return tuple(found)

    def changes(self) -> dict[str, Any]:
        """Return the quirks that differ from the document, with their values."""
        return {knob.name: value for knob in self.knobs() if (value := getattr(self, knob.name)) != knob.default}


@functools.cache
def _literals() -> Mapping[str, tuple[Any, ...]]:
    hints = typing.get_type_hints(Profile)
    return {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is Literal}


# Records: each function changes documented records of some kinds, in place. They run in this order.

Kind = Literal[
    "request", "listing", "approval", "bid", "submission", "listed offer", "approved offer", "submitted offer",
    "route", "reference", "user", "own company", "company",
]  # fmt: skip
Rewrite = Callable[[Profile, Json, Any], None]
"""Change of a record. It receives what the record was made from too."""

_REWRITES: list[tuple[frozenset[str], tuple[Kind, ...], Rewrite]] = []
_SHIPMENTS: Final = ("request", "listing", "approval", "submission", "bid")
_OFFERS: Final = ("listed offer", "approved offer", "submitted offer")
_ALL: Final[tuple[Kind, ...]] = typing.get_args(Kind)
_EMPTY: Final[Mapping[str, Any]] = {"object": {}, "list": [], "null": None}


def _rewrites(kinds: Sequence[Kind], *quirks: str) -> Callable[[Rewrite], Rewrite]:

    def register(function: Rewrite) -> Rewrite:
        _REWRITES.append((frozenset(quirks), tuple(kinds), function))
        return function

    return register


def rewrites(profile: Profile) -> Mapping[Kind, Sequence[Rewrite]]:
    """Return the functions that a profile needs, by kind of record; none for a profile as the document says."""
    changed = profile.changes().keys()
    needed: dict[Kind, list[Rewrite]] = {}
    for quirks, kinds, function in _REWRITES:
        for kind in kinds if quirks & changed else ():
            needed.setdefault(kind, []).append(function)
    return needed


@_rewrites(_SHIPMENTS, "published_dimensions", "published_date", "published_weight", "published_notes")
def _publish_changed(quirk: Profile, record: Json, request: Request) -> None:
    cargo = request.cargo
    if quirk.published_dimensions == "permuted":
        prefix = "" if "width" in record else "cargo"
        sizes = {"width": cargo.length, "height": cargo.width, "length": cargo.height}
        record.update({f"{prefix}{name}": size for name, size in sizes.items()})
    if quirk.published_date == "as_sent":
        record["needdate"] = cargo.arrival
    elif quirk.published_date == "day_later" and (day := cargo.arrival[:10]) < "9999-12-31":
        record["needdate"] = f"{dt.date.fromisoformat(day) + dt.timedelta(days=1)} 00:00:00"
    if quirk.published_weight == "total":
        record["weight"] = cargo.weight * cargo.quantity
    if quirk.published_notes == "as_sent":
        record["notes"] = cargo.notes
    elif quirk.published_notes == "absent":
        del record["notes"]


_UNKNOWN: Final = {"status": "Under Review", "requesttype": "Rail", "packaging": "Drum", "packingtype": "Drum"}


@_rewrites(_SHIPMENTS, "selected_status", "unknown_words")
def _use_other_words(quirk: Profile, record: Json, request: Request) -> None:
    if record["status"] == "Selected" and "price" not in record:
        record["status"] = quirk.selected_status
    keys = {"packaging", "packingtype"} if quirk.unknown_words == "packaging" else {quirk.unknown_words}
    if request.index % 2:
        record.update({key: _UNKNOWN[key] for key in keys & record.keys()})


@_rewrites((*_SHIPMENTS, *_OFFERS), "word_case")
def _change_case(quirk: Profile, record: Json, source: object) -> None:
    for key in ("status", "requesttype", "packaging", "packingtype"):
        if key in record:
            record[key] = record[key].upper() if quirk.word_case == "upper" else record[key].lower()


@_rewrites(_OFFERS, "rates_sum", "empty_map")
def _change_rates(quirk: Profile, record: Json, source: object) -> None:
    if "rates" in record and quirk.rates_sum == "fee_added":
        record["rates"] = {**record["rates"], "Platform Fee": Decimal("25.00")}
    elif "rates" not in record and quirk.empty_map != "omitted":
        record["rates"] = _EMPTY[quirk.empty_map]


_NUMBERS: Final = frozenset((
    "qty", "weight", "width", "height", "length", "cargowidth", "cargoheight", "cargolength", "offerAmount", "price",
))  # fmt: skip
_IDS: Final = frozenset(("index", "currencyId", "currencyIndex", "carrier", "hazardous"))


@_rewrites(_ALL, "number_form")
def _write_numbers(quirk: Profile, record: Json, source: object) -> None:
    form = quirk.number_form
    for key, value in record.items():
        if key in _NUMBERS:
            record[key] = _number(value, form)
        elif key in _IDS and form == "string":
            record[key] = str(value)
        elif key == "rates" and value:
            record[key] = {fee: _number(amount, form) for fee, amount in value.items()}


def _number(value: Number, form: str) -> Number | str | Raw:
    if form == "string":
        return str(value)
    exact = Decimal(value)
    if form == "exponent":
        return Raw(f"{exact:E}")
    exponent = exact.as_tuple().exponent
    return Raw(f"{exact:.2f}") if isinstance(exponent, int) and exponent > -2 else exact


@_rewrites(("request", *_OFFERS), "hazardous_form", "offer_id_type")
def _write_other_types(quirk: Profile, record: Json, source: object) -> None:
    if "hazardous" in record:
        number = int(record["hazardous"])  # perhaps a text already
        if quirk.hazardous_form != "int":
            record["hazardous"] = bool(number) if quirk.hazardous_form == "bool" else str(number)
    elif quirk.offer_id_type == "int":
        record.update({key: int(record[key]) for key in ("offerId", "offerIndex", "index") if key in record})


_DATES: Final = {"zero": "0000-00-00 00:00:00", "empty": "", "nonsense": "next Tuesday", "null": None}


@_rewrites((*_SHIPMENTS, "route", "user"), "date_form")
def _spoil_dates(quirk: Profile, record: Json, source: object) -> None:
    for key in ("needdate", "cycutoff", "cfscutoff", "estDeparture", "estArrival", "lastlogin"):
        if key in record:
            record[key] = _DATES[quirk.date_form]


@_rewrites(("user",), "enabled_form", "expires_key", "expires_form")
def _write_user(quirk: Profile, record: Json, token: Token) -> None:
    record["enabled"] = {"bool": True, "int": 1}.get(quirk.enabled_form, quirk.enabled_form)
    seconds = record.pop("expires_on")
    if quirk.expires_form == "epoch":
        seconds = int(token.expires)
    if quirk.expires_key != "absent":
        record[quirk.expires_key] = str(seconds) if quirk.expires_form == "string" else seconds


@_rewrites(("own company",), "company_index")
def _number_company(quirk: Profile, record: Json, company: Company) -> None:
    record["index"] = company.index if quirk.company_index == "int" else str(company.index)


# Contacts of the other side: loadingPOC and loadingCompany

_CONTACTS: Final = ("loadingPOC", "loadingCompany")


@_rewrites(("listing", "approval", "bid"), "pending_contacts")
def _show_no_contacts(quirk: Profile, record: Json, source: object) -> None:
    if "loadingPOC" not in record and "loadingPOC" not in record.get("offer", {}):
        record.update(dict.fromkeys(_CONTACTS, _EMPTY[quirk.pending_contacts]))


@_rewrites(("approval",), "approval_contacts")
def _take_contacts_from_offer(quirk: Profile, record: Json, source: object) -> None:
    if "loadingPOC" in record["offer"]:
        _move_contacts(record["offer"], record, keeps=quirk.approval_contacts == "both")


@_rewrites(("listing", "bid"), "listing_contacts", "bid_contacts", "bid_offer")
def _put_contacts_into_offer(quirk: Profile, record: Json, source: object) -> None:
    is_bid = "offer" not in record
    if is_bid and quirk.bid_offer == "empty":
        record["offer"] = {}
    place = quirk.bid_contacts if is_bid else quirk.listing_contacts
    if place != "record" and record.get("loadingPOC"):
        offer = record.setdefault("offer", {})
        if offer and "offerAmount" not in offer:
            offer = next(entry for entry in offer.values() if entry["status"].lower() == "selected")
        _move_contacts(record, offer, keeps=place == "both")


def _move_contacts(source: Json, target: Json, *, keeps: bool) -> None:
    target.update({key: source[key] if keeps else source.pop(key) for key in _CONTACTS})


@_rewrites(("listing", "approval"), "empty_offer", "offer_shape")
def _shape_offers(quirk: Profile, record: Json, source: object) -> None:
    offers = record["offer"]
    if not offers and quirk.empty_offer == "absent":
        del record["offer"]
    elif not offers:
        record["offer"] = _EMPTY[quirk.empty_offer]
    elif "0" in offers and quirk.offer_shape == "entry" and len(offers) == 1:
        record["offer"] = offers["0"]
    elif "0" in offers and quirk.offer_shape == "list":
        record["offer"] = list(offers.values())


# Names of fields

_NAMES: Final[tuple[tuple[str, str, tuple[Kind, ...]], ...]] = (
    ("offer_id_key", "offerId", ("listed offer",)),
    ("approval_offer_id_key", "offerIndex", ("approved offer",)),
    ("submit_offer_id_key", "index", ("submitted offer",)),
    ("offer_currency_key", "currencyId", ("listed offer", "approved offer")),
    ("submit_currency_key", "currencyIndex", ("submitted offer",)),
    ("bid_currency_key", "currencyIndex", ("bid",)),
    ("carrier_key", "carrier", ("route",)),
    ("vessel_key", "vesselName", ("route",)),
)
"""Quirks that rename a field: the quirk, the documented name, the kinds of record."""


for _name, _documented, _kinds in _NAMES:

    @_rewrites(_kinds, _name)
    def _rename(quirk: Profile, record: Json, _: object, name: str = _name, documented: str = _documented) -> None:
        record[getattr(quirk, name)] = record.pop(documented)


@_rewrites(("route",), "route_time_keys")
def _rename_times(quirk: Profile, record: Json, source: object) -> None:
    record["departure"], record["arrival"] = record.pop("estDeparture"), record.pop("estArrival")


# Fields that are missing, and fields that are unknown

_OPTIONAL: Final = frozenset((
    "refId", "notes", "measureUnit", "massUnit", "incoterm", "hazardous", "terms", "rates", "middlename", "title",
    "imageUrl", "lastlogin", "address1", "state", "phone", "fax", "otilicense", "cycutoff", "cfscutoff", "vesselName",
    "vessel", "voyageId",
))  # fmt: skip


@_rewrites(_ALL, "optional_fields")
def _leave_out(quirk: Profile, record: Json, source: object) -> None:
    for key in _OPTIONAL & record.keys():
        record[key] = None
        if quirk.optional_fields == "absent":
            del record[key]


@_rewrites(_ALL, "extra_keys")
def _add_keys(quirk: Profile, record: Json, source: object) -> None:
    record.update(xShard=7, xAudit={"by": "system", "flags": [1, None]})


# Collections


def collection(quirk: Profile, key: str, records: Sequence[Json]) -> Any:
    """Write a reply with one collection (service document, 1)."""
    if not records:
        empty = _EMPTY[quirk.empty_collection.removeprefix("bare_")]
        return empty if quirk.empty_collection.startswith("bare_") else {key: empty}
    rows: list[Any] = list(records)
    if quirk.poison != "none" and len(rows) > 1:
        broken: Mapping[str, Any] = {"string": "Undefined index: refId", "null": None, "hollow": {}}
        rows[1] = broken[quirk.poison] if quirk.poison in broken else {**rows[1], "index": "n/a"}
    if quirk.collection_shape == "list":
        return {key: rows}
    factor, first = (3, 2) if quirk.collection_shape == "gaps" else (1, 0)
    numbered = [(str(factor * number + first), row) for number, row in enumerate(rows)]
    return {key: dict(numbered[1::2] + numbered[::2][::-1] if quirk.collection_shape == "shuffled" else numbered)}


# Pages and lookups

_NONE: Final = "No records found."


def clamp(quirk: Profile, served: int, now: float) -> int | None:
    """Return the largest page that the server gives now, after so many pages."""
    if quirk.clamp_change == "steady":
        return quirk.rows_clamp
    is_wide = {"lowered": served < 3, "raised": served >= 3, "hourly": now // 3600 % 2 == 0}
    return (quirk.rows_clamp or 2) * (10 if is_wide.get(quirk.clamp_change, served % 2 == 0) else 1)


def page(
    quirk: Profile, fields: Fields, rows: Sequence[_T], default_rows: int | None, most: int | None
) -> Sequence[_T]:
    """Return the requested page of at most `most` rows. `offset` counts pages, not records (service document, 4)."""
    paired = ("offset" in fields) + ("rowsperpage" in fields)
    if paired == 1 and quirk.lone_offset == "400":
        raise Refusal(400, "offset and rowsperpage must be sent together.", "offset")
    offset, requested = 0, default_rows or max(len(rows), 1)
    if paired == 2:
        offset, requested = fields.integer("offset", least=0), fields.integer("rowsperpage", least=1)
        if quirk.rows_limit is not None and requested > quirk.rows_limit:
            raise Refusal(int(quirk.over_limit), "The field rowsperpage is too large.", "rowsperpage")
    size = min(requested, most) if most else requested
    if quirk.offset_ignored:
        offset = 0
    if not rows and offset == 0:
        if quirk.nothing_found == "empty":
            return ()
        raise Refusal(404, _NONE if quirk.nothing_found == "404" else "Not Found")
    start = offset * (size if quirk.clamp_stride == "clamped" else requested)
    if start < len(rows) or quirk.past_end == "empty":
        return rows[start : start + size]
    if quirk.past_end != "last_page":
        raise Refusal(
            int(quirk.past_end), _NONE if quirk.past_end == "404" else "The offset is out of range.", "offset"
        )
    return rows[max(len(rows) - 1, 0) // size * size :]


def found(quirk: Profile, rows: Sequence[_T]) -> Sequence[_T]:
    """Return what a lookup by index found, or refuse if that is nothing."""
    if not rows and quirk.lookup_missing != "empty":
        sentence = _NONE if quirk.lookup_missing == "404" else "There is no such record."
        raise Refusal(int(quirk.lookup_missing), sentence, "index")
    return rows


def is_hidden(quirk: Profile, request: int) -> bool:
    """Return whether the caller has no right to see a request of another party."""
    return (quirk.hidden == "rows" and request % 3 == 0) or (quirk.hidden == "runs" and request // 10 % 2 == 1)


def rounded(quirk: Profile, amount: Number) -> Number:
    if quirk.amount_rounding == "none":
        return amount
    # Rounding a large amount fails with the default of 28 digits.
    exact = Decimal(amount).quantize(Decimal("0.01"), ROUND_HALF_UP, Context(prec=100))
    return exact if quirk.amount_rounding == "cents" else int(Decimal(amount).to_integral_value(ROUND_HALF_UP))


# Replies

NO_BODY: Final = Raw("")
NO_CONTENT: Final = Raw("")
"""Payloads of replies without a body; the second has the status 204."""

_REPLACEMENTS: Final[Mapping[str, object]] = {
    "empty_object": {},
    "empty_list": [],
    "null": None,
    "no_body": NO_BODY,
    "no_content": NO_CONTENT,
    "empty_offers": {"offers": {}},
    "message": {"message": "The offer has been declined."},
}


def replaced(form: str, payload: Any, record: Json | None = None) -> Any:
    """Return the payload of a reply that the document does not show: a collection, its record alone, or another."""
    return record if form == "record" else _REPLACEMENTS.get(form, payload)


def success(quirk: Profile, payload: Any, *, is_write: bool) -> Reply:
    """Write the reply to a call that was carried out."""
    status = quirk.write_status if is_write else 200
    if payload is NO_BODY or payload is NO_CONTENT:
        return _reply(quirk, 204 if payload is NO_CONTENT else status, b"", quirk.content_type)
    if quirk.unauthorized_key != "absent" and isinstance(payload, dict):
        empty = {"null": None, "false": False, "empty": "", "zero": 0}
        payload = {**payload, "Unauthorized": empty[quirk.unauthorized_key]}
    return _reply(quirk, status, encode(payload), quirk.content_type)


def refused(quirk: Profile, refusal: Refusal) -> Reply:
    """Write the reply to a call that was refused."""
    form = refusal.key or (quirk.bad_request_body if refusal.status == 400 else "message")
    if form == "text":
        return _reply(quirk, refusal.status, refusal.sentence.encode(), "text/plain; charset=utf-8")
    said = {refusal.field or "body": [refusal.sentence]} if form == "errors" else refusal.sentence
    return _reply(quirk, refusal.status, b"" if form == "empty" else encode({form: said}), quirk.content_type)


def _reply(quirk: Profile, status: int, body: bytes, content_type: str) -> Reply:
    if quirk.bom and body:
        body = b"\xef\xbb\xbf" + body
    headers = (("content-type", content_type),) if content_type and body else ()
    return Reply(status, headers, body, delay=quirk.latency)
