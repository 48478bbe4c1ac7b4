"""Sentences by which a service says that there are no records.

A gateway answers in the place of a service that is away, and an empty listing that is not true makes a watcher deaf. So
only sentences that are known count. A client that knows its service better passes `missing_list_is_empty=True`.
"""

from __future__ import annotations

import re
from typing import Final

from freight_exchange.wire import fields

__all__ = ["says_no_records"]

_ANY_LISTING: Final = frozenset(
    {"no records found", "no record found", "no records were found", "no results found", "no data found"}
)
_LONGEST: Final = 60
_ROWS: Final = {
    fields.REQUESTS: ("requests", "rate requests", "raterequests"),
    fields.OFFERS: ("offers", "requests"),
    fields.BIDS: ("bids", "offers"),
    fields.ROUTES: ("routes",),
    fields.CARRIERS: ("carriers",),
    fields.CURRENCIES: ("currencies",),
}


def says_no_records(sentence: str, collection: str) -> bool:
    """Whether it says that the collection that was asked for has no records, and nothing else."""
    if len(sentence) > _LONGEST:
        return False
    said = " ".join(re.findall(r"\w+", sentence.casefold()))
    return said in _ANY_LISTING or said in {f"no {rows} found" for rows in _ROWS.get(collection, ())}
