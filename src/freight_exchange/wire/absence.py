"""Whether a sentence of the service means that there are no records, and not that something is wrong.

A gateway answers in the place of a service that is away, and it speaks of requests as well. An error is heard, but an
empty listing that is not true makes a watcher deaf: what does not plainly speak of records is an error.
"""

from __future__ import annotations

import re
from typing import Final

from freight_exchange.wire import names

__all__ = ["says_no_records"]

_MANY: Final = "(?:records|requests|results|offers|bids|rows|entries|items|routes|carriers|currencies)"
_ANY: Final = f"(?:{_MANY}|record|request|result|offer|bid|row|entry|item|carrier|currency|data)"
_NO: Final = r"\b(?:no|zero|0) "
_KIND: Final = "(?:(?:such|open|rate|freight|matching|active|available|current|new|pending|other) ){0,2}"
# "No handler for requests", "no longer", "no more requests": of these none says that there are no requests.
_WORDS: Final = "(?:(?!(?:for|of|to|from|by|in|on|with|longer|more|further) )[a-z]+ ){0,3}"
_WHICH: Final = r"(?:(?:with|for|of|the|this|that|index|id|number|was|were|is|are|#?\d+) )*"
_END: Final = "(?:$|[.!,;]| (?:available|returned|match|matched|matching|yet|for|in|within|since|updated|to show)\\b)"
_NOT_FOUND: Final = "(?:not found|(?:do|does) ?(?:not|nt) exist|(?:can ?not|could ?not|cant|couldnt) be found)"

# Compiled when it is wanted, which in most processes is never.
_ABSENT: Final = (
    rf"{_NO}{_KIND}{_MANY}{_END}"
    rf"|{_NO}{_WORDS}{_ANY} {_WHICH}(?:found|exists?)\b"
    rf"|\b{_ANY} {_WHICH}{_NOT_FOUND}\b"
)

_ELSEWHERE: Final = frozenset(
    # An address,
    {"url", "uri", "path", "page", "address", "endpoint", "endpoints", "resource", "method", "get", "post", "requested"}
    # what stands before the service,
    | {"route", "routed", "routing", "gateway", "proxy", "upstream", "upstreams", "backend", "backends", "balancer"}
    | {"host", "hosts", "cluster", "server", "servers", "service", "services", "handler", "handlers", "tenant"}
    # or what went wrong.
    | {"error", "errors", "fail", "failed", "failure", "invalid", "unavailable", "maintenance", "timeout", "timed"}
    | {"database", "connection", "denied", "forbidden", "allowed", "unauthorized", "process", "processed", "limit"}
)


def says_no_records(sentence: str, collection: str | None = None) -> bool:
    """Whether it speaks of records that are not there, and of nothing else.

    Args:
        sentence: What was said.
        collection: What was asked for, where it is not told by what stands beside the sentence. A gateway has routes
            too: they count only where routes were asked for.
    """
    said = re.sub("['\u2019]", "", " ".join(sentence.casefold().split()))
    words = set(re.findall("[a-z]+", said))
    if words & _ELSEWHERE or ("routes" in words and collection not in (names.ROUTES, None)):
        return False
    return re.search(_ABSENT, said) is not None
