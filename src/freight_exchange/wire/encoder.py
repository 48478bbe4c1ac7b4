"""Encoder of drafts and parameters, with exactly the documented names, types and formats."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from freight_exchange import validation
from freight_exchange.errors import ValidationError
from freight_exchange.models import Carrier, RateRequestDraft, Route, RouteDraft, SubmitOffer
from freight_exchange.options import CarrierField, CurrencyField
from freight_exchange.wire.codec import ALIASES
from freight_exchange.wire.json import dump
from freight_exchange.words import Word

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

Body = dict[str, object]

# Names of the wire, where they differ from those of arguments and attributes (service document, 4)

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
