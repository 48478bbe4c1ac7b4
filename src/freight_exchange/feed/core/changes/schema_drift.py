"""Detection of schema changes: a field that nearly all requests gain or lose is not an update of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs

from freight_exchange.feed.core.changes.diff import FIELDS, differences, present
from freight_exchange.feed.core.changes.observation import Observation, Schema
from freight_exchange.feed.events import SchemaChanged
from freight_exchange.models import RateRequest
from freight_exchange.store.protocol import TrackedRequest

__all__ = ["Change", "is_only_schema_change", "schema_change"]

_FEW: Final = 3
_SEVERAL: Final = 6
"""Minimum number of requests that must gain or lose a documented field: a few shippers may do the same by chance."""
_NEARLY_ALL: Final = 0.8
_MAX_EXTRAS: Final = 500

_NONE: Final = frozenset[str]()


@attrs.frozen
class Change:
    """A known request that differs from its last state.

    Attributes:
        previous: The last state.
        record: The present state.
        fields: The fields that differ.
        had, has: The fields that the last state had, and those that the present one has.
    """

    previous: RateRequest
    record: RateRequest
    fields: tuple[str, ...]
    had: frozenset[str]
    has: frozenset[str]

    @classmethod
    def of(cls, previous: RateRequest, record: RateRequest) -> Change:
        return cls(previous, record, differences(previous, record), present(previous), present(record))

    def is_only_of(self, fields: frozenset[str]) -> bool:
        """Return whether the only difference is the presence of these fields."""
        return bool(fields) and fields & (self.had ^ self.has) >= {*self.fields}

    @property
    def flipped_fields(self) -> frozenset[str]:
        """The fields that appeared or disappeared, if nothing else changed."""
        flipped = self.had ^ self.has
        return flipped if self.is_only_of(flipped) else _NONE


@attrs.frozen
class _Turn:
    """Fields that a known request gained and lost, as far as the service may have changed that.

    Attributes:
        index: The request.
        had: All fields that it had.
        gained, lost: The fields in question.
    """

    index: int
    had: frozenset[str]
    gained: frozenset[str]
    lost: frozenset[str]


def schema_change(
    now: Mapping[int, RateRequest],
    changed: Mapping[int, Change],
    known: Mapping[int, TrackedRequest],
    observation: Observation,
) -> tuple[Schema, SchemaChanged | None]:
    """Find a change of the schema: nearly all known requests of the page gained or lost the same field.

    Requests that were surely updated do not count. If an update is possible, only changes count that no shipper can
    make: an undocumented field that no request had before, or that none has now.
    """
    before = observation.schema
    extras = before.extras.union(*(record.extra for record in now.values() if record.extra))
    schema = attrs.evolve(before, extras=extras if len(extras) <= _MAX_EXTRAS else before.extras)
    if len(changed) < _FEW:
        return schema, None
    afters = _NONE.union(*(present(record) for record in now.values()))
    befores = _NONE.union(*(change.had for change in changed.values()))
    doubtful = ((afters - befores - before.extras) | (befores - afters)).difference(FIELDS)
    turns: list[_Turn] = []
    common = 0
    for index in now.keys() & known.keys():
        services = _excusable(known[index], observation, befores | afters, doubtful=doubtful)
        change = changed.get(index)
        is_reported = (
            known[index].last_seen < before.at and change is not None and change.is_only_of(before.fields & services)
        )
        if not services or is_reported:
            continue
        common += 1
        if change is not None:
            turns.append(
                _Turn(index, change.had, (change.has - change.had) & services, (change.had - change.has) & services)
            )
    gained = Counter(name for turn in turns for name in turn.gained)
    lost = Counter(name for turn in turns for name in turn.lost)
    if not any(count >= max(_least(name), _NEARLY_ALL * common) for name, count in (*gained.items(), *lost.items())):
        return schema, None
    having = Counter(name for turn in turns for name in turn.had)
    added = sorted(
        name for name, count in gained.items() if count >= max(_least(name), _NEARLY_ALL * (len(turns) - having[name]))
    )
    removed = sorted(name for name, count in lost.items() if count >= max(_least(name), _NEARLY_ALL * having[name]))
    fields = frozenset((*added, *removed))
    affected = sorted(turn.index for turn in turns if (turn.gained | turn.lost) & fields)
    event = SchemaChanged(
        added=tuple(added), removed=tuple(removed), requests=tuple(affected), observed=observation.between[1]
    )
    # A removed field counts as new if it comes back.
    return Schema(fields=fields, at=observation.sent, extras=schema.extras.difference(removed)), event


def _least(name: str) -> int:
    return _SEVERAL if name in FIELDS else _FEW


def is_only_schema_change(change: Change, before: TrackedRequest, schema: Schema, observation: Observation) -> bool:
    """Return whether a request differs only by the last change of the schema."""
    unseen_since = before.last_seen < schema.at or schema.at == observation.sent
    doubtful = schema.fields.difference(FIELDS)
    return unseen_since and change.is_only_of(_excusable(before, observation, schema.fields, doubtful=doubtful))


def _excusable(
    before: TrackedRequest, observation: Observation, fields: frozenset[str], *, doubtful: frozenset[str]
) -> frozenset[str]:
    """Return the fields whose presence the service may have changed, and not the shipper.

    These are all fields if the request was surely not updated since it was last seen, and none if it surely was: then
    a window that lists it begins later. In between, they are the `doubtful` ones.
    """
    if before.last_seen < observation.sent - observation.window:
        return _NONE
    if observation.recent_updates is None:
        return fields
    if observation.recent_updates.is_complete:
        if before.index not in observation.recent_updates.listed:
            return fields
        if before.last_seen < observation.sent - observation.recent_updates.window:
            return _NONE
    return fields & doubtful
