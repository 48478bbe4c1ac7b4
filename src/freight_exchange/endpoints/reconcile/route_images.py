"""Routes as a client sends them, to tell one image of a route from another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Self

import attrs

from freight_exchange.models import Route, RouteDraft
from freight_exchange.models.validation import find_zone

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

__all__ = ["Image", "Likeness"]

_VOYAGE = ("origin", "destination", "carrier", "vessel", "voyage_id")
_WORDS = {*_VOYAGE} - {"carrier"}
_TIMES = ("cy_cutoff", "cfs_cutoff", "departure", "arrival")


@attrs.frozen
class Likeness:
    """How what the service shows of a route compares with an image.

    Attributes:
        agrees: Nothing that is shown differs.
        whole: Nor is anything left out.
        same_voyage: The lane, the carrier, the vessel and the voyage do not differ; times may.
        respelt: One word of the lane, the vessel or the voyage differs, and nothing else.
    """

    agrees: bool
    whole: bool
    same_voyage: bool
    respelt: bool


@attrs.frozen
class Image:
    """All that a client sends of a route, as the service writes it; `None` is what is not shown or not readable."""

    facts: Mapping[str, object]

    @classmethod
    def of(cls, route: Route | RouteDraft) -> Self:
        zone = find_zone(route.timezone) if route.timezone else None
        facts: dict[str, object] = {name: _word(getattr(route, name)) for name in (*_VOYAGE, "timezone")}
        facts |= {name: _wall_time(getattr(route, name), zone) for name in _TIMES}
        return cls(facts)

    def likeness(self, image: Image) -> Likeness:
        """How this one, read back, compares with an image that was sent, or read before."""
        pairs = {name: (shown, image.facts[name]) for name, shown in self.facts.items()}
        different = {name for name, pair in pairs.items() if None not in pair and pair[0] != pair[1]}
        hidden = any((shown is None) != (sent is None) for shown, sent in pairs.values())
        return Likeness(
            agrees=not different,
            whole=not different and not hidden,
            same_voyage=different.isdisjoint(_VOYAGE),
            respelt=len(different) == 1 and different <= _WORDS,
        )


def _word(value: object) -> object:
    return (" ".join(value.split()).casefold() or None) if isinstance(value, str) else value


def _wall_time(moment: datetime | None, zone: ZoneInfo | None) -> datetime | None:
    if moment is None:
        return None
    if zone is not None and moment.tzinfo is not None:
        moment = moment.astimezone(zone)
    return moment.replace(tzinfo=None, microsecond=0, fold=0)
