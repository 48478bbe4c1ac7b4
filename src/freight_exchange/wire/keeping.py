"""Rate requests as bytes to keep, and back: equal to what was decoded, across versions of this package."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Final

from freight_exchange.models import RateRequest
from freight_exchange.wire import names, records
from freight_exchange.wire.json import parse

__all__ = ["keep", "recall"]

_KEYS: Final = {field.name: field.keys[0] for field in records.SHIPMENT} | {"status": names.STATUS[0]}
_CONSTANTS: Final = {None: "null", True: "true", False: "false"}


def keep(request: RateRequest) -> bytes:
    """The request as the wire would spell it, with its unknown fields and the dates that could not be read.

    Whatever was read can be kept: unlike what is sent, it may hold numbers that no price has.
    """
    known = {key: value for name, key in _KEYS.items() if (value := getattr(request, name)) is not None}
    return _text({**known, **request.extra}).encode()


def recall(content: bytes) -> RateRequest:
    """The request that was kept."""
    request: RateRequest = records.REQUEST.read(parse(content))
    return request


def _text(value: object) -> str:
    if isinstance(value, str):
        return encode_basestring(str.__str__(value))
    if value is None or value is True or value is False:
        return _CONSTANTS[value]
    if isinstance(value, Mapping):
        return f"{{{','.join([f'{encode_basestring(key)}:{_text(item)}' for key, item in value.items()])}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join([_text(item) for item in value])}]"
    if isinstance(value, datetime):
        return f'"{value.isoformat(" ")}"'
    if isinstance(value, (int, Decimal)):
        return str(value)
    raise TypeError(f"no field of a request holds a {type(value).__name__}")
