"""Decoder of replies: any body becomes a value or raises a `DecodeError`."""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from freight_exchange.errors import DecodeError
from freight_exchange.models import Bid, Carrier, Currency, Listing, RateRequest, Route
from freight_exchange.wire import fields, shapes
from freight_exchange.wire.converter import Field, Flaws, Raw, RecordShape
from freight_exchange.wire.excerpt import excerpt
from freight_exchange.wire.failure import reports_failure
from freight_exchange.wire.repeated_keys import find_repeats
from freight_exchange.wire.scalars import MAX_INTEGER, UnreadableRecordError, integer, position_of
from freight_exchange.wire.scalars import kind as kind_of

__all__ = [
    "BIDS",
    "CARRIERS",
    "CURRENCIES",
    "MAX_DESCRIBED",
    "OFFERS",
    "REQUESTS",
    "ROUTES",
    "Kind",
    "Rows",
    "decode_bid",
    "decode_declined_offer",
    "decode_one",
    "decode_rows",
    "decode_written_route",
    "index_of_raw",
]

T = TypeVar("T")


class Kind(NamedTuple, Generic[T]):
    """Kind of record, with the name of its collection in replies."""

    collection: str
    model: type[T]
    shape: RecordShape[Any]


class Rows(NamedTuple, Generic[T]):
    """The records of a reply, and an error for each that could not be read.

    The `path` of an error is the place in the reply (`raterequests.3.weight`), and `raw` is the record as received.
    Errors after the first `MAX_DESCRIBED` have only the index of the record, if it can be read.

    Attributes:
        records: The records that could be read.
        broken: An error for each record that could not be read.
        flaws: An error for each unreadable part of a record; the record without this part is in `records`.
        failure: Error that the reply reports in addition to its records. Some of these may be missing.
    """

    records: tuple[T, ...]
    broken: tuple[DecodeError, ...] = ()
    flaws: tuple[DecodeError, ...] = ()
    failure: DecodeError | None = None


class UndescribedError(DecodeError):
    """Broken record after the first `MAX_DESCRIBED` of a reply, with its index only.

    A reply may have a hundred thousand of them, so each must take little time and memory.
    """

    path = "$"
    method = request_path = status = elapsed = body = None
    attempts = 0

    def __init__(self, index: int | None, message: str = "one more record that cannot be read") -> None:
        Exception.__init__(self, message, index)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[1],), self.__dict__

    @property
    def raw(self) -> object:
        """The record's index, if it can be read."""
        index = self.args[1]
        return self.__dict__.get("raw", None if index is None else {"index": index})

    @raw.setter
    def raw(self, value: object) -> None:
        self.__dict__["raw"] = value


REQUESTS: Final = Kind(fields.REQUESTS, RateRequest, shapes.REQUEST)
OFFERS: Final = Kind(fields.OFFERS, Listing, shapes.LISTING)
BIDS: Final = Kind(fields.BIDS, Bid, shapes.BID)
ROUTES: Final = Kind(fields.ROUTES, Route, shapes.ROUTE)
_SUBMITTED: Final = Kind(fields.BID, Bid, shapes.BID)
CARRIERS: Final = Kind(fields.CARRIERS, Carrier, shapes.CARRIER)
CURRENCIES: Final = Kind(fields.CURRENCIES, Currency, shapes.CURRENCY)


MAX_DESCRIBED: Final = 100
"""Maximum number of broken records of a reply to quote in full; further errors have only an index."""


def decode_rows(data: object, kind: Kind[T]) -> Rows[T]:
    """Return the records of a listing, in the order of their numbers, and errors for broken ones.

    Raises:
        DecodeError: The reply is not such a listing. An object without the collection is not an empty listing, since
            this would hide all requests from a watcher.
    """
    found = _rows(data, kind)
    if flaws := find_repeats(data, kind.collection):
        # If the key of the collection repeats, the parser has dropped the records of its first value.
        lost = flaws.pop(kind.collection, None)
        found = found._replace(failure=found.failure or lost, flaws=(*flaws.values(), *found.flaws))
    return found


def _rows(data: object, kind: Kind[T]) -> Rows[T]:
    keys, raws = _collection(data, kind.collection)
    if reports_failure(data, kind.collection):
        prefix = "records of" if raws else "an empty"
        failure = DecodeError(f"an error beside {prefix} {kind.collection!r}", raw=excerpt(data))
        if not raws:
            raise failure
        return _one_by_one(keys, raws, kind)._replace(failure=failure)
    if not raws:
        return Rows(())
    structure = kind.shape.structure
    try:
        return Rows(tuple([structure(raw) for raw in raws]))
    except UnreadableRecordError:
        return _one_by_one(keys, raws, kind)


def decode_one(data: object, kind: Kind[T]) -> T:
    """Return the only record in the reply to a write or a look-up, without its unreadable parts.

    Raises:
        DecodeError: There is no record, or more than one; the record cannot be read; or the reply reports an error too.
    """
    if reports_failure(_without_refusal_key(data, kind.collection)):
        raise DecodeError(f"an error where {kind.collection!r} is expected", raw=excerpt(data))
    found = decode_rows(data, kind)
    if found.broken:
        raise found.broken[0]
    if len(found.records) != 1:
        raise DecodeError(f"{len(found.records)} records where one is expected", path=kind.collection)
    return found.records[0]


def _without_refusal_key(data: object, collection: str) -> object:
    """Remove the key of a refused token from a reply with a result, as the result counts."""
    if isinstance(data, dict) and data.get(collection):
        return {key: value for key, value in data.items() if key != fields.UNAUTHORIZED}
    return data


def decode_bid(data: object) -> Bid:
    """Return the bid in the reply to a submitted offer (service document, 4.10).

    Raises:
        DecodeError: There is no bid, or it cannot be read.
    """
    return decode_one(data, _SUBMITTED)


def decode_written_route(data: object) -> Route | None:
    """Return the route in the reply to a route's write, or `None` if there is none.

    The reply is not documented (service document, 4.5): an empty reply, the route, and any other object are a success.

    Raises:
        DecodeError: The reply is not an object, or reports an error.
    """
    return _optional(data, ROUTES, (fields.ROUTES, fields.ROUTE))


def decode_declined_offer(data: object) -> Listing | None:
    """Return the listing in the reply to a decline, or `None` if there is none.

    The reply is not documented (service document, 3): an empty reply, the listing, and any other object are a success.

    Raises:
        DecodeError: The reply is not an object, or reports an error.
    """
    return _optional(data, OFFERS, (fields.OFFERS,))


def _optional(data: object, kind: Kind[T], keys: tuple[str, ...]) -> T | None:
    if data in (None, {}, [], ""):
        return None
    if not isinstance(data, dict):
        raise DecodeError(f"{kind_of(data)} where a record or nothing is expected", raw=excerpt(data))
    if reports_failure(data):
        raise DecodeError("an error where a record or nothing is expected", raw=excerpt(data))
    held = next((data[key] for key in keys if data.get(key)), data)
    try:
        return decode_one({kind.collection: held}, kind)
    except DecodeError:
        return None


def index_of_raw(raw: object) -> int | None:
    """Return the index of an unreadable record, or `None` if the index is unreadable too."""
    if not isinstance(raw, dict):
        return None
    try:
        index = raw.get(fields.INDEX[0])
        return index if type(index) is int and 0 <= index < MAX_INTEGER else integer(index)
    except (TypeError, ValueError):
        return None


def _one_by_one(keys: list[str], raws: list[object], kind: Kind[T]) -> Rows[T]:
    good: list[T] = []
    broken: list[DecodeError] = []
    flaws: list[DecodeError] = []
    suspects: list[Field] = []
    for key, raw in zip(keys, raws, strict=True):
        # Records of a page usually break in the same few fields, so for later records only these are checked.
        enough = len(broken) >= MAX_DESCRIBED
        if enough and (not isinstance(raw, dict) or any(field.breaks(raw) for field in suspects)):
            broken.append(UndescribedError(index_of_raw(raw)))
            continue
        path = f"{kind.collection}.{key}" if key else kind.collection
        found: Flaws = []
        try:
            good.append(cast("T", kind.shape.structure(raw, flaws=found)))
        except UnreadableRecordError as fault:
            if fault.field is not None and (suspect := kind.shape.field(fault.field)) not in suspects:
                suspects.append(suspect)
            broken.append(_described(fault, path, raw, len(broken)))
        else:
            flaws.extend(_described(flaw, path, raw, position) for position, flaw in enumerate(found, len(flaws)))
    return Rows(tuple(good), tuple(broken), tuple(flaws))


def _collection(data: object, name: str) -> tuple[list[str], list[Any]]:
    if data is None or data in ({}, []):
        return [], []
    if not isinstance(data, dict) or name not in data:
        found = f"an object without {name!r}" if isinstance(data, dict) else kind_of(data)
        raise DecodeError(f"{found} where {name!r} is expected", raw=excerpt(data))
    held = data[name]
    if held is None:
        return [], []
    if isinstance(held, list):
        return [str(position) for position in range(len(held))], held
    if not isinstance(held, dict):
        raise DecodeError(f"{kind_of(held)} where a collection is expected", path=name, raw=excerpt(held))
    keys = list(held)
    if _is_record(held):
        return [""], [held]
    if keys != [str(position) for position in range(len(keys))]:
        if keys and max(map(position_of, keys)) < 0:
            raise DecodeError("an object that is not a collection", path=name, raw=excerpt(held))
        keys.sort(key=position_of)
    return keys, [held[key] for key in keys]


def _is_record(held: Raw) -> bool:
    """Return whether the collection is a single record."""
    has_index = any(key in held and not isinstance(held[key], (dict, list, type(None))) for key in fields.INDEX)
    return has_index and all(position_of(key) < 0 for key in held)


def _described(fault: UnreadableRecordError, path: str, raw: object, position: int) -> DecodeError:
    if position >= MAX_DESCRIBED:
        return UndescribedError(index_of_raw(raw))
    fault = fault.under(path)
    return DecodeError(fault.reason, path=fault.path, raw=excerpt(raw))
