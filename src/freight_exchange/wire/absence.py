"""Whether a sentence of the service means that there are no records, and not that something is wrong."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["says_no_records"]

_NONE: Final = frozenset(
    {"no", "not", "none", "zero", "0", "empty", "nothing", "without", "doesn", "don", "isn", "couldn"}
)
_RECORDS: Final = frozenset(
    {"record", "records", "request", "requests", "result", "results", "offer", "offers", "bid", "bids", "data"}
    | {"row", "rows", "entry", "entries", "item", "items", "routes", "carriers", "currencies"}
)
_ADDRESS: Final = frozenset(
    {"url", "uri", "path", "page", "address", "endpoint", "resource", "method", "server", "get", "post"}
)


def says_no_records(sentence: str) -> bool:
    """Whether it speaks of records that are not there; one that speaks of an address does not."""
    words = set(re.findall("[a-z0-9]+", sentence.casefold()))
    return bool(words & _NONE and words & _RECORDS) and not words & _ADDRESS
