"""Recognition of failures and empty listings in the body of a reply.

A gateway may answer instead of the service, and a false empty listing hides requests from a watcher. So only known
sentences count as "no records". `missing_list_is_empty=True` accepts every 404 to a listing.
"""

from __future__ import annotations

import re
from typing import Final

from freight_exchange.wire import fields

__all__ = ["reports_failure", "reports_no_records"]

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

# These are values and not keys, and `fields` must not have them: redaction leaves its words unmasked, and a password
# may be one of these.
_FALSE_WORDS: Final = frozenset({"false", "0", "no"})
_FAILURE_WORDS: Final = frozenset({"false", "error", "fail", "failed", "failure"})


def reports_no_records(sentence: str, collection: str) -> bool:
    """Return whether a sentence reports only that the requested collection has no records."""
    if len(sentence) > _LONGEST:
        return False
    words = " ".join(re.findall(r"\w+", sentence.casefold()))
    return words in _ANY_LISTING or words in {f"no {rows} found" for rows in _ROWS.get(collection, ())}


def reports_failure(data: object, listed: str | None = None) -> bool:
    """Return whether a body reports a failure.

    Args:
        data: The body.
        listed: The requested collection of a listing, for which "no records" is not a failure; `None` for a write.
    """
    if not isinstance(data, dict):
        return False
    for key, value in data.items():
        folded = key.casefold()
        if _denies_success(folded, value):
            sentences = [text for other, text in data.items() if other.casefold() == fields.MESSAGE]
        # Envelopes may have this key in a success too: `"error": false`.
        elif folded in fields.FAILURES and value:
            sentences = [value]
        else:
            continue
        if listed is None or not any(isinstance(text, str) and reports_no_records(text, listed) for text in sentences):
            return True
    return False


def _denies_success(key: str, value: object) -> bool:
    """Return whether this key of a body denies success without a reason."""
    word = str(value).strip().casefold() if isinstance(value, str | int) else ""
    if key in fields.SUCCESSES:
        return word in _FALSE_WORDS
    return key in fields.OUTCOMES and (word in _FAILURE_WORDS or re.fullmatch("[45][0-9][0-9]", word) is not None)
