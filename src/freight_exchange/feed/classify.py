"""What a page of a scan means, given what was known: new, updated, the service's own change of shape, or nothing. Pure.

A request is compared with its last state, not with all that it ever was: one that changes and changes back has changed
twice.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Context, Decimal
from itertools import pairwise
from operator import attrgetter
from typing import Final

import attrs

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.feed.events import Event, RequestEvent, SchemaChanged, Unreadable
from freight_exchange.feed.payload import pack, recall
from freight_exchange.models import RateRequest
from freight_exchange.models.enums import UnknownWord
from freight_exchange.store.protocol import NewEvent, Seen

__all__ = ["UNTOLD", "Lately", "Meaning", "Schema", "Sight", "classify", "digest", "gone"]

_DIGEST: Final = 8
"""Bytes of a digest; of a request that is shown in several states, of each."""
_FEW: Final = 3
_NEARLY_ALL: Final = 0.8
# The ambient context would round a long number, and two that differ in their last digits would be one.
_EXACT: Final = Context(prec=1000)
_FIELDS: Final = tuple(field.name for field in attrs.fields(RateRequest) if field.name != "extra")
_MOST_EXTRAS: Final = 500
_PLAIN: Final = frozenset({str, int, bool, type(None)})

_NONE: Final = frozenset[str]()

_values = attrgetter(*_FIELDS, "extra")


@attrs.frozen(kw_only=True)
class Schema:
    """What is known of the service's shape.

    Attributes:
        fields: Those of its last change.
        at: When that was noticed, on the feed's clock.
        extras: Fields beside those of the service's document that any request had since.
    """

    fields: frozenset[str] = frozenset()
    at: float = 0.0
    extras: frozenset[str] = frozenset()


@attrs.frozen
class Lately:
    """What a narrow look listed at the same time.

    Attributes:
        listed: The indexes, or `None` where no such look tells.
        window: Seconds that it looked back.
    """

    listed: frozenset[int] | None
    window: int = 0


UNTOLD: Final = Lately(None)
"""Nobody can tell what was updated lately: what differs may be an update."""


@attrs.frozen(kw_only=True)
class Sight:
    """How a page came to be seen. Times are on the feed's clock.

    Attributes:
        scan: The scan's number.
        sent: When the page was asked for.
        window: Seconds that it looked back from then.
        silent: Whether what is seen for the first time is the baseline, and no event.
        priming: Whether what was only baseline until now is handed out.
        covered: Up to when updates would have been seen before, if they would; what is seen now for the first time was
            updated later, unless it is shown late: whatever follows from that, a look-up has to confirm.
        between: When what is seen now came to be seen: after the cover, if there was one, and before the reply.
        schema: What is known of the service's shape.
        lately: What a narrow look at the same time listed; `None` before one was made, where one can be.
    """

    scan: int
    sent: float
    window: int
    silent: bool
    priming: bool
    covered: float | None
    between: tuple[datetime | None, datetime]
    schema: Schema
    lately: Lately | None = UNTOLD


@attrs.frozen
class _Change:
    """A known request that differs from what was known of it.

    Attributes:
        previous: What that was.
        fields: The fields that differ.
        had, has: The fields that it had, and those that it has.
    """

    previous: RateRequest
    fields: tuple[str, ...]
    had: frozenset[str]
    has: frozenset[str]

    @classmethod
    def of(cls, previous: RateRequest, record: RateRequest) -> _Change:
        return cls(previous, _differences(previous, record), _present(previous), _present(record))

    def is_only_of(self, fields: frozenset[str]) -> bool:
        """Whether it differs in nothing but the presence of these fields."""
        return bool(fields) and fields & (self.had ^ self.has) >= {*self.fields}


@attrs.frozen
class Meaning:
    """What a page means.

    Attributes:
        seen: What is known now of the requests on it.
        events: What is to be handed out.
        news: The indexes of requests that are new or changed.
        schema: The last change of shape that is known now.
        excused: The indexes of requests that differ, and are no news: in nothing but the service's shape.
    """

    seen: Sequence[Seen]
    events: Sequence[NewEvent]
    news: frozenset[int]
    schema: Schema
    excused: frozenset[int]


def digest(request: RateRequest) -> bytes:
    """A few bytes that are the same for the same state, however its numbers and words are written."""
    fields = [value if value.__class__ in _PLAIN else _canonical(value) for value in _values(request)]
    # Written by `repr`, which tells apart what is not equal, as fast as it can be.
    return hashlib.blake2b(repr(fields).encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def classify(
    records: Sequence[RateRequest], broken: Iterable[DecodeError], known: Mapping[int, Seen], sight: Sight
) -> Meaning:
    """What a page means: its records, what on it could not be read, and what was known of both before."""
    states = _states(records)
    digests = {index: b"".join(sorted(several)) for index, several in states.items()}
    # Which of several states is the last one nobody can tell: all that are not known already are told.
    fresh = {index: _fresh(several, known.get(index)) for index, several in states.items()}
    now = {index: several[-1] for index, several in fresh.items()}
    changed = {
        index: _Change.of(recall(before.record), now[index])
        for index, before in known.items()
        if index in digests and before.digest != digests[index] and before.record is not None and before.digest
    }
    schema, event = _change_of_shape(now, changed, known, sight)
    seen: list[Seen] = []
    events: list[tuple[str, int | None, Event]] = []
    if event is not None:
        fields = ",".join((*event.added, "", *event.removed))
        of_fields = hashlib.blake2b(fields.encode(), digest_size=8).hexdigest()
        events.append((f"schema:{sight.scan}:{of_fields}", None, event))
    news: set[int] = set()
    excused: set[int] = set()
    for index, record in now.items():
        before = known.get(index)
        happened = _happened(record, digests[index], before, changed.get(index), schema, sight)
        version = 0 if before is None else before.version
        if happened is not None:
            news.add(index)
            for event_of_it in _in_turn(happened, fresh[index]):
                version += 1
                events.append((f"{index}:{version}", index, event_of_it))
        elif index in changed and changed[index].fields:
            excused.add(index)
        seen.append(_sighted(record, digests[index], version, before, sight))
    for error in broken:
        raw, index_of_it = error.raw, wire.index_of_raw(error.raw)
        before = None if index_of_it is None else known.get(index_of_it)
        if before is not None and index_of_it not in now:
            seen.append(attrs.evolve(before, last=sight.sent, scan=sight.scan, missing=0))
        unreadable = Unreadable(index=index_of_it, raw=raw, error=str(error), observed=sight.between[1])
        events.append((f"unreadable:{_digest_of_raw(raw)}", index_of_it, unreadable))
    return Meaning(
        seen,
        [NewEvent(key=key, index=about, kind=event.kind, payload=pack(event)) for key, about, event in events],
        frozenset(news),
        schema,
        frozenset(excused),
    )


def gone(before: Seen, between: tuple[datetime | None, datetime], at: float) -> tuple[Seen, NewEvent | None]:
    """What is known of a request after it was found to be withdrawn, and the event, unless nothing is left to tell."""
    after = attrs.evolve(before, digest=b"", version=before.version + 1, last=at, missing=0)
    if before.record is None or not before.digest:
        return after, None
    request = recall(before.record)
    event = RequestEvent(kind="withdrawn", request=request, previous=request, observed_between=between)
    return after, NewEvent(
        key=f"{before.index}:{after.version}", index=before.index, kind=event.kind, payload=pack(event)
    )


def _states(records: Iterable[RateRequest]) -> dict[int, dict[bytes, RateRequest]]:
    """By index, the states in which a page shows each request, as it lists them: one, unless the service errs."""
    states: dict[int, dict[bytes, RateRequest]] = {}
    for record in records:
        states.setdefault(record.index, {}).setdefault(digest(record), record)
    return states


def _fresh(states: Mapping[bytes, RateRequest], before: Seen | None) -> Sequence[RateRequest]:
    """Of several states those that were not among the last ones; there is always one."""
    several = tuple(states.values())
    if len(several) == 1 or before is None:
        return several
    shown = {before.digest[start : start + _DIGEST] for start in range(0, len(before.digest), _DIGEST)}
    fresh = [several[at] for at, state in enumerate(states) if state not in shown]
    if fresh or before.record is None:
        return fresh or several[-1:]
    known = recall(before.record)
    # Where there are fewer than there were, what was told last stays true as long as it is one of them.
    return [next((record for record in several if not _differences(known, record)), several[-1])]


def _in_turn(event: RequestEvent, states: Sequence[RateRequest]) -> Iterator[RequestEvent]:
    """The event of the last of these states, and before it those of the others."""
    if len(states) == 1:
        yield event
        return
    changed = () if event.previous is None else _differences(event.previous, states[0])
    yield attrs.evolve(event, request=states[0], changed=changed)
    for previous, record in pairwise(states):
        yield attrs.evolve(
            event, kind="updated", request=record, previous=previous, changed=_differences(previous, record)
        )


def _happened(
    record: RateRequest,
    digest: bytes,
    before: Seen | None,
    change: _Change | None,
    schema: Schema,
    sight: Sight,
) -> RequestEvent | None:
    """The event that this sight of a request makes, if any."""
    if before is None or (sight.priming and before.version == 0):
        return None if sight.silent else RequestEvent(kind="new", request=record, observed_between=sight.between)
    if before.digest == digest:
        return None
    if change is None:
        return RequestEvent(kind="updated", request=record, observed_between=sight.between)
    if not change.fields:
        # Another version of this package wrote the digest.
        return None
    unseen_since = before.last < schema.at or schema.at == sight.sent
    if unseen_since and change.is_only_of(_excusable(before, sight, schema.fields)):
        return None
    return RequestEvent(
        kind="updated",
        request=record,
        previous=change.previous,
        changed=change.fields,
        observed_between=sight.between,
    )


def _sighted(record: RateRequest, digest: bytes, version: int, before: Seen | None, sight: Sight) -> Seen:
    proven = sight.sent - sight.window
    if sight.covered is not None and (before is None or before.digest != digest):
        proven = max(proven, sight.covered)
    same = before is not None and before.digest == digest and before.record is not None
    return Seen(
        index=record.index,
        digest=digest,
        record=before.record if before is not None and same else wire.keep(record),
        version=version,
        first=sight.sent if before is None else before.first,
        last=sight.sent,
        scan=sight.scan,
        updated_after=proven if before is None else max(proven, before.updated_after),
    )


def _change_of_shape(
    now: Mapping[int, RateRequest], changed: Mapping[int, _Change], known: Mapping[int, Seen], sight: Sight
) -> tuple[Schema, SchemaChanged | None]:
    """Whether the service itself changed: nearly all known requests of the page gained or lost the same field.

    Those that their shippers have updated do not count, whatever changed in them. Of those that they may have updated
    counts only what no shipper can do: a field beside the service's document that no request had before, or that none
    has any more.
    """
    before = sight.schema
    extras = before.extras.union(*(record.extra for record in now.values() if record.extra))
    schema = attrs.evolve(before, extras=extras if len(extras) <= _MOST_EXTRAS else before.extras)
    if len(changed) < _FEW:
        return schema, None
    afters = _NONE.union(*(_present(record) for record in now.values()))
    befores = _NONE.union(*(change.had for change in changed.values()))
    doubtful = ((afters - befores - before.extras) | (befores - afters)).difference(_FIELDS)
    turns: list[tuple[int, _Change, frozenset[str], frozenset[str]]] = []
    common = 0
    for index in now.keys() & known.keys():
        excusable = _excusable(known[index], sight, befores | afters, doubtful=doubtful)
        change = changed.get(index)
        told = known[index].last < before.at and change is not None and change.is_only_of(before.fields & excusable)
        if not excusable or told:
            continue
        common += 1
        if change is not None:
            turns.append((index, change, (change.has - change.had) & excusable, (change.had - change.has) & excusable))
    gained = Counter(name for _, _, came, _ in turns for name in came)
    lost = Counter(name for _, _, _, went in turns for name in went)
    if not any(count >= max(_FEW, _NEARLY_ALL * common) for count in (*gained.values(), *lost.values())):
        return schema, None
    having = Counter(name for _, change, _, _ in turns for name in change.had)
    added = sorted(name for name, count in gained.items() if count >= _NEARLY_ALL * (len(turns) - having[name]))
    removed = sorted(name for name, count in lost.items() if count >= _NEARLY_ALL * having[name])
    fields = frozenset((*added, *removed))
    affected = sorted(index for index, _, came, went in turns if (came | went) & fields)
    event = SchemaChanged(
        added=tuple(added), removed=tuple(removed), requests=tuple(affected), observed=sight.between[1]
    )
    # What no request has any more is new again should it come back.
    return Schema(fields=fields, at=sight.sent, extras=schema.extras.difference(removed)), event


def _excusable(
    before: Seen, sight: Sight, fields: frozenset[str], *, doubtful: frozenset[str] | None = None
) -> frozenset[str]:
    """Those of these fields whose presence in a request may be the service's doing, and none of its shipper's.

    All where the request is known not to have been updated since it was last seen, and none where it is known that it
    was: a window begins only after that. Where neither is known, those that are `doubtful`.
    """
    if before.last < sight.sent - sight.window:
        return _NONE
    if sight.lately is None:
        return fields
    if sight.lately.listed is not None:
        if before.index not in sight.lately.listed:
            return fields
        if before.last < sight.sent - sight.lately.window:
            return _NONE
    return fields if doubtful is None else fields & doubtful


def _present(request: RateRequest) -> frozenset[str]:
    return frozenset((*(name for name in _FIELDS if getattr(request, name) is not None), *request.extra))


def _differences(previous: RateRequest, request: RateRequest) -> tuple[str, ...]:
    fields = (name for name in _FIELDS if getattr(previous, name) != getattr(request, name))
    unknown = sorted(
        key
        for key in previous.extra.keys() | request.extra.keys()
        if previous.extra.get(key, ...) != request.extra.get(key, ...)
    )
    return (*fields, *unknown)


def _canonical(value: object) -> object:
    """The value in a form that is the same for equal values."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Decimal | int):
        number = Decimal(value)
        return str(number.normalize(_EXACT) if number.is_finite() else number)
    if isinstance(value, UnknownWord):
        return str(value).casefold()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    raise TypeError(f"no field of a request holds a {type(value).__name__}")


def _digest_of_raw(raw: object) -> str:
    text = json.dumps(raw, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
