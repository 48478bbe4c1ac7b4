"""Pages with one odd record, as each decoder reads them: measured by running each decoder.

Run: `python -m benchmarks.odd_records DECODER` prints how many records of each page came out, of how many.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from benchmarks.decoders import DECODERS, Decode
from benchmarks.records import listing, page
from benchmarks.rounds import alone

__all__ = ["table"]

_SIZE: Final = 10
_ODD: Final[Mapping[str, Callable[[dict[str, Any]], object]]] = {
    "an unknown enumeration word": lambda record: record.update(status="Paused"),
    "a number as text": lambda record: record.update(weight="640.50"),
    "a date of zeros": lambda record: record.update(needdate="0000-00-00 00:00:00"),
    "a field left out": lambda record: record.pop("incoterm"),
    "a record that is broken": lambda record: record.update(index={}),
}
_EXACT: Final = "640.12345678901234567890"


def table() -> list[list[str]]:
    """Return the results for pages of ten records, one line for each decoder."""
    lines = [["", *_ODD, "exact decimals"]]
    for name, decoder in DECODERS.items():
        found = alone("odd_records", name)
        # Without types there is nothing to refuse, and nothing to rely on.
        cells = [f"{found[odd]:.0f} of {_SIZE}" if name != "json" else "as it came" for odd in _ODD]
        lines.append([decoder.title, *cells, "yes" if found["exact"] else "no"])
    return lines


def _found(decode: Decode) -> Iterator[tuple[str, float]]:
    for title, oddly in _ODD.items():
        reply = listing(1, _SIZE)
        oddly(reply["raterequests"]["4"])
        yield title, _count(decode, json.dumps(reply).encode())
    content = page(1, 1).replace(b'"weight":40.25', b'"weight":' + _EXACT.encode())
    assert _EXACT.encode() in content
    [record] = decode(content)
    weight = record["weight"] if isinstance(record, dict) else record.weight
    yield "exact", float(isinstance(weight, Decimal) and str(weight) == _EXACT)


def _count(decode: Decode, content: bytes) -> int:
    try:
        return len(decode(content))
    except Exception as error:  # noqa: BLE001 - each library has its own, and each of them means: no page
        print(repr(error)[:200], file=sys.stderr)
        return 0


if __name__ == "__main__":
    print(json.dumps(dict(_found(DECODERS[sys.argv[1]].ready()))))
