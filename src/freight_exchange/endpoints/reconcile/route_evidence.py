"""Evidence of route writes: compares listed routes with images, which have the fields that a client sends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Self

import attrs

from freight_exchange.models import Applied, Conflict, NotApplied, Route, RouteDraft, StillUnknown
from freight_exchange.validation import find_zone

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from freight_exchange.endpoints.routes import Routes
    from freight_exchange.models import CreateRoute, Reconciliation

__all__ = ["CreatedRoute", "Image", "Likeness", "UpdatedRoute"]

_VOYAGE = ("origin", "destination", "carrier", "vessel", "voyage_id")
_WORDS = {*_VOYAGE} - {"carrier"}
_TIMES = ("cy_cutoff", "cfs_cutoff", "departure", "arrival")


@attrs.frozen
class Likeness:
    """Result of the comparison of a listed route with an image.

    Attributes:
        agrees: No listed field differs.
        whole: All fields are listed, and none differs.
        same_voyage: The lane, the carrier, the vessel and the voyage do not differ; times may.
        respelt: The only difference is one word of the lane, the vessel or the voyage.
    """

    agrees: bool
    whole: bool
    same_voyage: bool
    respelt: bool


@attrs.frozen
class Image:
    """Fields of a route that a client sends, as the service writes them; `None` for a missing or unreadable field."""

    facts: Mapping[str, object]

    @classmethod
    def from_route(cls, route: Route | RouteDraft) -> Self:
        zone = find_zone(route.timezone) if route.timezone else None
        facts: dict[str, object] = {name: _word(getattr(route, name)) for name in (*_VOYAGE, "timezone")}
        facts |= {name: _wall_time(getattr(route, name), zone) for name in _TIMES}
        return cls(facts)

    def likeness(self, image: Image) -> Likeness:
        """Compare this image, made from a listed route, with one that was sent or read before."""
        pairs = {name: (listed, image.facts[name]) for name, listed in self.facts.items()}
        different = {name for name, pair in pairs.items() if None not in pair and pair[0] != pair[1]}
        hidden = any((listed is None) != (sent is None) for listed, sent in pairs.values())
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


@attrs.frozen
class CreatedRoute:
    """Evidence of a created route: a new route with the same image."""

    routes: Routes
    write: CreateRoute
    before: frozenset[int]

    async def search(self) -> Reconciliation:
        wanted = Image.from_route(self.write.draft)
        near: list[Route] = []
        async for route in self.routes.list(sweep=True):
            if route.index in self.before:
                continue
            likeness = Image.from_route(route).likeness(wanted)
            if likeness.whole:
                return Applied(route)
            # A service may spell one word differently.
            if likeness.same_voyage or likeness.respelt:
                near.append(route)
        return StillUnknown(tuple(near)) if near else NotApplied()


@attrs.frozen
class UpdatedRoute:
    """Evidence of an updated route: it agrees with the new image, with the old one, or with neither."""

    routes: Routes
    new: Route
    old: Route | None

    async def search(self) -> Reconciliation:
        async for route in self.routes.list(sweep=True):
            if route.index == self.new.index:
                return self._conclude(route)
        return StillUnknown()

    def _conclude(self, route: Route) -> Reconciliation:
        listed = Image.from_route(route)
        new = listed.likeness(Image.from_route(self.new))
        if new.whole:
            return Applied(route)
        # If fields are missing, the image of another client may look like the new one.
        if new.agrees or self.old is None:
            return StillUnknown((route,))
        # An old image with missing fields, from a route that was never read completely, agrees with too much.
        old = listed.likeness(Image.from_route(self.old))
        if old.whole:
            return NotApplied()
        return StillUnknown((route,)) if old.agrees else Conflict(route)
