"""Decoder of replies: any body becomes a value or raises a `DecodeError`."""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from freight_exchange.errors import DecodeError
from freight_exchange.models import Bid, Carrier, Currency, Listing, RateRequest, Route
from freight_exchange.wire import fields, shapes
from freight_exchange.wire.converter import Field, Flaws, Raw, RecordShape
from freight_exchange.wire.excerpt import excerpt
from freight_exchange.wire.failure import reports_failure
from freight_exchange.wire.repeated_keys import repeats
from freight_exchange.wire.scalars import LARGEST_INTEGER, Unreadable, integer, place
from freight_exchange.wire.scalars import kind as kind_of

__all__ = [
    "BIDS",
    "CARRIERS",
    "CURRENCIES",
    "MOST_DESCRIBED",
    "OFFERS",
    "REQUESTS",
    "ROUTES",
    "Kind",
    "Rows",
    "bid",
    "declined_offer",
    "index_of_raw",
    "one",
    "rows",
    "written_route",
]

T = TypeVar("T")


class Kind(NamedTuple, Generic[T]):
    """A kind of record and the collection that replies carry it in."""

    collection: str
    model: type[T]
    shape: RecordShape[Any]


class Rows(NamedTuple, Generic[T]):
    """The records of a reply, and an error for each that could not be read.

    An error's `path` is where in the reply (`raterequests.3.weight`), its `raw` the record as it came. That holds for
    the first `MOST_DESCRIBED`; a later one quotes the record's index alone, if that can be read.

    Attributes:
        records: The records that could be read.
        broken: An error for each record that could not.
        flaws: An error for each part that was left out of a record, which is among `records` all the same.
        failure: The error that the reply speaks of beside its records: there may be more than it has.
    """

    records: tuple[T, ...]
    broken: tuple[DecodeError, ...] = ()
    flaws: tuple[DecodeError, ...] = ()
    failure: DecodeError | None = None


class UndescribedError(DecodeError):
    """Broken record beyond the first `MOST_DESCRIBED` of a reply, known by its index alone.

    A reply may hold a hundred thousand: of each as little is made and kept as can be.
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
        """The record's index alone, if that can be read."""
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


MOST_DESCRIBED: Final = 100
"""Broken records of a reply whose errors quote them; later ones only count."""


def rows(data: object, kind: Kind[T]) -> Rows[T]:
    """The records of a listing, in the order of their numbers; broken ones do not lose the others.

    Raises:
        DecodeError: The reply is no such listing. One with other keys and without the collection is not an
            empty listing: taken for one, it would make a watcher deaf.
    """
    found = _rows(data, kind)
    if flaws := repeats(data, kind.collection):
        # Of a collection that comes twice, the records of the first are lost.
        lost = flaws.pop(kind.collection, None)
        found = found._replace(failure=found.failure or lost, flaws=(*flaws.values(), *found.flaws))
    return found


def _rows(data: object, kind: Kind[T]) -> Rows[T]:
    keys, raws = _collection(data, kind.collection)
    if reports_failure(data, kind.collection):
        what = "records of" if raws else "an empty"
        failure = DecodeError(f"an error beside {what} {kind.collection!r}", raw=excerpt(data))
        if not raws:
            raise failure
        return _one_by_one(keys, raws, kind)._replace(failure=failure)
    if not raws:
        return Rows(())
    structure = kind.shape.structure
    try:
        return Rows(tuple([structure(raw) for raw in raws]))
    except Unreadable:
        return _one_by_one(keys, raws, kind)


def one(data: object, kind: Kind[T]) -> T:
    """The one record that the reply to a write, or to a look-up by index, carries, without what is flawed in it.

    Raises:
        DecodeError: There is none, more than one, it cannot be read, or the reply speaks of an error as well.
    """
    if reports_failure(_less_refusal(data, kind.collection)):
        raise DecodeError(f"an error where {kind.collection!r} is due", raw=excerpt(data))
    found = rows(data, kind)
    if found.broken:
        raise found.broken[0]
    if len(found.records) != 1:
        raise DecodeError(f"{len(found.records)} records where one is due", path=kind.collection)
    return found.records[0]


def _less_refusal(data: object, collection: str) -> object:
    """The reply without the key of a refused token, where the result is there: the result wins."""
    if isinstance(data, dict) and data.get(collection):
        return {key: value for key, value in data.items() if key != fields.UNAUTHORIZED}
    return data


def bid(data: object) -> Bid:
    """The bid that the reply to a submitted offer carries (service document, 4.10).

    Raises:
        DecodeError: There is none, or it cannot be read.
    """
    return one(data, _SUBMITTED)


def written_route(data: object) -> Route | None:
    """The route that the reply to a route's write shows, or `None` where it shows none.

    What it looks like is not documented (service document, 4.5): nothing, the route, and an object that speaks of
    something else are all success.

    Raises:
        DecodeError: The reply is no object, or one that speaks of an error.
    """
    return _optional(data, ROUTES, (fields.ROUTES, fields.ROUTE))


def declined_offer(data: object) -> Listing | None:
    """The listing that the reply to a decline shows, or `None` where it shows none.

    The outcome of a decline is not documented (service document, 3): nothing, the listing, and an object that speaks of
    something else are all success.

    Raises:
        DecodeError: The reply is no object, or one that speaks of an error.
    """
    return _optional(data, OFFERS, (fields.OFFERS,))


def _optional(data: object, kind: Kind[T], keys: tuple[str, ...]) -> T | None:
    if data in (None, {}, [], ""):
        return None
    if not isinstance(data, dict):
        raise DecodeError(f"{kind_of(data)} where a record or nothing is due", raw=excerpt(data))
    if reports_failure(data):
        raise DecodeError("an error where a record or nothing is due", raw=excerpt(data))
    held = next((data[key] for key in keys if data.get(key)), data)
    try:
        return one({kind.collection: held}, kind)
    except DecodeError:
        return None


def index_of_raw(raw: object) -> int | None:
    """The index of a record that could not be read, or `None` if that cannot be read either."""
    if not isinstance(raw, dict):
        return None
    try:
        index = raw.get(fields.INDEX[0])
        return index if type(index) is int and 0 <= index < LARGEST_INTEGER else integer(index)
    except (TypeError, ValueError):
        return None


def _one_by_one(keys: list[str], raws: list[object], kind: Kind[T]) -> Rows[T]:
    good: list[T] = []
    broken: list[DecodeError] = []
    flaws: list[DecodeError] = []
    suspects: list[Field] = []
    for key, raw in zip(keys, raws, strict=True):
        # The records of a page break in the same few fields, as a rule: of later ones a look at those is enough.
        enough = len(broken) >= MOST_DESCRIBED
        if enough and (not isinstance(raw, dict) or any(field.breaks(raw) for field in suspects)):
            broken.append(UndescribedError(index_of_raw(raw)))
            continue
        path = f"{kind.collection}.{key}" if key else kind.collection
        found: Flaws = []
        try:
            good.append(cast("T", kind.shape.structure(raw, flaws=found)))
        except Unreadable as fault:
            if fault.field is not None and (suspect := kind.shape.field(fault.field)) not in suspects:
                suspects.append(suspect)
            broken.append(_described(fault, path, raw, len(broken)))
        else:
            flaws.extend(_described(flaw, path, raw, place) for place, flaw in enumerate(found, len(flaws)))
    return Rows(tuple(good), tuple(broken), tuple(flaws))


def _collection(data: object, name: str) -> tuple[list[str], list[Any]]:
    if data is None or data in ({}, []):
        return [], []
    if not isinstance(data, dict) or name not in data:
        found = f"an object without {name!r}" if isinstance(data, dict) else kind_of(data)
        raise DecodeError(f"{found} where {name!r} is due", raw=excerpt(data))
    held = data[name]
    if held is None:
        return [], []
    if isinstance(held, list):
        return [str(place) for place in range(len(held))], held
    if not isinstance(held, dict):
        raise DecodeError(f"{kind_of(held)} where a collection is due", path=name, raw=excerpt(held))
    keys = list(held)
    if _is_record(held):
        return [""], [held]
    if keys != [str(place) for place in range(len(keys))]:
        if keys and max(map(place, keys)) < 0:
            raise DecodeError("an object that is no collection", path=name, raw=excerpt(held))
        keys.sort(key=place)
    return keys, [held[key] for key in keys]


def _is_record(held: Raw) -> bool:
    """Whether the one record stands where a collection of it is due."""
    said = any(key in held and not isinstance(held[key], (dict, list, type(None))) for key in fields.INDEX)
    return said and all(place(key) < 0 for key in held)


def _described(fault: Unreadable, path: str, raw: object, place: int) -> DecodeError:
    if place >= MOST_DESCRIBED:
        return UndescribedError(index_of_raw(raw))
    fault = fault.under(path)
    return DecodeError(fault.reason, path=fault.path, raw=excerpt(raw))
