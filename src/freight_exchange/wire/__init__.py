"""Wire format: replies to records, and drafts to JSON. No other module knows the names of the wire.

`codec` reads records, this module what is around them, and writes drafts and parameters; `json` is the syntax. Any body
gives a value or a `DecodeError`.

Errors name types and places, never values: a reply may repeat a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import attrs

from freight_exchange import validation
from freight_exchange.errors import DecodeError, ValidationError
from freight_exchange.models import (
    Bid,
    Carrier,
    Company,
    Contact,
    Currency,
    Listing,
    Offer,
    RateRequest,
    RateRequestDraft,
    Route,
    RouteDraft,
    SubmitOffer,
    User,
)
from freight_exchange.options import CarrierField, CurrencyField
from freight_exchange.wire.codec import (
    ALIASES,
    LIFETIMES,
    RecordError,
    integer,
    known,
    number,
    position_of,
    structure,
    structure_rows,
)
from freight_exchange.wire.json import dump as dump
from freight_exchange.wire.json import parse as parse
from freight_exchange.words import Word

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

T = TypeVar("T")
Body = dict[str, object]

SECRETS: Final = ("token", "password", "authorization")
"""Parts of the keys of secrets, such as `refresh_token` and `new_password`."""


class Kind(NamedTuple, Generic[T]):
    collection: str
    model: type[T]


class Rows(NamedTuple, Generic[T]):
    """The records of a reply, and errors for what could not be read.

    `broken` has an error for each row without a readable identifier, `flaws` one for each unreadable value of a record.
    Each has `MAX_DESCRIBED` errors at most, and `more` is the number of further ones. `rows` counts all rows.
    """

    records: tuple[T, ...]
    broken: tuple[DecodeError, ...] = ()
    flaws: tuple[DecodeError, ...] = ()
    more: int = 0
    rows: int = 0

    def plus(self, other: Rows[T]) -> Rows[T]:
        """Return the rows of two replies, which are pieces of one page."""
        pairs: Any = zip(self, other, strict=True)
        return Rows(*(mine + theirs for mine, theirs in pairs))


BID: Final = Kind("bid", Bid)
"""A submitted offer in its reply (service document, 4.10)."""
REQUESTS: Final = Kind("raterequests", RateRequest)
OFFERS: Final = Kind("offers", Listing)
BIDS: Final = Kind("bids", Bid)
ROUTES: Final = Kind("routes", Route)
CARRIERS: Final = Kind("carriers", Carrier)
CURRENCIES: Final = Kind("currencies", Currency)

MAX_DESCRIBED: Final = 100
"""Maximum number of errors of a kind to describe in one reply; further ones are only counted."""


def decode_rows(data: object, kind: Kind[T]) -> Rows[T]:
    """Return the records of a listing, in the order of their numbers, and errors for what could not be read.

    An object without the collection is a `DecodeError`, as an empty listing would hide all requests from a watcher.
    """
    keys, raws = _collection(data, kind.collection)
    if not raws and _reports_failure(data) and not reports_no_records(find_sentence(data) or "", kind.collection):
        raise DecodeError(f"an error beside an empty {kind.collection!r}", raw=data)
    records, problems = structure_rows(raws, kind.model)
    broken, flaws, more = list[DecodeError](), list[DecodeError](), 0
    for at, problem in problems.items():
        if isinstance(problem, RecordError):
            message, places, errors = str(problem), [problem.key], broken
        else:
            message, places, errors = "a value that cannot be read", problem, flaws
        more += max(0, len(errors) + len(places) - MAX_DESCRIBED)
        for place in places[: MAX_DESCRIBED - len(errors)]:
            path = ".".join(filter(None, (kind.collection, keys[at], place)))
            errors.append(DecodeError(message, path=path, raw=raws[at]))
    return Rows(tuple(records), tuple(broken), tuple(flaws), more, len(raws))


def decode_one(data: object, kind: Kind[T]) -> T:
    """Return the only record in the reply to a write; raise `DecodeError` without one, or if it reports an error."""
    if _reports_failure(data):
        raise DecodeError(f"an error where {kind.collection!r} is expected", raw=data)
    found = decode_rows(data, kind)
    if found.broken:
        raise found.broken[0]
    if len(found.records) != 1:
        raise DecodeError(f"{len(found.records)} records where one is expected", path=kind.collection)
    return found.records[0]


def decode_optional(data: object, kind: Kind[T]) -> T | None:
    """Return the record in the reply to a write that is not documented (service document, 3 and 4.5), if there is one.

    An empty reply, the record, and any other object are a success; all else, and an error, is a `DecodeError`.
    """
    if data in (None, {}, [], ""):
        return None
    if not isinstance(data, dict) or _reports_failure(data):
        raise DecodeError("an error where a record or nothing is expected", raw=data)
    held = data.get(kind.collection) or data.get("route") or data
    try:
        return decode_one({kind.collection: held}, kind)
    except DecodeError:
        return None


def _collection(data: object, name: str) -> tuple[list[str], list[Any]]:
    if data is None or data in ({}, []):
        return [], []
    if not isinstance(data, dict) or name not in data:
        found = "an object without" if isinstance(data, dict) else f"{type(data).__name__} instead of"
        raise DecodeError(f"{found} {name!r}", raw=data)
    held = data[name]
    if held is None:
        return [], []
    if isinstance(held, list):
        return [str(position) for position in range(len(held))], held
    if not isinstance(held, dict):
        raise DecodeError(f"{type(held).__name__} where a collection is expected", path=name, raw=held)
    keys = sorted(held, key=position_of)
    if keys and position_of(keys[-1]) < 0:
        if isinstance(held.get("index"), dict | list | None):
            raise DecodeError("an object that is not a collection", path=name, raw=held)
        # A single record in the place of the collection.
        return [""], [held]
    return keys, [held[key] for key in keys]


def index_of_raw(raw: object) -> int | None:
    """Return the index of an unreadable row, or `None` if the index is unreadable too."""
    with suppress(ValueError, AttributeError):
        return integer(raw.get("index"))  # type: ignore[attr-defined]  # as suppressed
    return None


def _reports_failure(data: object) -> bool:
    if not isinstance(data, dict):
        return False
    folded = {key.casefold(): value for key, value in data.items()}
    return any(folded.get(key) for key in _FAILURES) or any(
        str(folded[key]).strip().casefold() in ("false", "0", "no") for key in _SUCCESSES & folded.keys()
    )


# Refusals (service document, 7)

_FAILURES: Final = ("error", "errors")
_SUCCESSES: Final = frozenset({"success", "ok"})
_SENTENCES: Final = ("message", "Unauthorized", "error", "errors", "detail", "details", "msg", "reason")
"""Usual keys of sentences, as the document does not show the body of a 400."""
_MAX_SENTENCE: Final = 300


def reports_no_records(sentence: str, collection: str) -> bool:
    """Return whether a sentence reports only that the requested collection has no records.

    Only known sentences count: a gateway may answer, and a false empty listing hides requests from a watcher.
    """
    name = "(rate ?)?requests" if collection == "raterequests" else collection
    words = " ".join(re.findall(r"\w+", sentence.casefold()[:100]))
    return re.fullmatch(rf"no (data|records?|results?|{name})( were)? found", words) is not None


def is_unauthorized(data: object, *, success: bool) -> bool:
    """Return whether a reply only refuses the token.

    With a result beside it, the write may have been carried out, and a repeat would do it twice.
    """
    if not isinstance(data, dict) or "Unauthorized" not in data or (success and not data["Unauthorized"]):
        return False
    return not any(
        (isinstance(value, dict | list) and value)
        or key in ALIASES["id"]
        or (success and (key == "id" or (key.casefold() in _SUCCESSES and value in (True, "true", "1"))))
        for key, value in data.items()
        if key != "Unauthorized"
    )


def find_sentence(data: object) -> str | None:
    found = _sentence(data)
    return found if found is None or len(found) <= _MAX_SENTENCE else f"{found[: _MAX_SENTENCE - 3]}..."


def _sentence(data: object, *, is_inside: bool = False) -> str | None:
    if isinstance(data, str):
        return " ".join(data.split()) or None
    if isinstance(data, list):
        return next(filter(None, (_sentence(item, is_inside=True) for item in data)), None)
    if not isinstance(data, dict):
        return None
    folded = {key.casefold(): value for key, value in data.items()}
    usual = (_sentence(folded.get(key.casefold()), is_inside=True) for key in _SENTENCES)
    # Below the usual keys, fields with their problems, as validators report them.
    fields = ((key, _sentence(value, is_inside=True)) for key, value in data.items() if is_inside)
    return next(filter(None, usual), None) or next((f"{key}: {words}" for key, words in fields if words), None)


def find_sentence_in_text(text: str) -> str | None:
    """Return the text of a refusal that is not JSON, if it is short, plain and not HTML."""
    words = " ".join(text.split())
    is_plain = len(words) <= _MAX_SENTENCE and words.isprintable() and not re.search("<[A-Za-z!/?]", words)
    return words if words and is_plain else None


@cache
def names() -> frozenset[str]:
    """Return the names of the wire. A short secret that is one of them is not masked there."""
    models = (Bid, Carrier, Company, Contact, Currency, Listing, Offer, RateRequest, Route, User)
    envelopes = {kind.collection for kind in (REQUESTS, OFFERS, BIDS, ROUTES, CARRIERS, CURRENCIES)}
    return frozenset({"bid", "user", "access_token", *_SENTENCES, *envelopes}.union(*map(known, models)))


# Logins (service document, 4.1)

_EARLIEST_EPOCH: Final = 10**9
"""A lifetime of more than thirty years is a date, in seconds since 1970."""


@attrs.frozen(eq=False, repr=False)
class Login:
    """Result of a login: the account, its token, and the seconds until it expires."""

    user: User
    token: str
    lifetime: float | None


def decode_login(data: object, *, wall: float) -> Login:
    """Decode the account and its token at the time `wall`; raise `DecodeError` if one is missing."""
    holder = data.get("user") if isinstance(data, dict) else None
    token = _token(data)
    if isinstance(data, dict) and isinstance(holder, dict) and isinstance(token, str) and is_token(token):
        lifetime = _lifetime(holder, data)
        if lifetime is not None and lifetime > _EARLIEST_EPOCH:
            lifetime -= wall
        return Login(structure(_without_secrets(holder), User)[0], token, lifetime)
    # A traceback with locals would show the token in the reply.
    del data, holder, token
    raise DecodeError("the reply to a login has no token that a header can carry", path="user.access_token")


def is_rejection(data: object) -> bool:
    """Return whether a reply rejects a login: it has a message and no token."""
    return isinstance(data, dict) and _token(data) is None and ("message" in data or "Unauthorized" in data)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_secrets(item)
            for key, item in value.items()
            if not any(word in key.casefold() for word in SECRETS)
        }
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def is_token(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable() and " " not in token


def _token(data: object) -> object:
    if not isinstance(data, dict):
        return None
    holder = data.get("user")
    inside = holder.get("access_token") if isinstance(holder, dict) else None
    return inside or data.get("access_token") or None


def _lifetime(*places: Mapping[str, object]) -> float | None:
    for value in (place.get(key) for place in places for key in LIFETIMES):
        # An unreadable lifetime counts as unknown: the token is used until the service refuses it.
        with suppress(ValueError):
            if (seconds := number(value)) is not None:
                return max(0.0, float(seconds))
    return None


# Drafts and parameters, with exactly the documented names, types and formats (service document, 4)

_SAME = "origin destination arrival packaging quantity length width height weight incoterm hazardous notes"
_DRAFT: Final = {"commodityname": "commodity", "requesttype": "type", **{name: name for name in _SAME.split()}}
_FILTERS: Final = {
    "origin": "origin", "destination": "destination", "carrier": "carrierId", "vessel": "vessel",
    "voyage_id": "voyageId", "timezone": "timezone", "departure": "departure", "arrival": "arrival",
    "cy_cutoff": "cycutoff", "cfs_cutoff": "cfscutoff", "departs_from": "departStart", "departs_until": "departEnd",
    "arrives_from": "arrivalStart", "arrives_until": "arrivalEnd", "cy_from": "cyStart", "cy_until": "cyEnd",
    "cfs_from": "cfsStart", "cfs_until": "cfsEnd",
}  # fmt: skip
_ROUTE_TEXTS: Final = ("origin", "destination", "vessel", "voyage_id", "timezone")
_ROUTE_TIMES: Final = ("cy_cutoff", "cfs_cutoff", "departure", "arrival")


def encode_credentials(email: str, password: str) -> bytes:
    """Encode the body of a login (service document, 4.1). Neither is in an error or its traceback."""
    try:
        return dump({"email": email, "password": password})
    except ValidationError:
        pass
    del email, password
    raise ValidationError("the email or password contains a character that cannot be sent", field="credentials")


def encode_request_draft(draft: RateRequestDraft) -> Body:
    """Encode the body that publishes a rate request (service document, 4.3)."""
    values = {key: getattr(draft, field) for key, field in _DRAFT.items()}
    body = {key: value for key, value in values.items() if value is not None}
    return {**body, "arrival": _written(draft.arrival), "hazardous": int(draft.hazardous)}


def encode_offer(write: SubmitOffer, currency_field: CurrencyField = "currencyIndex") -> Body:
    """Encode the body that submits an offer (service document, 4.10)."""
    names = ("currencyIndex", "currencyId") if currency_field == "both" else (currency_field,)
    body: Body = {"requestIndex": write.request, "offer": write.amount, **dict.fromkeys(names, write.currency)}
    if write.rates is not None:
        body["rates"] = dict(write.rates)
    if write.terms is not None:
        body["terms"] = write.terms
    return body


def encode_response(offer_id: int, approved: bool) -> Body:
    return {"offerIndex": offer_id, "approved": int(approved)}


def encode_route(draft: RouteDraft | Route, carrier_field: CarrierField = "carrier") -> Body:
    """Encode the body that creates or replaces a route (service document, 4.5).

    An unreadable date is sent back as the received text, and an unknown zone with its naive times. A missing field,
    which the update would erase, is a `ValidationError`.
    """
    zone = validation.find_zone(draft.timezone) if draft.timezone and isinstance(draft.timezone, str) else None
    extra = draft.extra if isinstance(draft, Route) else {}
    body: Body = {"index": validation.identifier(draft.index, "index")} if isinstance(draft, Route) else {}
    for name in (*_ROUTE_TIMES, *_ROUTE_TEXTS):
        value: Any = getattr(draft, name)
        if value is None and name in _ROUTE_TIMES:
            value = next((text for key in ALIASES[name] if isinstance(text := extra.get(key), str)), None)
        elif name in _ROUTE_TIMES:
            # The zone does not apply to the arrival (service document, Route).
            if zone is None and name != "arrival" and isinstance(value, datetime) and value.tzinfo is not None:
                zone = validation.timezone(_present(draft.timezone, "timezone"))
            value = _time(value, None if name == "arrival" else zone, name)
        # An empty text of the service is sent back as received.
        body[_FILTERS[name]] = validation.text(_present(value, name), name, allow_empty=True)
    carrier = draft.carrier.index if isinstance(draft.carrier, Carrier) else _present(draft.carrier, "carrier")
    # An update sends back any number that the service has sent.
    if isinstance(carrier, bool) or not isinstance(carrier, int):
        problem = f"carrier must be a Carrier or its index, not a {type(carrier).__name__}"
        raise ValidationError(problem, field="carrier")
    return {**body, **dict.fromkeys(("carrier", "carrierId") if carrier_field == "both" else (carrier_field,), carrier)}


def encode_list_parameters(
    *,
    offset: int | None = None,
    rows: int | None = None,
    seconds: int | None = None,
    index: int | str | None = None,
    type: Word | None = None,
) -> Body:
    """Encode the parameters of a listing (service document, 4); `None` omits a parameter.

    `offset` is the number of the page, and only accepted together with `rows`.
    """
    word = None if type is None else type.value
    parameters = {"index": index, "type": word, "offset": offset, "rowsperpage": rows, "secondsSinceUpdate": seconds}
    return {key: value for key, value in parameters.items() if value is not None}


def check_paired(parameters: object) -> None:
    """Raise `ValidationError` for `offset` without `rowsperpage`, or the reverse, in free-form parameters."""
    if isinstance(parameters, Mapping) and ("offset" in parameters) != ("rowsperpage" in parameters):
        missing = "rowsperpage" if "offset" in parameters else "offset"
        raise ValidationError("offset and rowsperpage must be given together", field=missing)


def encode_route_filters(filters: Mapping[str, object]) -> Body:
    """Encode the filters of GET route (service document, 4.5) among the arguments of `routes.list`; skip `None`."""
    given = {name: filters[name] for name in _FILTERS if filters.get(name) is not None}
    return {_FILTERS[name]: _filter(value, name) for name, value in given.items()}


def _filter(value: Any, name: str) -> str | int:
    if name == "carrier":
        return validation.identifier(value, name)
    # The service compares times without zones.
    return validation.text(value, name) if name in _ROUTE_TEXTS else _time(value, None, name)


def _present(value: Any, field: str) -> Any:
    if value is None:
        raise ValidationError(f"{field} is missing, and an update must send the entire route", field=field)
    return value


def _time(value: Any, zone: ZoneInfo | None, name: str) -> str:
    if zone is None:
        return _written(validation.naive_datetime(value, name))
    return _written(validation.zoned_datetime(value, zone, name))


def _written(moment: datetime) -> str:
    # `strftime` would write the year 999 with three digits.
    return moment.replace(tzinfo=None, microsecond=0).isoformat(" ")
