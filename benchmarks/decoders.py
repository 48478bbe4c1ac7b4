"""The decoders that are compared, each set up by its documentation for the service's rate requests.

Each is imported only where it is measured. All but plain JSON rename the wire's fields, and make exact decimals,
date-times and enumerations of what they hold.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

__all__ = ["DECODERS", "Decode", "Decoder"]

Decode = Callable[[bytes], Sequence[Any]]


class Type(enum.Enum):
    SHIPPING = "Shipping"
    AIR = "Air Freight"
    TRUCKING = "Trucking"
    WAREHOUSING = "Warehousing"


class Status(enum.Enum):
    AVAILABLE = "Available"


class Packaging(enum.Enum):
    PALLET = "Pallet"
    CARTON = "Carton"
    PIECE = "Piece"


FIELDS: Final[Mapping[str, tuple[str, Any]]] = {
    "index": ("index", int),
    "ref_id": ("refId", str),
    "commodity": ("commodityname", str),
    "type": ("requesttype", Type),
    "status": ("status", Status),
    "origin": ("origin", str),
    "destination": ("destination", str),
    "need_date": ("needdate", datetime),
    "notes": ("notes", str),
    "quantity": ("qty", int),
    "packaging": ("packaging", Packaging),
    "length": ("length", Decimal),
    "width": ("width", Decimal),
    "height": ("height", Decimal),
    "measure_unit": ("measureUnit", str),
    "weight": ("weight", Decimal),
    "mass_unit": ("massUnit", str),
    "incoterm": ("incoterm", str),
    "hazardous": ("hazardous", int),
}
"""The model's fields: the wire's name of each, and its type."""


def _sdk() -> Decode:
    from freight_exchange import wire

    return lambda content: wire.decode_rows(wire.parse(content), wire.REQUESTS).records


def _cattrs() -> Decode:
    import attrs
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn, override

    record = attrs.make_class(
        "Record", {name: attrs.field(type=kind) for name, (_, kind) in FIELDS.items()}, frozen=True
    )
    converter = Converter()
    converter.register_structure_hook(datetime, lambda value, _: datetime.fromisoformat(value))
    converter.register_structure_hook(Decimal, lambda value, _: value if type(value) is Decimal else Decimal(value))
    renames = {name: override(rename=wire) for name, (wire, _) in FIELDS.items()}
    converter.register_structure_hook(record, make_dict_structure_fn(record, converter, **renames))  # type: ignore[arg-type]  # overrides by name
    kind = list[record]  # type: ignore[valid-type]  # made when it runs

    def decode(content: bytes) -> Sequence[Any]:
        reply = json.loads(content, parse_float=Decimal)
        return converter.structure([*reply["raterequests"].values()], kind)

    return decode


def _pydantic() -> Decode:
    import pydantic

    fields: Any = {name: (kind, pydantic.Field(alias=wire)) for name, (wire, kind) in FIELDS.items()}
    record = pydantic.create_model("Record", __config__=pydantic.ConfigDict(frozen=True), **fields)
    listing = pydantic.create_model("Listing", raterequests=(dict[str, record], ...))  # type: ignore[valid-type]

    def decode(content: bytes) -> Sequence[Any]:
        return [*listing.model_validate_json(content).raterequests.values()]  # type: ignore[attr-defined]

    return decode


def _msgspec() -> Decode:
    import msgspec

    record = msgspec.defstruct(
        "Record",
        [(name, kind) for name, (_, kind) in FIELDS.items()],
        rename={name: wire for name, (wire, _) in FIELDS.items()},
        frozen=True,
    )
    listing = msgspec.defstruct("Listing", [("raterequests", dict[str, record])])  # type: ignore[valid-type]
    decoder: Any = msgspec.json.Decoder(listing)
    return lambda content: [*decoder.decode(content).raterequests.values()]


def _json() -> Decode:
    return lambda content: [*json.loads(content)["raterequests"].values()]


class Decoder(NamedTuple):
    """A way to decode pages."""

    title: str
    ready: Callable[[], Decode]


DECODERS: Final = {
    "cattrs": Decoder("json + cattrs", _cattrs),
    "sdk": Decoder("this SDK", _sdk),
    "pydantic": Decoder("pydantic v2", _pydantic),
    "msgspec": Decoder("msgspec, structs", _msgspec),
    "json": Decoder("plain json, no types", _json),
}
"""By the name on the command line; the first is what the others are compared with."""
