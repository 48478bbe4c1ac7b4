"""Tests of a tour through every operation under every quirk of a service: results change only as the table says.

The service document leaves points open, and real services deviate from it. A row of `QUIRKS` names a quirk of the
sandbox, what the sandbox sends under it, and what the client returns instead of the documented records. A quirk without
a row changes no result at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import attrs
import pytest
from tests.contract.documented import DRAFT, ROUTE_DRAFT
from tests.contract.support import Wire, opened, quirks

from freight_exchange import (
    BadRequestError,
    Bid,
    BidStatus,
    Carrier,
    Company,
    Contact,
    Currency,
    FreightExchange,
    FreightExchangeError,
    Listing,
    NotFoundError,
    Offer,
    OfferStatus,
    RateRequest,
    Request,
    RequestStatus,
    Response,
    Route,
    UnknownWord,
    User,
    ValidationError,
)

Outcomes = dict[str, Any]
Change = Callable[[Outcomes], Outcomes]
FREIGHT: Final = (RateRequest, Listing, Bid)


@attrs.frozen
class Failed:
    """Error of a call: its class, and the field that a `ValidationError` names."""

    error: type[FreightExchangeError]
    field: str = ""


# The tour: every operation, at a market with requests 1 to 5; 3 and 5 are awarded


async def outcome(call: Awaitable[object]) -> object:
    try:
        return await call
    except ValidationError as error:
        return Failed(ValidationError, error.field)
    except FreightExchangeError as error:
        return Failed(type(error))


def tour(fx: FreightExchange, shipper: FreightExchange, idle: FreightExchange) -> dict[str, Awaitable[object]]:
    """Return the calls of the forwarder, the shipper and an account without records: first the reads."""
    second, recent = timedelta(seconds=1), timedelta(seconds=1500)
    sailing = {"departs_from": datetime(2030, 1, 5), "departs_until": datetime(2030, 1, 8)}
    bare, fees = attrs.evolve(DRAFT, notes=None, hazardous=False, type="warehousing"), {"Freight": "1800.067"}

    async def updated(**changes: Any) -> object:
        return await fx.routes.update(attrs.evolve(await fx.routes.get(301), **changes))

    return {
        "open": fx.requests.open().collect(),
        "open recent": fx.requests.open(since=recent).collect(),
        "open none": fx.requests.open(since=second).collect(),
        "open one": fx.requests.get_open(4),
        "open old": fx.requests.get_open(1),
        "open missing": fx.requests.get_open(99),
        "search": fx.requests.search().collect(),
        "search accept": fx.requests.search(type="accept").collect(),
        "search pending": fx.requests.search(type="pending").collect(),
        "search none": fx.requests.search(since=second).collect(),
        "search one": fx.requests.get(4),
        "search settled": fx.requests.get(3),
        "search missing": fx.requests.get(99),
        "offers": shipper.offers.list().collect(),
        "offers none": idle.offers.list().collect(),
        "offers one": shipper.offers.get(2),
        "offers bare": shipper.offers.get(4),
        "offers settled": shipper.offers.get(3),
        "offers missing": shipper.offers.get(99),
        **{f"found {kind}": shipper.offers.search(type=kind).collect() for kind in ("all", "offers", "sel", "nsel")},
        "found none": idle.offers.search().collect(),
        "bids": fx.bids.list().collect(),
        "bids none": idle.bids.list().collect(),
        **{f"bids {kind}": fx.bids.list(type=kind).collect() for kind in ("active", "sel", "nsel", "offers")},
        "routes": fx.routes.list().collect(),
        "routes named": fx.routes.list(origin="Hong Kong").collect(),
        "routes part": fx.routes.list(origin="Hong").collect(),
        "routes carrier": fx.routes.list(carrier=2).collect(),
        "routes sailing": fx.routes.list(**sailing).collect(),  # type: ignore[arg-type]  # filters by name
        "routes none": fx.routes.list(origin="Nowhere").collect(),
        "routes one": fx.routes.get(302),
        "routes missing": fx.routes.get(999),
        "carriers": fx.carriers.list().collect(),
        "carriers one": fx.carriers.get(7),
        "carriers missing": fx.carriers.get(99),
        "currencies": fx.currencies.list().collect(),
        "currencies one": fx.currencies.get(826),
        "currencies missing": fx.currencies.get(99),
        "currencies code": fx.currencies.by_code("gbp"),
        "currencies unknown": fx.currencies.by_code("XXX"),
        "respond declined": shipper.offers.decline(5002),
        "respond approved": shipper.offers.approve(5001),
        "respond again": shipper.offers.approve(5001),
        "respond another": shipper.offers.approve(5003),
        "respond unknown": shipper.offers.approve(9999),
        "submit full": fx.bids.submit(4, amount="1840.567", currency="USD", rates=fees, terms="14 days"),
        "submit bare": fx.bids.submit(1, amount=99, currency=978),
        "submit second": fx.bids.submit(4, amount="1700.25", currency="eur"),
        "submit late": fx.bids.submit(3, amount=850, currency=840),
        "submit unknown": fx.bids.submit(99, amount=850, currency=840),
        "publish full": shipper.requests.publish(DRAFT),
        "publish bare": shipper.requests.publish(bare),
        "create": fx.routes.create(ROUTE_DRAFT),
        "create wrong": fx.routes.create(attrs.evolve(ROUTE_DRAFT, carrier=99)),
        "update": updated(vessel="Pacific Star Dawn"),
        "update unknown": updated(index=999),
    }


@attrs.define
class Trip:
    """Outcomes of a tour, and the replies as text, each with its status and content type."""

    outcomes: Outcomes = attrs.field(factory=dict)
    replies: list[str] = attrs.field(factory=list)


async def travel(wire: Wire, quirk: Mapping[str, Any], **options: Any) -> Trip:
    trip = Trip()

    async def record(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        content_type = dict(response.headers).get(b"content-type", b"no content type")
        head = f"{request.method} {request.path}: {response.status} {content_type.decode()}"
        trip.replies.append(f"{head}\n{response.content.decode()}")
        return response

    options["middleware"] = [record]
    async with opened(wire, "busy", **quirk) as market:
        market.register("idle@demo.example", "idle")
        clients = [await market.client(side, **options) for side in ("forwarder", "shipper")]
        idle = await market.client("forwarder", email="idle@demo.example", password="idle", **options)
        wrong = await market.client("forwarder", password="wrong", **options)
        trip.outcomes["login"] = await outcome(clients[0].login())
        trip.outcomes["login wrong"] = await outcome(wrong.login())
        for client in (clients[1], idle):
            await client.login()
        # The calls renew the tokens, however the service rejects them.
        market.expire_tokens()
        trip.outcomes |= {name: await outcome(call) for name, call in tour(clients[0], clients[1], idle).items()}
    return trip


# How results change


def walk(kind: type[Any] | tuple[type[Any], ...], change: Callable[[Any], Any]) -> Change:
    """Change every record of a kind, nested ones included."""

    def inner(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(inner, value))
        if not attrs.has(type(value)) or isinstance(value, Failed):
            return value
        whole = attrs.evolve(
            value, **{field.name: inner(getattr(value, field.name)) for field in attrs.fields(type(value))}
        )
        return change(whole) if isinstance(whole, kind) else whole

    return lambda outcomes: {name: inner(value) for name, value in outcomes.items()}


def become(kind: type[Any] | tuple[type[Any], ...], **fields: Any) -> Change:
    """Give every record of a kind other fields: values, or functions of the record."""
    return walk(
        kind, lambda record: attrs.evolve(record, **{k: v(record) if callable(v) else v for k, v in fields.items()})
    )


def none(kind: type[Any], names: str) -> Change:
    return become(kind, **dict.fromkeys(names.split()))


def at(names: str, change: Callable[[Outcomes, Any], Any]) -> Change:
    """Change outcomes by name, or by the beginning of their names with `*`."""

    def apply(outcomes: Outcomes) -> Outcomes:
        parts = names.split(", ")
        chosen = [key for key in outcomes if any(key == p or (p[-1] == "*" and key.startswith(p[:-1])) for p in parts)]
        assert chosen, names
        return outcomes | {key: change(outcomes, outcomes[key]) for key in chosen}

    return apply


def fail(names: str, error: type[FreightExchangeError] = BadRequestError, field: str = "") -> Change:
    return at(names, lambda outcomes, value: Failed(error, field))


def same_as(name: str) -> Callable[[Outcomes, Any], Any]:
    return lambda outcomes, value: outcomes[name]


def only(*indexes: int) -> Callable[[Outcomes, Any], Any]:
    return lambda outcomes, value: [record for record in value if record.index in indexes]


def lists(change: Callable[[list[Any]], object]) -> Change:
    return lambda outcomes: {k: change(v) if isinstance(v, list) else v for k, v in outcomes.items()}


def odd(kind: type[Any] | tuple[type[Any], ...], field: str, word: str) -> Change:
    """Give every record with an odd index an unknown word."""
    return walk(kind, lambda r: attrs.evolve(r, **{field: UnknownWord(word)}) if r.index % 2 else r)


DATES = ("cycutoff", "cfscutoff", "estDeparture", "estArrival")
NO_TIMES: Final = dict.fromkeys(("cy_cutoff", "cfs_cutoff", "departure", "arrival"))
EXTRA: Final = {"xShard": 7, "xAudit": {"by": "system", "flags": [1, None]}}
PASSED_OVER: Final = {3: (5005, 950), 5: (5006, 400)}


def without_dates(text: str | None) -> tuple[Change, ...]:
    def kept(*keys: str) -> Mapping[str, object]:
        return {} if text is None else dict.fromkeys(keys, text)

    updates = fail("update, update unknown", *((ValidationError, "cy_cutoff") if text is None else ()))
    return (
        become(FREIGHT, need_date=None, extra=kept("needdate")),
        become(User, last_login=None, extra=kept("lastlogin")),
        become(Route, **NO_TIMES, extra=kept(*DATES)),
        updates,
    )


WITHOUT_OPTIONAL: Final = (
    none(RateRequest, "ref_id notes measure_unit mass_unit incoterm hazardous"),
    none(Listing, "ref_id notes measure_unit mass_unit"),
    none(Bid, "ref_id notes measure_unit mass_unit"),
    none(Offer, "terms rates"),
    none(User, "middle_name title image_url last_login"),
    none(Route, "cy_cutoff cfs_cutoff vessel voyage_id"),
    none(Company, "address1 state phone fax oti_license"),
    fail("update, update unknown", ValidationError, "cy_cutoff"),
)
BROKEN: Final = (
    lists(lambda found: found[:1] + found[2:]),
    # The second currency is the euro, which then cannot be found by its code.
    fail("submit second", ValidationError, "currency"),
)


def every_offer(listing: Listing) -> Listing:
    if listing.selected is None or listing.index not in PASSED_OVER:
        return listing
    number, amount = PASSED_OVER[listing.index]
    other = Offer(id=number, request=listing.index, amount=Decimal(amount), currency=840, status=OfferStatus.PENDING)
    return attrs.evolve(listing, offers=tuple(sorted((listing.selected, other), key=lambda offer: offer.id or 0)))


def switched(outcomes: Outcomes, value: Any) -> Any:
    contact = Contact(name="Rita Rival", email="rival@demo.example")
    approved = outcomes["respond approved"]
    taken = Offer(id=5003, request=approved.index, amount=Decimal(1650), currency=978, status=OfferStatus.SELECTED)
    company = attrs.evolve(approved.company, name="Rival & Co. Ltd")
    return attrs.evolve(approved, offers=(taken,), contact=contact, company=company)


def priced(amount: str) -> Callable[[Outcomes, Any], Any]:
    exact = Decimal(amount)
    return lambda outcomes, bid: attrs.evolve(bid, amount=exact, offer=attrs.evolve(bid.offer, amount=exact))


def declined(word: object) -> Change:
    """Give the offers of the reply to a decline a status, or leave them out."""

    def change(outcomes: Outcomes, listing: Any) -> Any:
        offers = () if word is None else tuple(attrs.evolve(offer, status=word) for offer in listing.offers)
        return attrs.evolve(listing, offers=offers)

    return at("respond declined", change)


def late(outcomes: Outcomes, value: Any) -> Any:
    bare = outcomes["submit bare"]
    offer = attrs.evolve(bare.offer, id=5011, request=3, amount=Decimal(850), currency=840)
    won = {"index": 3, "ref_id": "FX000003", "status": BidStatus.SELECTED, "amount": Decimal(850), "currency": 840}
    return attrs.evolve(bare, offer=offer, **won)


def with_a_fee(offer: Offer) -> Offer:
    return attrs.evolve(offer, rates={**offer.rates, "Platform Fee": Decimal(25)}) if offer.rates else offer


def later(time: timedelta) -> Change:
    return become(FREIGHT, need_date=lambda record: record.need_date + time)


def settled(status: object) -> Change:
    return walk((RateRequest, Listing), lambda r: attrs.evolve(r, status=status) if r.status == "Selected" else r)


@attrs.frozen(init=False)
class Quirk:
    """Row of the table.

    Attributes:
        name: The quirk of the sandbox and its value.
        sends: Parts of a reply that only a service with this quirk sends, separated by " ... "; "" if it is a matter of
            order or number.
        changes: What the client returns instead of the documented records.
    """

    name: str
    sends: str
    changes: tuple[Change, ...]

    def __init__(self, name: str, sends: str, *changes: Change) -> None:
        self.__attrs_init__(name, sends, changes)


INDEXED = become(User, company=lambda user: attrs.evolve(user.company, index=72))
EVERY_RECORD: Final = (*FREIGHT, Offer, Company, Route, Carrier, Currency, User)
NO_FEES = become(Offer, rates=lambda offer: {} if offer.rates is None else offer.rates)
NO_ROUTE = at("create, update", lambda outcomes, value: None)
PERMUTED = become(FREIGHT, width=lambda r: r.length, height=lambda r: r.width, length=lambda r: r.height)
OWN_NOTES = (become(FREIGHT, notes=""), at("publish full", lambda o, r: attrs.evolve(r, notes="Keep dry.")))
RECENT = at("open recent, open none, open", lambda o, v: only(4, 2)(o, o["open"]))
LAST_HOUR = (RECENT, fail("open old", NotFoundError))
SUBMITS, SAILS, UNKNOWN = (
    "submit *",
    "create *, create, update *, update",
    "submit unknown, respond unknown, update unknown",
)
LOOKUPS = (
    "open one, open old, search one, search settled, offers one, offers bare, offers settled, routes one, "
    "routes carrier, carriers one, currencies one"
)
MISSING = "open missing, search missing, offers missing, routes missing, carriers missing, currencies missing"
ORDERS = ("oldest", "index", "updated", "random")
REJECTIONS = (400, 403, 422, 200)
NO_REASONS = {"null": "null", "false": "false", "empty": '""', "zero": "0"}

# fmt: off
QUIRKS: Final = (
    # 1: collections
    Quirk("collection_shape=list", '{"carriers":[{"index":1,'),
    Quirk("collection_shape=gaps", '{"carriers":{"2":{"index":7,'), Quirk("collection_shape=shuffled", ""),
    Quirk("empty_collection=list", '{"raterequests":[]}'), Quirk("empty_collection=null", '{"raterequests":null}'),
    Quirk("empty_collection=bare_object", ": 200 application/json\n{}"),
    Quirk("empty_collection=bare_list", ": 200 application/json\n[]"),
    Quirk("empty_collection=bare_null", ": 200 application/json\nnull"),
    Quirk("empty_map=object", '"rates":{}', NO_FEES), Quirk("empty_map=list", '"rates":[]', NO_FEES),
    Quirk("empty_map=null", '"rates":null'),
    # 2, 3: offers, and their identifiers
    Quirk("empty_offer=list", '"offer":[]'), Quirk("empty_offer=null", '"offer":null'),
    Quirk("empty_offer=absent", '"cargolength":1.2}'), Quirk("offer_shape=entry", ""),
    Quirk("offer_shape=list", '"offer":[{"offerId":'),
    Quirk("selected_offer_shape=collection", '"offer":{"0":{"offerId":"5004",', walk(Listing, every_offer)),
    Quirk("offer_id_key=offerIndex", '"offerIndex":"5003"'), Quirk("offer_id_key=index", '"index":"5003"'),
    Quirk("approval_offer_id_key=offerId", 'POST quote/approveoffer ... "offerId":"5001"'),
    Quirk("approval_offer_id_key=index", 'POST quote/approveoffer ... "index":"5001"'),
    Quirk("submit_offer_id_key=offerIndex", '"offerIndex":"5008"'),
    Quirk("submit_offer_id_key=offerId", '"offerId":"5008"'), Quirk("offer_id_type=int", '"offerId":5001,'),
    Quirk("bid_offer=empty", '"currencyIndex":840,"offer":{}'),
    # 4: other names
    Quirk("offer_currency_key=currencyIndex", 'GET quote/offer ... "currencyIndex":840'),
    Quirk("submit_currency_key=currencyId", 'POST quote/submitoffer ... "currencyId":978'),
    Quirk("bid_currency_key=currencyId", 'GET quote/bid ... "currencyId":840'),
    Quirk("carrier_key=carrierId", '"carrierId":3'), Quirk("vessel_key=vessel", '"vessel":"Ever Given"'),
    Quirk("route_time_keys=departure", '"departure":"2027-01-04 06:00:00","arrival":"2027-01-19 14:00:00"'),
    # 5: contacts
    Quirk("approval_contacts=record", '"5001","offerAmount":1840.50,"currencyId":840,"status":"selected",'
                                      '"terms":"14 days","rates":{"Freight":1800}},"loadingPOC":{'),
    Quirk("approval_contacts=both", '}},"loadingPOC":{"name":"Fergus'),
    Quirk("listing_contacts=offer", '"5004","offerAmount":900,"currencyId":344,"status":"selected","loadingPOC":{'),
    Quirk("listing_contacts=both", '"5004","offerAmount":900,"currencyId":344,"status":"selected","loadingPOC":{'),
    Quirk("bid_contacts=offer", '"offer":{"loadingPOC":{'),
    Quirk("pending_contacts=null", '"loadingPOC":null,"loadingCompany":null'),
    Quirk("pending_contacts=list", '"loadingPOC":[],"loadingCompany":[]'),
    # 6: scalars
    Quirk("number_form=string", '"qty":"10"'), Quirk("number_form=padded", '"weight":40.00'),
    Quirk("number_form=exponent", '"weight":4.0E+1'), Quirk("hazardous_form=string", '"hazardous":"1"'),
    Quirk("hazardous_form=bool", '"hazardous":true'), Quirk("enabled_form=true", '"enabled":"true"'),
    Quirk("enabled_form=True", '"enabled":"True"'), Quirk("enabled_form=bool", '"enabled":true'),
    Quirk("enabled_form=int", '"enabled":1'), Quirk("company_index=int", 'POST login ... "index":72', INDEXED),
    Quirk("company_index=string", 'POST login ... "index":"72"', INDEXED),
    # 7: the token's lifetime
    Quirk("expires_key=expires_in", '"expires_in":3600'), Quirk("expires_key=absent", ""),
    Quirk("expires_form=string", '"expires_on":"3600"'), Quirk("expires_form=epoch", '"expires_on":1'),
    Quirk("token_lifetime=5", '"expires_on":5'),
    # 8: words
    Quirk("word_case=upper", '"requesttype":"AIR FREIGHT","status":"AVAILABLE"'),
    Quirk("word_case=lower", '"requesttype":"air freight","status":"available"'),
    Quirk("unknown_words=status", '"status":"Under Review"', odd(FREIGHT, "status", "Under Review")),
    Quirk("unknown_words=requesttype", '"requesttype":"Rail"', odd(RateRequest, "type", "Rail")),
    Quirk("unknown_words=packaging", '"packaging":"Drum"', odd(FREIGHT, "packaging", "Drum")),
    # 9: unknown and missing fields
    Quirk("extra_keys=True", '"xShard":7,"xAudit":{', become(EVERY_RECORD, extra=EXTRA)),
    Quirk("optional_fields=absent", "", *WITHOUT_OPTIONAL),
    Quirk("optional_fields=null", '"refId":null', *WITHOUT_OPTIONAL),
    # 10: dates
    Quirk("date_form=zero", '"needdate":"0000-00-00 00:00:00"', *without_dates("0000-00-00 00:00:00")),
    Quirk("date_form=empty", '"needdate":""', *without_dates("")),
    Quirk("date_form=nonsense", '"needdate":"next Tuesday"', *without_dates("next Tuesday")),
    Quirk("date_form=null", '"needdate":null', *without_dates(None)),
    # 11: bytes and content types
    Quirk("bom=True", ": 200 application/json\n\ufeff{"),
    Quirk("content_type=text/html; charset=UTF-8", ": 200 text/html; charset=UTF-8\n{"),
    Quirk("content_type=", ": 200 no content type\n{"),
    # 12: broken records
    Quirk("poison=string", '"1":"Undefined index', *BROKEN), Quirk("poison=null", '"1":null', *BROKEN),
    Quirk("poison=hollow", '"1":{}', *BROKEN), Quirk("poison=bad_index", '"1":{"index":"n/a"', *BROKEN),
    # Never assume: what was published comes back changed, fees need not add up, nothing is in order
    Quirk("published_dimensions=permuted", '"cargowidth":1.2', PERMUTED),
    Quirk("published_date=as_sent", '"needdate":"2027-03-01 09:30:00"', later(timedelta(hours=9, minutes=30))),
    Quirk("published_date=day_later", '"needdate":"2027-03-02 00:00:00"', later(timedelta(days=1))),
    Quirk("published_weight=total", '"weight":12810', become(FREIGHT, weight=lambda r: r.weight * r.quantity)),
    Quirk("published_notes=as_sent", '"notes":"Keep dry."', *OWN_NOTES),
    Quirk("published_notes=absent", "", become(FREIGHT, notes=None)),
    Quirk("rates_sum=fee_added", '"Platform Fee":25', walk(Offer, with_a_fee)),
    Quirk("amount_rounding=cents", '"offerAmount":1840.57', at("submit full", priced("1840.57"))),
    Quirk("amount_rounding=whole", '"offerAmount":1841',
          at("submit full", priced("1841")), at("submit second", priced("1700"))),
    *(Quirk(f"order={value}", "", lists(lambda found: found[::-1])) for value in ORDERS),
    # Open points: what the service reads
    Quirk("get_body=dropped", "", *LAST_HOUR, at("bids active, bids sel, bids nsel", same_as("bids")),
          at("routes named, routes part, routes carrier, routes sailing, routes none", same_as("routes"))),
    Quirk("index_type=str", "GET carrier: 400 ", fail(f"{LOOKUPS}, {MISSING}, respond *, {SUBMITS}, {SAILS}")),
    Quirk("currency_field=currencyId", "", fail(SUBMITS)), Quirk("carrier_field=carrierId", "", fail(SAILS)),
    Quirk("route_text_match=contains", "", at("routes part", same_as("routes named"))),
    Quirk("search_default=open", "", at("search", only(4, 2, 1)), fail("search settled", NotFoundError)),
    Quirk("pending_means=no_offers", "", at("search pending", only(4, 1))),
    Quirk("bid_default=active", "", at("bids", same_as("bids active"))),
    Quirk("hidden=rows", "",
          at("search", only(5, 4, 2, 1)), at("search accept", only(5)), fail("search settled", NotFoundError)),
    # Open points: statuses, and replies without a record
    *(Quirk(f"failed_login_status={n}", f'POST login: {n} application/json\n{{"message":') for n in REJECTIONS),
    Quirk("failed_login_key=Unauthorized", 'POST login: 401 application/json\n{"Unauthorized":"'),
    *(Quirk(f"unauthorized_status={status}", "") for status in (403, 400, 200)),
    *(Quirk(f"unauthorized_key={word}", f'"Unauthorized":{value}}}') for word, value in NO_REASONS.items()),
    Quirk("bad_request_body=error", ': 400 application/json\n{"error":'),
    Quirk("bad_request_body=errors", ': 400 application/json\n{"errors":'),
    Quirk("bad_request_body=text", ": 400 text/plain"), Quirk("bad_request_body=empty", ": 400 no content type\n"),
    Quirk("write_status=201", "POST route: 201 "), Quirk("write_status=202", "POST route: 202 "),
    Quirk("route_write=record", 'POST route: 200 application/json\n{"index":304,'),
    Quirk("route_write=empty_object", "POST route: 200 application/json\n{}", NO_ROUTE),
    Quirk("route_write=empty_list", "POST route: 200 application/json\n[]", NO_ROUTE),
    Quirk("route_write=no_body", "POST route: 200 no content type\n", NO_ROUTE),
    Quirk("route_write=no_content", "POST route: 204 no content type\n", NO_ROUTE),
    Quirk("nothing_found=404", 'GET route: 404 application/json\n{"message":"No records found."}'),
    Quirk("nothing_found=404_bare", 'GET route: 404 application/json\n{"message":"Not Found"}',
          lists(lambda found: found or Failed(NotFoundError))),
    Quirk("lookup_missing=404", 'GET route: 404 application/json\n{"message":"No records found."}'),
    Quirk("lookup_missing=400", "GET route: 400 ", fail(MISSING)),
    Quirk("unknown_id_status=404", "PUT route: 404 ", fail(UNKNOWN, NotFoundError)),
    # Open points: states
    Quirk("selected_status=Available", "", settled(RequestStatus.AVAILABLE)),
    Quirk("selected_status=Closed", '"status":"Closed"', settled(UnknownWord("Closed"))),
    Quirk("decline_outcome=rejected", '"status":"rejected"', declined(UnknownWord("rejected"))),
    Quirk("decline_outcome=removed", "", declined(None)),
    Quirk("decline_outcome=unchanged", "", declined(OfferStatus.PENDING)),
    *(Quirk(f"decline_reply={value}", "", at("respond declined", lambda o, v: None))
      for value in ("empty_object", "empty_list", "null", "no_body", "empty_offers", "message")),
    Quirk("second_approval=switched", '"offer":{"offerIndex":"5003",', at("respond another", switched)),
    Quirk("second_approval=repeated", "", at("respond again", same_as("respond approved"))),
    Quirk("second_offer=400", "", fail("submit second")),
    Quirk("late_offer=taken", '"bid":{"index":3,', at("submit late", late)),
)
# fmt: on
BY_NAME: Final = {quirk.name: quirk for quirk in QUIRKS}
BESIDE: Final[Mapping[str, Mapping[str, Any]]] = {"over_limit": {"rows_limit": 20}}
"""Quirks that another one needs to have an effect."""
OF_PAGES: Final = ("rows_clamp", "clamp_stride", "clamp_change", "reference_rows")
"""Quirks of the sizes of pages, which the tests of listings cover."""
NAMES: Final = [name for name, (knob, _) in quirks().items() if knob not in OF_PAGES]
SUITED: Final = {
    "get_body=dropped": {"get_parameters": "query"},
    "currency_field=currencyId": {"currency_field": "both"},
    "currency_field=currencyIndex": {"currency_field": "both"},
    "carrier_field=carrierId": {"carrier_field": "both"},
    "carrier_field=carrier": {"carrier_field": "both"},
}
"""Options of the client for a quirk: with them it changes no result."""

_known: dict[str, Trip] = {}


async def documented(**beside: Any) -> Trip:
    """Return the tour of a service without quirks, or with those that another one needs."""
    key = repr(sorted(beside.items()))
    if key not in _known:
        _known[key] = await travel("memory", beside)
    return _known[key]


def in_any_order(outcomes: Outcomes) -> Outcomes:
    return {name: sorted(value, key=repr) if isinstance(value, list) else value for name, value in outcomes.items()}


def differing(outcomes: Outcomes, expected: Outcomes) -> dict[str, tuple[object, object]]:
    """Return the outcomes that differ, each with the expected one."""
    assert outcomes.keys() == expected.keys()
    return {name: (outcomes[name], expected[name]) for name in outcomes if outcomes[name] != expected[name]}


def _tours() -> list[tuple[str, ...]]:
    """Give each quirk that changes results a tour, and three of those that change none one together.

    Values of one quirk are neighbours in the list, so those of a tour belong to different quirks. A quirk of every
    reply would change those by which the others are known.
    """
    alone = {name for name in NAMES if quirks()[name][0] in ("bom", "content_type", "number_form")}
    alone |= {name for name, quirk in BY_NAME.items() if quirk.changes}
    harmless = [name for name in NAMES if name not in alone]
    count = -(-len(harmless) // 3)
    return [(name,) for name in NAMES if name in alone] + [tuple(harmless[at::count]) for at in range(count)]


async def check(names: Iterable[str], wire: Wire) -> None:
    values = dict(quirks()[name] for name in names)
    beside = {key: value for knob in values for key, value in BESIDE.get(knob, {}).items()}
    plain = await documented(**beside)
    trip = await travel(wire, {**beside, **values})
    expected, outcomes = plain.outcomes, trip.outcomes
    listed = [BY_NAME[name] for name in names if name in BY_NAME]
    for quirk in listed:
        for change in quirk.changes:
            expected = change(expected)
    if "order" in values:
        expected, outcomes = in_any_order(expected), in_any_order(outcomes)
    assert differing(outcomes, expected) == {}
    for quirk in listed:
        if quirk.sends:
            parts = quirk.sends.split(" ... ")
            with_quirk, without = (
                [reply for reply in replies if all(part in reply for part in parts)]
                for replies in (trip.replies, plain.replies)
            )
            assert with_quirk, quirk.sends
            assert without == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("names", _tours(), ids=", ".join)
async def test_quirks_change_results_only_as_listed(names: tuple[str, ...]) -> None:
    await check(names, "memory")


@pytest.mark.parametrize("name", ["bom=True", *NAMES[3::18]])
async def test_quirk_over_sockets_changes_results_only_as_listed(name: str) -> None:
    await check([name], "sockets")


@pytest.mark.virtual_time
async def test_every_listed_quirk_exists_and_its_change_occurs() -> None:
    """A listed change that the tour does not show would hide a fault one day."""
    assert BY_NAME.keys() <= quirks().keys()
    assert len(BY_NAME) == len(QUIRKS)
    plain = (await documented()).outcomes
    for quirk in QUIRKS:
        for change in quirk.changes:
            assert differing(change(plain), plain), quirk.name


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", SUITED)
async def test_option_of_client_suits_quirk(name: str) -> None:
    knob, value = quirks()[name]
    trip = await travel("memory", {knob: value}, **SUITED[name])
    assert differing(trip.outcomes, (await documented()).outcomes) == {}
