"""Cost of decoding a page: bytes to typed records, by this package's codec and by json + cattrs.

`python -m benchmarks.decoding DECODER SIZE TIMES` prints what a record takes, and what it keeps in memory.
"""

from __future__ import annotations

import enum
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from statistics import median
from typing import Any, Final

from benchmarks.rounds import SDK, Figures, Scale, Table, alone, interleaved
from benchmarks.server import page

PEER: Final = "json + cattrs"
SIZES: Final = (100, 1000)

_RECORDS: Final = 40_000
_KEPT: Final = 2_000
_COLUMNS: Final = {"cpu": "CPU us a record", "memory": "bytes a record"}

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
"""Wire name and type of each field."""


def _sdk() -> Decode:
    from freight_exchange import wire

    return lambda content: wire.decode_rows(wire.parse(content), wire.REQUESTS).records


def _cattrs() -> Decode:
    """Set cattrs up as its documentation does: renamed fields, exact decimals, date-times and enumerations."""
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


def _json() -> Decode:
    return lambda content: [*json.loads(content)["raterequests"].values()]


DECODERS: Final[Mapping[str, Callable[[], Decode]]] = {PEER: _cattrs, SDK: _sdk, "plain json, no types": _json}


def tables(scale: Scale) -> Iterator[Table]:
    """Yield a table for each size of a page."""
    for size in SIZES:
        times = max(3, scale.of(_RECORDS) // size)
        run = {name: partial(alone, "decoding", name, size, times) for name in DECODERS}
        title = f"Pages of {size:,} records, from bytes to records"
        yield Table(f"decoding {size}", title, _COLUMNS, interleaved(run, scale.rounds), PEER)


def _measure(name: str, size: int, times: int) -> Figures:
    decode = DECODERS[name]()
    content = page(1, size)
    assert len(decode(content)) == size
    gc.collect()
    taken: list[float] = []
    for _ in range(times):
        began = time.process_time()
        decode(content)
        taken.append(time.process_time() - began)
    # Memory that the records keep once their pages have been released.
    contents = [page(1 + first, size) for first in range(0, _KEPT, size)]
    gc.collect()
    tracemalloc.start()
    kept = [decode(content) for content in contents]
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    return {"cpu": median(taken) / size * 1e6, "memory": used / (len(kept) * size)}


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
