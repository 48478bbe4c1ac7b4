"""Unsteady fields: they come and go from reply to reply, because two releases of the service share one address.

The releases differ, not the request. Once a field has come and gone several times within hours, it is unsteady: if a
reply lacks it, its last value is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from freight_exchange.feed.core.changes.diff import FIELDS
from freight_exchange.models import RateRequest

__all__ = ["UnsteadyFields", "with_unsteady"]

_FLIPS: Final = 3
"""Flips of a field until it counts as unsteady. At a flip it appears or disappears, and nothing else changes."""

_WITHIN: Final = 6 * 3600.0
"""Seconds for which a flip counts; a field that is unsteady by then stays so."""

_FEW: Final = 3
_NONE: Final = frozenset[str]()

_MOST: Final = 10_000
"""Limit of unsteady fields in memory; a dropped one is detected again."""


class UnsteadyFields:
    """The unsteady fields of each request, as detected since the process began."""

    def __init__(self) -> None:
        self._flips: dict[tuple[int | None, str], tuple[int, float]] = {}
        self._fields: dict[int, frozenset[str]] = {}
        self._common = _NONE

    @property
    def common(self) -> frozenset[str]:
        """Undocumented fields that are unsteady in all requests."""
        return self._common

    def fields_of(self, index: int) -> frozenset[str]:
        """Return the unsteady fields of a request. An undocumented field that is unsteady in a few counts for all."""
        return self._fields.get(index, _NONE) | self._common

    def record(self, flips: Iterable[tuple[int | None, str]], now: float) -> None:
        """Record flips, as pairs of request and field.

        The index `None` means that the field appeared or disappeared in nearly all requests at once.
        """
        if len(self._flips) > _MOST:
            self._flips.clear()
            self._fields.clear()
            self._common = _NONE
        for index, name in flips:
            count, last = self._flips.get((index, name), (0, now))
            count = count + 1 if now - last <= _WITHIN else 1
            self._flips[index, name] = count, now
            if count >= _FLIPS and index is None:
                self._common |= {name}.difference(FIELDS)
            elif count >= _FLIPS and index is not None:
                self._fields[index] = self._fields.get(index, _NONE) | {name}
                if name not in FIELDS and sum(name in fields for fields in self._fields.values()) >= _FEW:
                    self._common |= {name}


def with_unsteady(record: RateRequest, previous: RateRequest, unsteady: frozenset[str]) -> RateRequest:
    """Return the record with the previous values of the unsteady fields that it lacks."""
    lacking = {name: getattr(previous, name) for name in FIELDS if name in unsteady and getattr(record, name) is None}
    kept = {key: previous.extra[key] for key in unsteady if key in previous.extra and key not in record.extra}
    if kept:
        lacking["extra"] = {**record.extra, **kept}
    return attrs.evolve(record, **lacking) if lacking else record
