"""Words of the board for operations, faults and quirks, and its suggested faults and quirks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from freight_sandbox.faults import FAULTS, FaultFactory
from freight_sandbox.quirks import Profile

__all__ = [
    "AVAILABLE_FAULTS",
    "OPERATIONS",
    "QUIRK_LABELS",
    "SUGGESTED_FAULTS",
    "catalogue",
    "fault_label",
    "operation_of",
]


class Operation(NamedTuple):
    """Words for an operation, with all its addresses."""

    label: str
    action: str
    addresses: frozenset[tuple[str, str]]


OPERATIONS: Final[Mapping[str, Operation]] = {
    "login": Operation("Logging in", "logs in", frozenset({("POST", "login")})),
    "search": Operation(
        "Listing requests",
        "lists requests",
        frozenset({("POST", "quote/getrequests"), ("GET", "quote/request")}),
    ),
    "publish": Operation(
        "Publishing a request",
        "publishes a request",
        frozenset({("POST", "quote/submitrequest"), ("POST", "quote/request"), ("POST", "request")}),
    ),
    "submit": Operation(
        "Submitting an offer", "submits an offer", frozenset({("POST", "quote/submitoffer"), ("POST", "quote/bid")})
    ),
    "bids": Operation("Listing own offers", "lists its own offers", frozenset({("GET", "quote/bid")})),
    "offers": Operation(
        "Reading the offers on a request",
        "reads the offers on its requests",
        frozenset({("GET", "quote/offer"), ("POST", "quote/getoffers")}),
    ),
    "approve": Operation(
        "Approving or declining",
        "approves or declines an offer",
        frozenset({("POST", "quote/approveoffer"), ("POST", "quote/offer")}),
    ),
    "routes": Operation(
        "Routes", "works with routes", frozenset({("GET", "route"), ("POST", "route"), ("PUT", "route")})
    ),
    "lists": Operation(
        "Carriers and currencies", "reads carriers or currencies", frozenset({("GET", "carrier"), ("GET", "currency")})
    ),
}


def operation_of(method: str, path: str) -> str | None:
    """Return the key of the operation at an address, or `None`."""
    for key, operation in OPERATIONS.items():
        if (method, path) in operation.addresses:
            return key
    return None


class SuggestedFault(NamedTuple):
    """Fault that the board suggests: its name in the catalogue, words, operation, and number of calls to strike."""

    fault: str
    label: str
    explanation: str
    operation: str
    times: int | None = 1


SUGGESTED_FAULTS: Final = (
    SuggestedFault(
        "reset_after_processing",
        "The answer to an offer gets lost",
        "The exchange takes it, and the bot gets no answer. A careless bot offers twice.",
        "submit",
    ),
    SuggestedFault(
        "reset_after_send",
        "An offer gets lost on its way",
        "The exchange never gets it. A careless bot counts it as made.",
        "submit",
    ),
    SuggestedFault(
        "stall", "An offer is never answered", "The exchange takes it, and the connection stays silent.", "submit"
    ),
    SuggestedFault(
        "bad_request_after_commit",
        "An offer is taken, but answered by an error",
        "Status 500, and sending it again is refused.",
        "submit",
    ),
    SuggestedFault(
        "unavailable_forever", "The exchange is down", "Status 503 for every call, until you switch it off.", "", None
    ),
    SuggestedFault("tokens_revoked", "All logins end", "Every token becomes invalid at once.", ""),
    SuggestedFault(
        "throttled_seconds", "Too many requests", "Status 429 for three calls: come back in a second.", "", 3
    ),
    SuggestedFault("slow", "Slow answers", "The next ten answers come a second late.", "", 10),
    SuggestedFault(
        "truncated_length", "A list breaks off in the middle", "Half of an answer, then the connection ends.", "search"
    ),
    SuggestedFault(
        "poison_record", "One broken record in a list", "The others are good and must not be lost.", "search"
    ),
    SuggestedFault(
        "maintenance_200",
        "A maintenance note instead of a list",
        "A bot that takes it for an empty list misses requests.",
        "search",
    ),
    SuggestedFault(
        "html_200", "A web page instead of data", "What a proxy or a login wall sends, with status 200.", ""
    ),
)

AVAILABLE_FAULTS: Final[Mapping[str, FaultFactory]] = {
    name: factory
    for name, factory in FAULTS.items()
    if factory.cut is None or not factory.cut.early or factory.cut.value.startswith("reset")
}
"""Faults that a running server can perform: all except those that prevent a connection."""

QUIRK_LABELS: Final = {
    "latency": "Seconds that each answer takes",
    "late_visibility": "Seconds until a change shows in lists",
    "rows_clamp": "Maximum records in a page",
    "order": "Order of the lists",
    "token_lifetime": "Seconds that a login lasts",
    "poison": "One broken record in every list",
    "number_form": "How numbers are written",
    "date_form": "How dates are written",
    "collection_shape": "How lists are written",
    "offset_ignored": "Every page is the first one",
    "second_offer": "A second offer by the same forwarder",
    "decline_outcome": "What becomes of a declined offer",
}


def fault_label(name: str) -> str:
    """Return the words for a fault. The second rule of a fault has the words of the first."""
    first = name.removesuffix(".then")
    for suggested in SUGGESTED_FAULTS:
        if suggested.fault == first:
            return suggested.label
    return capitalized(FAULTS[first].meaning) if first in FAULTS else first


def capitalized(words: str) -> str:
    return words[:1].upper() + words[1:]


def catalogue() -> Mapping[str, Any]:
    """Return all choices of the page, which do not change while the exchange runs."""
    return {
        "operations": [{"key": key, "label": operation.label} for key, operation in OPERATIONS.items()],
        "suggested_faults": [suggested._asdict() for suggested in SUGGESTED_FAULTS],
        "faults": [
            {
                "name": factory.name,
                "label": capitalized(factory.meaning),
                "phases": list(factory.phases),
                "seconds": factory.seconds or None,
                "times": factory.times,
                "operation": (factory.path and operation_of(factory.method or "POST", factory.path)) or "",
            }
            for factory in AVAILABLE_FAULTS.values()
        ],
        "quirks": [
            {
                "name": knob.name,
                "label": QUIRK_LABELS.get(knob.name, capitalized(knob.meaning)),
                "meaning": knob.meaning,
                "default": knob.default,
                "choices": None if _is_number(knob.name) else [knob.default, *knob.values],
                "suggested": knob.name in QUIRK_LABELS,
            }
            for knob in sorted(Profile.knobs(), key=lambda knob: _rank(knob.name))
        ],
    }


def _is_number(name: str) -> bool:
    seconds = {"latency", "late_visibility", "token_lifetime"}
    return name in seconds | {"rows_clamp", "rows_limit", "default_rows", "reference_rows"}


def _rank(name: str) -> int:
    """Rank the suggested quirks first, in their order."""
    return [*QUIRK_LABELS].index(name) if name in QUIRK_LABELS else len(QUIRK_LABELS)
