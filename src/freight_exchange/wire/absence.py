"""Whether a sentence of the service means that there are no records, and not that something is wrong.

A gateway answers in the place of a service that is away, and a session or a key is a record too. An error is heard, but
an empty listing that is not true makes a watcher deaf: every word of the sentence must be one that such a sentence is
known to have. In doubt it is an error.
"""

from __future__ import annotations

import re
from typing import Final

from freight_exchange.wire import names

__all__ = ["says_no_records"]

_MANY: Final = "(?:records|requests|raterequests|results|offers|bids|rows|entries|items|routes|carriers|currencies)"
_ANY: Final = f"(?:{_MANY}|record|request|raterequest|result|offer|bid|row|entry|item|carrier|currency|data)"
_NO: Final = "(?:no|zero|0) "
_NOW: Final = "(?:currently |presently |now )?"
_OPENING: Final = (
    "(?:(?:we are )?sorry |unfortunately )?(?:but )?"
    "(?:(?:at present |at the moment )?(?:currently |presently )?there (?:are|is|were|was) "
    "|(?:(?:the|your|this) )?(?:search|query|request) (?:has )?(?:returned|found|gave|produced|yielded|matched) "
    "|we (?:have )?found |you (?:currently )?have |returned |found )?"
)
# "No more requests", "no handler for requests", "no healthy upstream": of these none says that there are no requests.
_KIND: Final = (
    "(?:(?:such|open|rate|freight|matching|active|available|current|new|pending|other|recent|updated|published|quote"
    "|price|search|cargo|shipping|transport|air|ocean|sea|road|rail|land|truck|request|offer|bid|carrier) ){0,4}"
)
_WHICH: Final = r"(?:(?:with|for|of|the|this|that|your|given|index|id|identifier|number|\d+) )*"
_FOUND: Final = "(?:(?:was|were|is|are|has been|have been|could be|can be) )?(?:found|exists?)"
_NOT_FOUND: Final = (
    "(?:(?:(?:was|were|is|are|has been|have been) ?)?(?:not|nt) found|not found"
    "|(?:do|does|did) ?(?:not|nt) exist|(?:can ?not|could ?not|cant|couldnt) be found)"
)
# Each word once: a sentence is read in one way, however long it is.
_REST: Final = (
    "(?: (?:"
    "for|in|within|since|during|between|and|or|on|to|with|by|at|that|the|this|these|those|your|any|a"
    "|is|are|was|were|has|have|been|be|found|exists?|available|returned|listed|shown|show|display|present|presently"
    "|open|match|matched|matches|matching|meet|meeting|satisfy|yet|now|currently|moment|then|so|far"
    "|(?<=at this )time|time(?= (?:window|frame|range|period|interval))"
    "|submitted|made|received|posted"
    "|given|specified|selected|supplied|provided|current|last|past|previous|updated|changed|published"
    "|seconds?|minutes?|hours?|days?|weeks?|window|frame|period|range|interval"
    "|search|query|criteria|criterion|filters?|parameters?|conditions?|index|id|identifier|number"
    "|rate|freight|requests?|offers?|bids?|routes?|carriers?|origin|destination|status|type|voyage|vessel"
    "|please|try|change|adjust|broaden|widen|refine|another|different|other"
    "|you|account|company|user"
    r"|\d+"
    "))*"
)

# Compiled when it is wanted, which in most processes is never.
_ABSENT: Final = (
    f"{_OPENING}{_NOW}{_NO}{_KIND}{_MANY}(?: (?:could|can) be found)?{_REST}"
    f"|{_OPENING}{_NOW}{_NO}{_KIND}{_ANY} {_WHICH}{_FOUND}{_REST}"
    f"|(?:sorry )?(?:(?:the|this|that|your|a|an) )?{_KIND}{_ANY} {_WHICH}{_NOT_FOUND}{_REST}"
)

_WHOSE: Final = frozenset({"you", "account", "company", "user"})
_PLAIN: Final = frozenset({"requests", "raterequests", "offers", "bids", "routes", "carriers", "currencies"})
"""What nothing but a listing holds: "no record found for this user" may speak of the user's own record."""


def says_no_records(sentence: str, collection: str | None = None) -> bool:
    """Whether it speaks of records that are not there, and of nothing else.

    Args:
        sentence: What was said.
        collection: What was asked for, where it is not told by what stands beside the sentence. A gateway has routes
            too: they count only where routes were asked for.
    """
    words = re.findall(r"[^\W_]+", re.sub("['\u2019]|\\(s\\)", "", sentence.casefold()))
    if "routes" in words and collection not in (names.ROUTES, None):
        return False
    if not _WHOSE.isdisjoint(words) and _PLAIN.isdisjoint(words):
        return False
    return re.fullmatch(_ABSENT, " ".join(words)) is not None
