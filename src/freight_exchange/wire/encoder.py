"""Encoder of drafts and parameters, with exactly the documented names, types and formats."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from freight_exchange import validation
from freight_exchange.errors import ValidationError
from freight_exchange.models import Carrier, RateRequestDraft, Route, RouteDraft, SubmitOffer
from freight_exchange.options import CarrierField, CurrencyField
from freight_exchange.wire import fields
from freight_exchange.wire.json import dump
from freight_exchange.words import Word

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

__all__ = [
    "Body",
    "CarrierField",
    "CurrencyField",
    "check_paired",
    "encode_credentials",
    "encode_list_parameters",
    "encode_offer",
    "encode_request_draft",
    "encode_response",
    "encode_route",
    "encode_route_filters",
]

Body = dict[str, object]


def encode_credentials(email: str, password: str) -> bytes:
    """Encode the body of a login (service document, 4.1).

    Raises:
        ValidationError: One of them cannot be sent. Neither is in the error or its traceback.
    """
    try:
        return dump({fields.LOGIN_EMAIL: email, fields.LOGIN_PASSWORD: password})
    except ValidationError:
        pass
    del email, password
    raise ValidationError("the email or password contains a character that cannot be sent", field="credentials")


def encode_request_draft(draft: RateRequestDraft) -> Body:
    """Encode the body that publishes a rate request (service document, 4.3)."""
    values = {key: getattr(draft, field) for field, key in fields.REQUEST_DRAFT.items()}
    return {key: _plain(value) for key, value in values.items() if value is not None}


def encode_offer(write: SubmitOffer, currency_field: CurrencyField = "currencyIndex") -> Body:
    """Encode the body that submits an offer (service document, 4.10)."""
    body: Body = {fields.OFFER_REQUEST: write.request, fields.OFFER_TOTAL: write.amount}
    body |= dict.fromkeys(fields.CURRENCY_FIELDS[currency_field], write.currency)
    if write.rates is not None:
        body[fields.RATES] = dict(write.rates)
    if write.terms is not None:
        body[fields.OFFER_TERMS] = write.terms
    return body


def encode_response(offer_id: int, approved: bool) -> Body:
    """Encode the body that approves or declines an offer (service document, 4.8)."""
    return {fields.RESPONSE_OFFER: offer_id, fields.RESPONSE_APPROVED: int(approved)}


def encode_route(draft: RouteDraft | Route, carrier_field: CarrierField = "carrier") -> Body:
    """Encode the body that creates or replaces a route (service document, 4.5).

    An unreadable date is sent back as the received text. An unknown zone is sent back with its naive times.

    Raises:
        ValidationError: The route lacks a field, which the update would erase; a value cannot be sent; a time is aware
            and the zone of the route is unknown; or the arrival has a zone.
    """
    zone = _zone(draft)
    times = {key: _time(draft, field, spellings, zone) for field, (key, spellings) in fields.ROUTE_TIMES.items()}
    # An empty text of the service is sent back as received.
    texts = {
        key: validation.text(_present(getattr(draft, field), field), field, allow_empty=True)
        for field, key in fields.ROUTE_TEXTS.items()
    }
    index = {fields.ROUTE_INDEX: validation.identifier(draft.index, "index")} if isinstance(draft, Route) else {}
    carrier = _carrier(draft.carrier)
    return {**index, **texts, **times, **dict.fromkeys(fields.CARRIER_FIELDS[carrier_field], carrier)}


def encode_list_parameters(
    *,
    offset: int | None = None,
    rows: int | None = None,
    seconds: int | None = None,
    index: int | str | None = None,
    type: Word | None = None,
) -> Body:
    """Encode the parameters of a listing (service document, 4); `None` omits a parameter.

    Args:
        offset: The number of the page, from 0.
        rows: Records per page; the service accepts it only together with `offset`.
        seconds: Largest age of the last update.
        index: Index of the only wanted record.
        type: A word of the listing's filter.

    Raises:
        ValidationError: `offset` and `rows` are not given together.
    """
    if (offset is None) != (rows is None):
        raise ValidationError("offset and rows must be given together", field="rows" if rows is None else "offset")
    parameters: Body = {
        fields.INDEX_PARAMETER: index,
        fields.TYPE_PARAMETER: None if type is None else type.value,
        fields.OFFSET: offset,
        fields.ROWS: rows,
        fields.SECONDS: seconds,
    }
    return {key: value for key, value in parameters.items() if value is not None}


def check_paired(parameters: object) -> None:
    """Raise `ValidationError` for `offset` without `rowsperpage`, or the reverse, in free-form parameters."""
    if isinstance(parameters, Mapping) and (fields.OFFSET in parameters) != (fields.ROWS in parameters):
        missing = fields.ROWS if fields.OFFSET in parameters else fields.OFFSET
        raise ValidationError(f"{fields.OFFSET} and {fields.ROWS} must be given together", field=missing)


def encode_route_filters(filters: Mapping[str, object]) -> Body:
    """Encode the filters of GET route (service document, 4.5), by their names in `fields.ROUTE_FILTERS`; skip `None`.

    Raises:
        ValidationError: A time is not a `datetime` or has a zone, a text is empty, or the carrier is not an index.
    """
    return {fields.ROUTE_FILTERS[name]: _filter(value, name) for name, value in filters.items() if value is not None}


def _filter(value: object, name: str) -> str | int:
    if name == "carrier":
        return validation.identifier(value, name)
    if name in fields.ROUTE_TEXT_FILTERS:
        return validation.text(value, name)
    # The service compares times without zones.
    return _written(validation.naive_datetime(value, name))


def _present(value: object, field: str) -> object:
    if value is None:
        raise ValidationError(f"{field} is missing, and an update must send the entire route", field=field)
    return value


def _carrier(carrier: object) -> int:
    """Return the index of a carrier; an update sends back any number that the service has sent."""
    index = carrier.index if isinstance(carrier, Carrier) else _present(carrier, "carrier")
    if isinstance(index, bool) or not isinstance(index, int):
        raise ValidationError(f"carrier must be a Carrier or its index, not a {type(index).__name__}", field="carrier")
    return index


def _zone(draft: RouteDraft | Route) -> ZoneInfo | None:
    """Return the zone of a route's times, or `None` if this machine does not know it and no time needs it."""
    name: object = draft.timezone
    zone = validation.find_zone(name) if name and isinstance(name, str) else None
    moments: list[object] = [getattr(draft, field) for field in fields.ROUTE_TIMES]
    if zone is None and any(isinstance(moment, datetime) and moment.tzinfo is not None for moment in moments):
        return validation.timezone(_present(name, "timezone"))
    return zone


def _time(draft: RouteDraft | Route, field: str, spellings: tuple[str, ...], zone: ZoneInfo | None) -> str:
    moment: object = getattr(draft, field)
    if moment is None:
        return _original_text(draft, field, spellings)
    # The zone does not apply to the arrival (service document, Route).
    if zone is None or field == "arrival":
        return _written(validation.naive_datetime(moment, field))
    return _written(validation.zoned_datetime(moment, zone, field))


def _original_text(draft: RouteDraft | Route, field: str, spellings: tuple[str, ...]) -> str:
    """Return the received text of an unreadable date, so that an update does not erase it."""
    extra = draft.extra if isinstance(draft, Route) else {}
    original = next((value for key in spellings if isinstance(value := extra.get(key), str)), None)
    return validation.text(_present(original, field), field, allow_empty=True)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return _written(value)
    if isinstance(value, Word):
        return value.value
    return int(value) if isinstance(value, bool) else value


def _written(moment: datetime) -> str:
    # `strftime` would write the year 999 with three digits.
    return moment.replace(tzinfo=None, microsecond=0).isoformat(" ")
