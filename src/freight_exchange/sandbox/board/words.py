"""Plain words for what the board shows: the operations, the faults and the habits that people like to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from freight_exchange.sandbox.faults.catalogue import FAULTS
from freight_exchange.sandbox.faults.fault_factory import FaultFactory
from freight_exchange.sandbox.model.profile import Profile

__all__ = ["HABITS", "OPERATIONS", "PERFORMED", "SHELF", "catalogue", "fault_label", "operation_of"]


class Operation(NamedTuple):
    """What a caller does, in a few words, and every address at which it can be done."""

    label: str
    does: str
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
    """The key of the operation at an address, or `None` where there is none."""
    for key, operation in OPERATIONS.items():
        if (method, path) in operation.addresses:
            return key
    return None


class Shelved(NamedTuple):
    """A fault to begin with: its name in the catalogue, what it is called, whom it strikes and how often."""

    fault: str
    label: str
    explains: str
    operation: str
    times: int | None = 1


SHELF: Final = (
    Shelved(
        "reset_after_processing",
        "The answer to an offer gets lost",
        "It is taken, and nobody is told. A careless bot offers twice.",
        "submit",
    ),
    Shelved(
        "reset_after_send",
        "An offer gets lost on its way",
        "It is not taken. A careless bot believes that it has offered.",
        "submit",
    ),
    Shelved("stall", "An offer is never answered", "It is taken, and the line stays silent.", "submit"),
    Shelved(
        "bad_request_after_commit",
        "Taken, but answered by an error",
        "Status 500, and whoever sends it again is refused.",
        "submit",
    ),
    Shelved(
        "unavailable_forever", "The exchange is down", "Status 503 for every call, until you switch it off.", "", None
    ),
    Shelved("tokens_revoked", "Everybody is logged out", "Every token goes out of force at once.", ""),
    Shelved("throttled_seconds", "Too many requests", "Status 429 for three calls: come back in a second.", "", 3),
    Shelved("slow", "Slow answers", "The next ten answers come a second late.", "", 10),
    Shelved(
        "truncated_length", "A list breaks off in the middle", "Half of an answer, then the connection ends.", "search"
    ),
    Shelved("poison_record", "One broken record in a list", "The others are good, and must not be lost.", "search"),
    Shelved(
        "maintenance_200",
        "A maintenance note instead of a list",
        "Whoever takes it for an empty list goes deaf.",
        "search",
    ),
    Shelved("html_200", "A web page instead of data", "What a proxy or a login wall sends, with status 200.", ""),
)

PERFORMED: Final[Mapping[str, FaultFactory]] = {
    name: recipe
    for name, recipe in FAULTS.items()
    if recipe.cut is None or not recipe.cut.early or recipe.cut.value.startswith("reset")
}
"""The faults that a server which is already there can perform: it cannot fail to be found, or not to listen."""

HABITS: Final = {
    "latency": "Seconds that each answer takes",
    "late_visibility": "Seconds until something new shows in lists",
    "rows_clamp": "Most records in a page, whatever is asked",
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
    """What a fault is called, without the suffix of its second strike."""
    first = name.removesuffix(".then")
    for shelved in SHELF:
        if shelved.fault == first:
            return shelved.label
    return sentence(FAULTS[first].meaning) if first in FAULTS else first


def sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def catalogue() -> Mapping[str, Any]:
    """What the page offers: it does not change while the exchange runs."""
    return {
        "operations": [{"key": key, "label": operation.label} for key, operation in OPERATIONS.items()],
        "shelf": [shelved._asdict() for shelved in SHELF],
        "faults": [
            {
                "name": recipe.name,
                "label": sentence(recipe.meaning),
                "phases": list(recipe.phases),
                "seconds": recipe.seconds or None,
                "times": recipe.times,
                "operation": (recipe.path and operation_of(recipe.method or "POST", recipe.path)) or "",
            }
            for recipe in PERFORMED.values()
        ],
        "habits": [
            {
                "name": knob.name,
                "label": HABITS.get(knob.name, sentence(knob.meaning)),
                "meaning": knob.meaning,
                "default": knob.default,
                "choices": None if _is_number(knob.name) else [knob.default, *knob.values],
                "shelved": knob.name in HABITS,
            }
            for knob in sorted(Profile.knobs(), key=lambda knob: _rank(knob.name))
        ],
    }


def _is_number(name: str) -> bool:
    seconds = {"latency", "late_visibility", "token_lifetime"}
    return name in seconds | {"rows_clamp", "rows_limit", "default_rows", "reference_rows"}


def _rank(name: str) -> int:
    """The shelved first, in their order; the others stay as the profile has them."""
    return [*HABITS].index(name) if name in HABITS else len(HABITS)
