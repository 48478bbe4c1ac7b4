"""Wire JSON to records, on one cattrs converter.

A hook for each type reads its scalars, and one table has the wire names that differ from those of attributes. One rule
holds for bad values: an unreadable value goes to `extra`, is reported, and its field becomes `None`. Only a record
without a readable identifier is unreadable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache, lru_cache, partial
from operator import itemgetter
from types import NoneType
from typing import Any, Final, TypeVar, get_args

import attrs
from cattrs import Converter

from freight_exchange.base import NOTHING, FrozenMapping, frozen
from freight_exchange.models import Bid, Listing, Offer, OfferStatus, Route, User
from freight_exchange.validation import BOUNDED, MAX_EXPONENT, NUMERAL, find_zone
from freight_exchange.words import UnknownWord, Word

T = TypeVar("T")

CONVERTER: Final = Converter()
MAX_INTEGER: Final = 2**63
_MAX_NUMBER: Final = 10 ** (MAX_EXPONENT + 1)
_EMPTY: Final[tuple[object, ...]] = (None, {}, [], "", False)
"""Values that a backend may send instead of leaving out an object."""
_FLAGS: Final = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
    "": None,
}


class RecordError(ValueError):
    """A record without a readable identifier, which would be at `key`. The message contains no value."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


# Scalars: a hook receives a value that is not null, and raises `ValueError` for one that it cannot read


def number(value: object, _: object = None) -> Decimal | None:
    """Read an exact number, from a number or numeric text; empty text means no value."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and -_MAX_NUMBER < value < _MAX_NUMBER:
        return Decimal(value)
    text = value.strip() if isinstance(value, str) else None
    if text == "":
        return None
    # `Decimal` alone would accept underscores, digits of other scripts, and infinity.
    if text is None or not NUMERAL.fullmatch(text):
        raise ValueError("no number")
    try:
        return BOUNDED.create_decimal(text)
    except ArithmeticError:
        raise ValueError("a number out of range") from None


def integer(value: object, _: object = None) -> int | None:
    """Read a whole number, in any spelling that `number` accepts."""
    # Read as a `Decimal` first, since `int("1e30")` fails and `int(1.5)` loses the half.
    exact = number(value)
    if exact is None:
        return None
    if exact != exact.to_integral_value() or not -MAX_INTEGER < exact < MAX_INTEGER:
        raise ValueError("no whole number")
    return int(exact)


def _text(value: object, _: object = None) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return str(value)
    raise ValueError("no text")


def _flag(value: object, _: object = None) -> bool | None:
    if isinstance(value, (int, Decimal)) and value in (0, 1):
        return value == 1
    word = _text(value).strip().casefold()
    if word not in _FLAGS:
        raise ValueError("no boolean")
    return _FLAGS[word]


def _date_time(value: object, _: object = None) -> datetime:
    # Digits alone are seconds or milliseconds since 1970, but would be read as a date: 1712011530000 as a day of 1712.
    if not isinstance(value, str) or value.strip().isdecimal():
        raise ValueError("no date-time")
    read = datetime.fromisoformat(value.strip())
    if read.tzinfo is not None:
        # Times of the service have no zone. Without its zone this would be another moment.
        raise ValueError("a date-time with a zone")
    return read


class _Words(dict[object, Word | UnknownWord | None]):
    """Enum members by the likely spellings of their words; other spellings are computed."""

    def __init__(self, members: type[Word]) -> None:
        for member in members:
            word = member.value
            self.update(dict.fromkeys((word, word.lower(), word.upper(), word.capitalize()), member))
        self._folded: Final = {member.value.casefold(): member for member in members}

    def __missing__(self, value: object) -> Word | UnknownWord | None:
        # Not stored, since a server may send any number of words.
        word = _text(value)
        return self._folded.get(word.strip().casefold()) or UnknownWord(word) if word else None


@cache
def _words(kind: Any) -> _Words:
    return _Words(next(part for part in get_args(kind) if issubclass(part, Word)))


def _is_word(kind: Any) -> bool:
    return UnknownWord in get_args(kind)


@CONVERTER.register_structure_hook_factory(_is_word)
def _word_hook(kind: Any) -> Callable[[object, object], Word | UnknownWord | None]:
    words = _words(kind)
    return lambda value, _: words[_text(value)]


def _rates(value: object, _: object = None) -> Mapping[str, Decimal]:
    if value in _EMPTY:
        return NOTHING
    if not isinstance(value, dict):
        raise ValueError("no map of fees")  # noqa: TRY004  # a record's error, no caller's
    return FrozenMapping({name: amount for name, fee in value.items() if (amount := _fee(fee)) is not None})


def _fee(value: object) -> Decimal | None:
    try:
        return None if value is None else number(value)
    except ValueError:
        return None


def _offers(value: Mapping[str, object], _: object) -> tuple[Offer, ...]:
    return tuple(_inside(place, CONVERTER.structure, entry, Offer) for place, entry in value.items())


for _kind, _hook in {Decimal: number, int: integer, str: _text, bool: _flag, datetime: _date_time}.items():
    CONVERTER.register_structure_hook(_kind, _hook)
CONVERTER.register_structure_hook_func(lambda kind: kind == Mapping[str, Decimal], _rates)
CONVERTER.register_structure_hook_func(lambda kind: kind == tuple[Offer, ...], _offers)


# Records

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "ref_id": ("refId",), "commodity": ("commodityname", "cargoname"), "type": ("requesttype",),
    "need_date": ("needdate",), "quantity": ("qty", "quantity"), "packaging": ("packaging", "packingtype"),
    "length": ("length", "cargolength"), "width": ("width", "cargowidth"), "height": ("height", "cargoheight"),
    "measure_unit": ("measureUnit",), "mass_unit": ("massUnit",), "currency": ("currencyIndex", "currencyId"),
    "id": ("offerId", "offerIndex", "index"), "offers": ("offer",), "contact": ("loadingPOC",),
    "cy_cutoff": ("cycutoff",), "cfs_cutoff": ("cfscutoff",), "departure": ("estDeparture", "departure"),
    "arrival": ("estArrival", "arrival"), "carrier": ("carrier", "carrierId"), "vessel": ("vesselName", "vessel"),
    "voyage_id": ("voyageId",), "first_name": ("firstname",), "middle_name": ("middlename",),
    "last_name": ("lastname",), "last_login": ("lastlogin",), "image_url": ("imageUrl",),
    "oti_license": ("otilicense",),
}  # fmt: skip
"""Wire names of the attributes that have another name there, the most usual first (service document, 2)."""
_REQUEST: Final = "index of the request"
"""Key that no reply has: the record that an offer is on sets it."""
_OWN: Final[Mapping[tuple[type, str], tuple[str, ...]]] = {
    (Bid, "amount"): ("price",),
    (Offer, "amount"): ("offerAmount",),
    (Offer, "request"): (_REQUEST,),
    (Bid, "company"): ("loadingCompany",),
    (Listing, "company"): ("loadingCompany",),
}
"""Wire names that differ between records."""
LIFETIMES: Final = ("expires_on", "expires_in")

_Values = dict[str, tuple[str, Any]]
"""Raw values by attribute, each with its place; a value from elsewhere, which its own record reports, has none."""


@cache
def _names(model: type) -> dict[str, tuple[str, ...]]:
    return {
        field.name: _OWN.get((model, field.name)) or ALIASES.get(field.name, (field.name,))
        for field in attrs.fields(model)
        if field.name != "extra"
    }


@cache
def known(model: type) -> frozenset[str]:
    return frozenset(key for keys in _names(model).values() for key in keys).union(LIFETIMES if model is User else ())


_flaws: Final = threading.local()
"""The `places` of the unreadable values of the record that a thread decodes."""


def _inside(place: str, read: Callable[[Any, Any], T], value: object, kind: object) -> T:
    """Read a nested record, whose flaws are below `place`."""
    known_before = len(_flaws.places)
    result = read(value, kind)
    for at in range(known_before, len(_flaws.places)):
        _flaws.places[at] = f"{place}.{_flaws.places[at]}"
    return result


@CONVERTER.register_structure_hook_factory(attrs.has)
def _record_hook(model: Any) -> Callable[[object, object], Any]:
    fields = []
    for field in attrs.fields(attrs.resolve_types(model)):
        parts = [part for part in get_args(field.type) if part is not NoneType]
        kind = field.type if _is_word(field.type) or NoneType not in get_args(field.type) else parts[0]
        if field.name != "extra":
            empty = _EMPTY if attrs.has(kind) else ()
            fields.append((field.name, kind, CONVERTER.get_structure_hook(kind), field.default is attrs.NOTHING, empty))
    names, known_keys, prepare = _names(model), known(model), _PREPARE.get(model)

    def hook(raw: object, _: object = None) -> Any:
        if not isinstance(raw, dict):
            raise RecordError("no object")
        extra = {key: raw[key] for key in sorted(raw.keys() - known_keys)}
        values: _Values = {
            name: (key, raw[key]) for name, keys in names.items() for key in keys[::-1] if raw.get(key) is not None
        }
        if prepare is not None:
            prepare(values, extra)
        found: dict[str, Any] = {}
        for name, kind, read, is_required, empty in fields:
            place, value = values.get(name, ("", None))
            if value is not None and value not in empty:
                try:
                    is_nested = isinstance(value, dict)
                    found[name] = _inside(place, read, value, kind) if is_nested else read(value, kind)
                except ValueError:
                    if place and not is_required:
                        extra[place] = value
                        if kind is not datetime:
                            # Some services send an unreadable date in every row, which would block strict readings.
                            _flaws.places.append(place)
            if is_required and found.get(name) is None:
                raise RecordError("no readable identifier", names[name][0])
        return model(**found, extra=extra)

    return hook if model is not Route else lambda raw, _: _zoned(hook(raw))


def _zoned(route: Route) -> Route:
    zone = find_zone(route.timezone) if route.timezone else None
    times: Any = {name: getattr(route, name) for name in ("cy_cutoff", "cfs_cutoff", "departure")}
    return attrs.evolve(route, **{name: time and time.replace(tzinfo=zone) for name, time in times.items()})


def _prepare_rates(values: _Values, extra: dict[str, object]) -> None:
    _, rates = values.get("rates", ("", None))
    if isinstance(rates, dict) and (without := {name: fee for name, fee in rates.items() if _fee(fee) is None}):
        # A fee without an amount cannot be added up, but its name is information.
        extra["rates"] = without
        _flaws.places += [f"rates.{name}" for name, fee in without.items() if fee is not None and str(fee).strip()]


def _prepare_offers(values: _Values, extra: dict[str, object], field: str) -> None:
    """Find the offers in `offer`, and the contacts on the record, beside the offers, or in its own offer.

    A record's own offer is the only one, or the selected one.
    """
    _, held = values.pop(field, ("", None))
    found = {str(at): entry for at, entry in enumerate(held if isinstance(held, list) else [held])}
    if isinstance(held, dict) and held.keys().isdisjoint(("offerAmount", *ALIASES["id"])):
        found = {key: held[key] for key in sorted(held, key=position_of) if not key.startswith("loading")}
    _, index = values.get("index", ("", None))
    entries = {at: {**entry, _REQUEST: index} for at, entry in found.items() if isinstance(entry, dict) and entry}
    if strays := {at: one for at, one in found.items() if not isinstance(one, dict) and one not in _EMPTY}:
        extra["offer"] = strays if isinstance(held, dict) else held
        # Other keys than numbers are not entries.
        unread = [f"offer.{at}" for at in strays if position_of(at) >= 0]
        _flaws.places += unread if isinstance(held, dict | list) else ["offer"]
    word = OfferStatus.SELECTED.value
    selected = [at for at, entry in entries.items() if str(entry.get("status", "")).strip().casefold() == word]
    own = [*entries] if len(entries) == 1 else selected[:1]
    places = [held if isinstance(held, dict) else {}, *(entries[at] for at in own)]
    for part, key in (("contact", "loadingPOC"), ("company", "loadingCompany")):
        _, here = values.pop(part, ("", None))
        inside = next((place[key] for place in places if place.get(key) not in _EMPTY), None)
        if here not in _EMPTY and not isinstance(here, dict) and isinstance(inside, dict):
            extra[key], here = here, None
            _flaws.places.append(key)
        if (here := inside if here in _EMPTY else here) is not None:
            values[part] = key, here
        for entry in places[1:]:
            if entry.get(key) == here:
                # The copy in another place adds nothing.
                entry.pop(key, None)
    if field == "offers":
        values[field] = "offer", entries
    elif own:
        values[field] = f"offer.{own[0]}", (entry := places[1])
        # A submitted bid has its price in the offer; a listed one has it in the record.
        for name, keys in (("amount", ("offerAmount",)), ("currency", ALIASES["currency"])):
            values.setdefault(name, ("", next((entry[key] for key in keys if entry.get(key) is not None), None)))
    elif entries:
        # The record does not tell which offer it is about: all are kept in `extra`.
        extra["offer"] = [found[at] for at in entries]


_PREPARE: Final[Mapping[type, Callable[[_Values, dict[str, object]], None]]] = {
    Offer: _prepare_rates,
    Listing: partial(_prepare_offers, field="offers"),
    Bid: partial(_prepare_offers, field="offer"),
}


def structure(raw: object, model: type[T]) -> tuple[T, list[str]]:
    """Return the record of wire JSON and the places of its unreadable values, or raise `RecordError`."""
    _flaws.places = []
    return CONVERTER.structure(raw, model), _flaws.places


def position_of(key: str) -> int:
    """Return the position in a collection that a key names, or -1 if it names none."""
    # A longer number is not a position, and Python refuses to convert very long ones.
    return int(key) if len(key) <= 18 and key.isascii() and key.isdecimal() else -1


# Strict path: pages of flat records as the document shows them, by functions made for the keys of their rows

_Strict = Callable[[Iterator[Any], list[Any]], None]
"""Function that appends the records of rows until one does not suit it."""


def structure_rows(rows: Sequence[Any], model: type[T]) -> tuple[list[T], dict[int, RecordError | list[str]]]:
    """Return the records of rows, and by position the error of a row or the places of its unreadable values."""
    found: list[T] = []
    problems: dict[int, RecordError | list[str]] = {}
    kind: Any = model
    strict = _compiled(kind, frozenset(rows[0])) if rows and isinstance(rows[0], dict) else None
    remaining, lost = iter(rows), 0
    while len(found) + lost < len(rows):
        if strict is not None:
            try:
                strict(remaining, found)
                break
            except (TypeError, ValueError, KeyError, ArithmeticError):
                pass
        at = len(found) + lost
        try:
            record, places = structure(rows[at], model)
        except RecordError as error:
            problems[at], lost = error, lost + 1
        else:
            found.append(record)
            if places:
                problems[at] = places
    return found, problems


_CHECKS: Final[dict[Any, str]] = {
    str: "if type({v}) is not str: raise TypeError",
    int: f"if type({{v}}) is not int or not -{MAX_INTEGER} < {{v}} < {MAX_INTEGER}: raise ValueError",
    Decimal: "if type({v}) is not Decimal: {v} = exact({v})",
    # `YYYY-MM-DD HH:mm:ss` has no zone.
    datetime: "if len({v}) != 19 or {v}[13] + {v}[16] != '::': raise ValueError",
}
_READ: Final[dict[Any, str]] = {datetime: "date({v})", bool: "flags[{v}]"}


def _exact(value: object) -> Decimal:
    if type(value) is not int or not -_MAX_NUMBER < value < _MAX_NUMBER:
        raise TypeError
    return Decimal(value)


@lru_cache(maxsize=32)
def _compiled(model: type, keys: frozenset[str]) -> _Strict | None:
    """Make a function that reads flat rows with exactly these keys and the documented types, and refuses all others.

    It sets the values on a twin of the class that is not frozen, which halves the time of a record.
    """
    fields = [field for field in attrs.fields(attrs.resolve_types(model)) if field.name != "extra"]
    names = {field.name: [key for key in _names(model)[field.name] if key in keys] for field in fields}
    present = [field for field in fields if names[field.name]]
    unknown = sorted(keys - known(model))
    wanted = [names[field.name][0] for field in present] + unknown
    is_whole = all(names[field.name] for field in fields if field.default is attrs.NOTHING)
    if model in _PREPARE or model is Route or not is_whole or len(wanted) != len(keys) or len(wanted) < 2:
        return None
    # Without both methods Python looks them up for each field.
    plain = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    slots: Any = model.__dict__["__slots__"]
    scope: dict[str, Any] = {
        "get": itemgetter(*wanted), "new": object.__new__, "model": model, "Decimal": Decimal, "exact": _exact,
        "date": datetime.fromisoformat, "flags": {0: False, 1: True}, "frozen": frozen, "nothing": NOTHING,
        "unknown": unknown, "twin": type("Twin", model.__bases__, {"__slots__": slots, **plain}),
    }  # fmt: skip
    variables = [f"v{at}" for at in range(len(wanted))]
    lines = [f"if len(row) != {len(wanted)}: raise KeyError", f"{', '.join(variables)}, = get(row)"]
    sets = [f"it.{field.name} = None" for field in fields if not names[field.name]]
    for field, variable in zip(present, variables, strict=False):
        kind = (*get_args(field.type), field.type)[0]
        value = _READ.get(kind, "{v}")
        if _is_word(field.type):
            scope[f"words_{variable}"], value = _words(field.type), "words_{v}[{v}]"
        elif kind in _CHECKS:
            lines.append(_CHECKS[kind].format(v=variable))
        sets.append(f"it.{field.name} = {value.format(v=variable)}")
    rest = "".join(f"{variable}, " for variable in variables[len(present) :])
    sets.append(f"it.extra = frozen(dict(zip(unknown, ({rest}))))" if unknown else "it.extra = nothing")
    body = "\n        ".join([*lines, "it = new(twin)", *sets, "it.__class__ = model", "add(it)"])
    # Its names are those of this package's own classes.
    exec(f"def read(rows, found):\n    add = found.append\n    for row in rows:\n        {body}", scope)
    read: _Strict = scope["read"]
    return read
