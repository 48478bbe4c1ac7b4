"""Wire JSON to records, on one cattrs converter.

A hook for each type reads its scalars, and one table has the wire names that differ from those of attributes. One rule
holds for bad values: an unreadable value goes to `extra`, and its field becomes `None`. Only a record without a
readable identifier is unreadable. `unread` finds such values again, for reports.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from operator import itemgetter
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import AttributeValidationNote, ClassValidationError, Converter
from cattrs.gen import make_dict_structure_fn, override

from freight_exchange.base import NOTHING, FrozenMapping, frozen
from freight_exchange.models import Bid, Listing, Offer, OfferStatus, Route, User
from freight_exchange.validation import NUMERAL, find_zone
from freight_exchange.wire.json import EXACT, MAX_EXPONENT
from freight_exchange.words import UnknownWord, Word

__all__ = ["RecordError", "integer", "known", "number", "position_of", "structure", "structure_rows", "text", "unread"]

T = TypeVar("T")

CONVERTER: Final = Converter()
MAX_INTEGER: Final = 2**63
_MAX_NUMBER: Final = 10 ** (MAX_EXPONENT + 1)
_EMPTY: Final[tuple[object, ...]] = (None, {}, [], "", False)
"""Values that a backend may send instead of leaving out an object."""
_FLAGS: Final = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
}


class RecordError(Exception):
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
    if not isinstance(value, str):
        raise ValueError("no number")  # noqa: TRY004  # a record's error, no caller's
    stripped = value.strip()
    if not stripped:
        return None
    # `Decimal` alone would accept underscores, digits of other scripts, and infinity.
    if not NUMERAL.fullmatch(stripped):
        raise ValueError("no number")
    try:
        return EXACT.create_decimal(stripped)
    except ArithmeticError:
        raise ValueError("a number out of range") from None


def integer(value: object, _: object = None) -> int | None:
    """Read a whole number, in any spelling that `number` accepts."""
    if type(value) is int and -MAX_INTEGER < value < MAX_INTEGER:
        return value
    # Read as a `Decimal` first, since `int("1e30")` fails and `int(1.5)` loses the half.
    exact = number(value)
    if exact is None:
        return None
    if exact != exact.to_integral_value() or not -MAX_INTEGER < exact < MAX_INTEGER:
        raise ValueError("no whole number")
    return int(exact)


def text(value: object, _: object = None) -> str:
    """Read text, also from a number or a boolean."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return str(value)
    raise ValueError("no text")


def flag(value: object, _: object = None) -> bool | None:
    """Read a boolean, from 0 and 1, their text, or a word in any case; empty text means no value."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, Decimal)) and value in (0, 1):
        return value == 1
    word = text(value).strip().casefold()
    if word and word not in _FLAGS:
        raise ValueError("no boolean")
    return _FLAGS.get(word)


def date_time(value: object, _: object = None) -> datetime:
    """Read a date-time without a zone."""
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

    def __init__(self, members: Sequence[Word]) -> None:
        for member in members:
            word = member.value
            self.update(dict.fromkeys((word, word.lower(), word.upper(), word.capitalize()), member))
        self._folded: Final = {member.value.casefold(): member for member in members}

    def __missing__(self, value: object) -> Word | UnknownWord | None:
        # Not stored, since a server may send any number of words.
        word = text(value)
        return self._folded.get(word.strip().casefold()) or UnknownWord(word) if word else None


@cache
def _words(kind: Any) -> _Words:
    (members,) = (part for part in get_args(kind) if isinstance(part, type) and issubclass(part, Word))
    return _Words([*members])


def _rates(value: object, _: object = None) -> Mapping[str, Decimal]:
    if value in _EMPTY:
        return NOTHING
    if not isinstance(value, dict):
        raise ValueError("no map of fees")  # noqa: TRY004  # as above
    return FrozenMapping({name: amount for name, fee in value.items() if (amount := _fee(fee)) is not None})


def _fee(value: object) -> Decimal | None:
    try:
        return None if value is None else number(value)
    except ValueError:
        return None


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _offers(value: Any, _: object) -> tuple[Offer, ...]:
    return tuple(CONVERTER.structure(entry, Offer) for entry in value)


def _of_type(kind: Any) -> Callable[[object, object], Any]:
    """Return the hook for a field's type, `None` being handled before."""
    is_union = get_origin(kind) in (Union, UnionType)
    parts = [part for part in get_args(kind) if part is not NoneType] if is_union else [kind]
    if UnknownWord in parts:
        words = _words(kind)
        return lambda value, _: words[value if type(value) is str else text(value)]
    match get_origin(parts[0]):
        case None:
            return _SCALARS.get(parts[0]) or (lambda value, _: CONVERTER.structure(value, parts[0]))
        case builtins.tuple:
            return _offers
        case _:
            return _rates


_SCALARS: Final[dict[Any, Callable[[object, object], Any]]] = {
    Decimal: number,
    int: integer,
    str: text,
    bool: flag,
    datetime: date_time,
}


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
_OFFER_OF: Final = "index of the request"
_OWN: Final[Mapping[tuple[type, str], tuple[str, ...]]] = {
    (Bid, "amount"): ("price",),
    (Offer, "amount"): ("offerAmount",),
    # No reply has this key: the hook of a listing or a bid sets it.
    (Offer, "request"): (_OFFER_OF,),
    (Bid, "company"): ("loadingCompany",),
    (Listing, "company"): ("loadingCompany",),
}
"""Wire names that differ between records."""
LIFETIMES: Final = ("expires_on", "expires_in")


@cache
def _names(model: type) -> dict[str, tuple[str, ...]]:
    """Return the wire names of the attributes of a class."""
    return {
        field.name: _OWN.get((model, field.name)) or ALIASES.get(field.name, (field.name,))
        for field in attrs.fields(model)
        if field.name != "extra"
    }


@cache
def known(model: type) -> frozenset[str]:
    ignored = LIFETIMES if model is User else ()
    return frozenset(key for keys in _names(model).values() for key in keys).union(ignored)


@CONVERTER.register_structure_hook_factory(attrs.has)
def _record_hook(model: type) -> Callable[[object, object], Any]:
    resolved = attrs.fields(attrs.resolve_types(model))
    required = {field.name for field in resolved if field.default is attrs.NOTHING}
    hooks: Any = {field.name: override(struct_hook=_field_hook(field, field.name in required)) for field in resolved}
    hooks["extra"] = override(struct_hook=lambda value, _: value)
    build: Callable[..., Any] = make_dict_structure_fn(model, CONVERTER, **hooks)
    names, known_keys, prepare = _names(model), known(model), _PREPARE.get(model)

    def hook(raw: object, _: object = None) -> Any:
        if not isinstance(raw, dict):
            raise RecordError("no object")
        extra = {key: raw[key] for key in sorted(raw.keys() - known_keys)}
        keys = {name: key for name, spellings in names.items() for key in spellings[::-1] if raw.get(key) is not None}
        values = {name: raw[key] for name, key in keys.items()}
        if prepare is not None:
            prepare(values, extra)
        try:
            return build({**values, "extra": extra}, model)
        except ClassValidationError as error:
            bad = [
                next(note.name for note in reason.__notes__ if isinstance(note, AttributeValidationNote))
                for reason in error.exceptions
                if not isinstance(reason, KeyError)
            ]
        for name in bad:
            value = values.pop(name)
            # A value that a field took from elsewhere has no key of its own.
            if name in keys and name not in required:
                extra[keys[name]] = value
        if missing := required - values.keys():
            raise RecordError("no readable identifier", names[missing.pop()][0])
        return build({**values, "extra": extra}, model)

    return hook


def _field_hook(field: Any, is_required: bool) -> Callable[[object, object], Any]:
    hook = _of_type(field.type)
    if not is_required:
        return hook

    def read(value: object, kind: object) -> Any:
        found = hook(value, kind)
        if found is None:
            raise ValueError("missing")
        return found

    return read


def _prepare_offer(values: dict[str, Any], extra: dict[str, object]) -> None:
    rates = values.get("rates")
    if isinstance(rates, dict) and (without := {name: fee for name, fee in rates.items() if _fee(fee) is None}):
        # A fee without an amount cannot be added up, but its name is information.
        extra["rates"] = without


def _prepare_user(values: dict[str, Any], extra: dict[str, object]) -> None:
    if values.get("company") in _EMPTY:
        values.pop("company", None)


def _prepare_offers(values: dict[str, Any], extra: dict[str, object], name: str) -> tuple[list[Any], int | None]:
    """Find the offers in `offer`, and the contacts beside or inside them.

    Return the entries, and the position of the one that the record itself is about: the only one, or the selected one.
    """
    held = values.pop(name, None)
    found = _entries(held)
    if unread := {key: entry for key, entry in found.items() if not isinstance(entry, dict)}:
        extra["offer"] = unread if isinstance(held, dict) else held
    entries = [dict(entry) for entry in found.values() if isinstance(entry, dict)]
    selected = [at for at, entry in enumerate(entries) if _is_selected(entry)]
    used = 0 if len(entries) == 1 else selected[0] if selected else None
    beside = held if isinstance(held, dict) else {}
    for part, key in (("contact", "loadingPOC"), ("company", "loadingCompany")):
        for place in (beside, {} if used is None else entries[used]):
            if not isinstance(own := values.get(part), dict | None) and isinstance(place.get(key), dict):
                extra[key] = own
            if (own in _EMPTY or key in extra) and place.get(key) not in _EMPTY:
                values[part] = place[key]
            # The copy in another place adds nothing.
            if used is not None and entries[used].get(key) == values.get(part):
                entries[used].pop(key, None)
        if values.get(part) in _EMPTY:
            values.pop(part, None)
    return entries, used


def _entries(held: object) -> dict[str, Any]:
    """Return what `offer` has, by keys: its entries, and stray values that are none."""
    if isinstance(held, dict) and held.keys().isdisjoint(("offerAmount", *ALIASES["id"])):
        rest = {key: entry for key, entry in held.items() if key not in ("loadingPOC", "loadingCompany")}
        found = {key: rest[key] for key in sorted(rest, key=position_of)}
    else:
        found = {str(at): entry for at, entry in enumerate(held if isinstance(held, list) else [held])}
    return {key: entry for key, entry in found.items() if entry not in _EMPTY}


def _is_selected(entry: Mapping[str, object]) -> bool:
    return str(entry.get("status", "")).strip().casefold() == OfferStatus.SELECTED.value.casefold()


def _prepare_listing(values: dict[str, Any], extra: dict[str, object]) -> None:
    values["offers"], _ = _prepare_offers(values, extra, "offers")
    for entry in values["offers"]:
        entry[_OFFER_OF] = values.get("index")


def _prepare_bid(values: dict[str, Any], extra: dict[str, object]) -> None:
    entries, used = _prepare_offers(values, extra, "offer")
    if used is None:
        if entries:
            # The record does not tell which offer it is about: all are kept in `extra`.
            extra["offer"] = entries
        return
    entry = values["offer"] = entries[used]
    entry[_OFFER_OF] = values.get("index")
    # A submitted bid has its price in the offer; a listed one has it in the record.
    for name, keys in (("amount", ("offerAmount",)), ("currency", ALIASES["currency"])):
        found = next((entry[key] for key in keys if entry.get(key) is not None), None)
        if values.get(name) is None and found is not None:
            values[name] = found


_PREPARE: Final[Mapping[type, Callable[[dict[str, Any], dict[str, object]], None]]] = {
    Offer: _prepare_offer,
    User: _prepare_user,
    Listing: _prepare_listing,
    Bid: _prepare_bid,
}


def structure(raw: object, model: type[T]) -> T:
    """Make a record of wire JSON; raise `RecordError` without a readable identifier."""
    record: T = CONVERTER.structure(raw, model)
    return _zoned(record) if isinstance(record, Route) else record  # type: ignore[return-value]  # of the same class


def _zoned(route: Route) -> Route:
    zone = None if not route.timezone else find_zone(route.timezone)
    if zone is None:
        return route

    times = {name: getattr(route, name) for name in ("cy_cutoff", "cfs_cutoff", "departure")}
    zoned: Any = {name: time.replace(tzinfo=zone) for name, time in times.items() if time is not None}
    return attrs.evolve(route, **zoned)


_TIMES: Final = ("need_date", "cy_cutoff", "cfs_cutoff", "departure", "arrival", "last_login")
_DATES: Final = frozenset(key for name in _TIMES for key in ALIASES[name])


def unread(record: object, raw: object, path: str = "") -> Iterator[str]:
    """Yield the place in a row of each known value that its record could not read, also of nested records."""
    model = type(record)
    if not attrs.has(model) or not isinstance(raw, dict):
        return
    extra: Mapping[str, object] = getattr(record, "extra", NOTHING)
    for key in sorted(extra.keys() & known(model) - _DATES):
        kept: Any = extra[key]
        inside = kept if isinstance(kept, Mapping) else dict(enumerate(kept)) if isinstance(kept, tuple) else {}
        if key == "rates" and isinstance(kept, Mapping):
            yield from (f"{path}{key}.{name}" for name, fee in inside.items() if not _is_blank(fee))
        elif key == "offer" and inside:
            # Other keys are not entries, and a bid may keep several readable ones.
            entries = {at: entry for at, entry in inside.items() if position_of(str(at)) >= 0}
            yield from (f"{path}{key}.{at}" for at, entry in entries.items() if not isinstance(entry, Mapping))
        else:
            yield f"{path}{key}"
    for name, (key, *_) in _names(model).items():
        part = getattr(record, name)
        if name in ("offers", "offer"):
            parts = part if isinstance(part, tuple) else (part,)
            entries = {at: entry for at, entry in _entries(raw.get(key)).items() if isinstance(entry, dict)}
            for at, offer in zip(entries, parts if len(parts) == len(entries) else (), strict=False):
                yield from unread(offer, entries[at], f"{path}{key}.{at}.")
        else:
            yield from unread(part, raw.get(key) or {}, f"{path}{key}.")


def position_of(key: str) -> int:
    """Return the position in a collection that a key names, or -1 if it names none."""
    # A longer number is not a position, and Python refuses to convert very long ones.
    return int(key) if len(key) <= 18 and key.isascii() and key.isdecimal() else -1


# Strict path: pages of flat records as the document shows them, by functions made for the keys of their rows

_MAX_LAYOUTS: Final = 32
_Strict = Callable[[Iterator[Any], list[Any]], None]
"""Function that appends the records of rows until one does not suit it."""
_layouts: dict[tuple[type, frozenset[str]], _Strict | None] = {}


def structure_rows(rows: Sequence[Any], model: type[T]) -> tuple[list[T | RecordError], list[int]]:
    """Return the record or the error of each row, and the positions of the rows that the strict path refused."""
    found: list[T | RecordError] = []
    refused: list[int] = []
    first = rows[0] if rows else None
    strict = _layout(model, frozenset(first)) if isinstance(first, dict) else None
    remaining = iter(rows)
    while len(found) < len(rows):
        if strict is not None:
            try:
                strict(remaining, found)
                break
            except (TypeError, ValueError, KeyError, ArithmeticError):
                pass
        refused.append(len(found))
        try:
            found.append(structure(rows[len(found)], model))
        except RecordError as error:
            found.append(error)
    return found, refused


def _layout(model: type, keys: frozenset[str]) -> _Strict | None:
    if (model, keys) not in _layouts and len(_layouts) < _MAX_LAYOUTS:
        _layouts[model, keys] = _compiled(model, keys)
    return _layouts.get((model, keys))


def _compiled(model: type, keys: frozenset[str]) -> _Strict | None:
    """Make a function that reads flat rows with exactly these keys and the documented types, and refuses all others.

    It sets the values on a twin of the class that is not frozen, which halves the time of a record.
    """
    if model in _PREPARE or model is Route or not hasattr(model, "__slots__"):
        return None
    resolved = [field for field in attrs.fields(attrs.resolve_types(model)) if field.name != "extra"]
    names = {field.name: [key for key in _names(model)[field.name] if key in keys] for field in resolved}
    if any(len(found) > 1 for found in names.values()) or not all(
        names[field.name] for field in resolved if field.default is attrs.NOTHING
    ):
        return None
    present = [field for field in resolved if names[field.name]]
    unknown = sorted(keys - known(model))
    wanted = [names[field.name][0] for field in present] + unknown
    if len(wanted) != len(keys) or len(wanted) < 2:
        return None
    # Without both methods Python looks them up for each field.
    plain = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    twin = type("Twin", model.__bases__, {"__slots__": model.__slots__, **plain})
    scope: dict[str, Any] = {
        "get": itemgetter(*wanted), "new": object.__new__, "twin": twin, "model": model, "decimal": Decimal,
        "date": datetime.fromisoformat, "flags": {0: False, 1: True}, "frozen": frozen, "nothing": NOTHING,
        "unknown": unknown,
    }  # fmt: skip
    variables = [f"v{at}" for at in range(len(wanted))]
    lines = [f"if len(row) != {len(wanted)}: raise KeyError", f"{', '.join(variables)}, = get(row)"]
    texts, integers, sets = list[str](), list[str](), list[str]()
    for field, variable in zip(present, variables, strict=False):
        value = variable
        kinds = [kind for kind in get_args(field.type) if kind is not type(None)] or [field.type]
        if UnknownWord in kinds:
            scope[f"words_{variable}"] = _words(field.type)
            value = f"words_{variable}[{variable}]"
        elif kinds[0] is Decimal:
            bound = f"type({variable}) is int and -{_MAX_NUMBER} < {variable} < {_MAX_NUMBER}"
            lines.append(f"if {bound}: {variable} = decimal({variable})")
            lines.append(f"elif type({variable}) is not decimal: raise TypeError")
        elif kinds[0] is datetime:
            # `YYYY-MM-DD HH:mm:ss` has no zone.
            texts.append(variable)
            lines.append(f"if len({variable}) != 19 or {variable}[13] + {variable}[16] != '::': raise ValueError")
            value = f"date({variable})"
        elif kinds[0] is bool:
            value = f"flags[{variable}]"
        else:
            (texts if kinds[0] is str else integers).append(variable)
        sets.append(f"it.{field.name} = {value}")
    for types, name in ((texts, "str"), (integers, "int")):
        if types:
            lines.append(
                f"if not ({' is '.join(f'type({variable})' for variable in types)} is {name}): raise TypeError"
            )
    lines += [f"if not -{MAX_INTEGER} < {variable} < {MAX_INTEGER}: raise ValueError" for variable in integers]
    sets += [f"it.{field.name} = None" for field in resolved if not names[field.name]]
    rest = "".join(f"{variable}, " for variable in variables[len(present) :])
    sets.append(f"it.extra = frozen(dict(zip(unknown, ({rest}))))" if unknown else "it.extra = nothing")
    body = "\n        ".join([*lines, "it = new(twin)", *sets, "it.__class__ = model", "add(it)"])
    # Its names are those of this package's own classes.
    exec(f"def read(rows, found):\n    add = found.append\n    for row in rows:\n        {body}", scope)
    read: _Strict = scope["read"]
    return read
