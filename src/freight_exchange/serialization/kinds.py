"""Names of the classes that can be serialized: the values of the key `object`."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from freight_exchange.models._base import Serializable
from freight_exchange.platform.errors import ValidationError

__all__ = ["KEY", "class_of", "is_known", "name_of"]

KEY: Final = "object"
"""Key with the name of the class; no field has this name."""

# Modules of the classes, imported with the first record of a class: most of them are above this module.
_MODULES: Final = {
    "Applied": "models",
    "Bid": "models",
    "BidSelected": "feed.events",
    "BotStatus": "bot",
    "Carrier": "models",
    "Company": "models",
    "ComparedOffer": "quotes",
    "Comparison": "quotes",
    "Conflict": "models",
    "Contact": "models",
    "Currency": "models",
    "DeadLetter": "bot",
    "Doubt": "bot",
    "Explanation": "feed.status",
    "FeedStatus": "feed.status",
    "Gap": "feed.events",
    "Listing": "models",
    "NoQuote": "tariff",
    "NotApplied": "models",
    "Offer": "models",
    "OfferEvent": "feed.events",
    "OfferFeedStatus": "feed.status",
    "Page": "paging",
    "Quote": "tariff",
    "RateRequest": "models",
    "RateRequestDraft": "models",
    "RequestEvent": "feed.events",
    "Route": "models",
    "RouteDraft": "models",
    "StillUnknown": "models",
    "Unreadable": "feed.events",
    "User": "models",
}


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_CLASSES: Final = {_snake_case(name): name for name in _MODULES}


def is_known(cls: type) -> bool:
    """Return whether objects of a class can be serialized."""
    return cls.__name__ in _MODULES and issubclass(cls, Serializable)


def name_of(cls: type) -> str:
    """Return the name of a class in the key `object`.

    Raises:
        ValidationError: Objects of the class cannot be serialized.
    """
    if not is_known(cls):
        raise ValidationError(f"record must be a record of this package, not {cls.__name__}", field="record")
    return _snake_case(cls.__name__)


def class_of(name: object) -> type[Serializable]:
    """Return the class with this name.

    Raises:
        ValidationError: There is no such class.
    """
    if not isinstance(name, str) or name not in _CLASSES:
        raise ValidationError(f"{KEY} must name a record, such as 'rate_request', not {name!r}", field=KEY)
    found: type[Serializable] = getattr(import_module(f"freight_exchange.{_MODULES[_CLASSES[name]]}"), _CLASSES[name])
    return found
