"""Classification of the requests on a page: new, updated, changed by the service's schema only, or unchanged. Pure.

A request is compared with its last state only. A change that is undone later makes two events.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import attrs

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.feed.core.changes.diff import DIGEST, differences, digest, present
from freight_exchange.feed.core.changes.observation import Observation, Schema
from freight_exchange.feed.core.changes.schema_drift import Change, is_only_schema_change, schema_change
from freight_exchange.feed.core.changes.unsteady_fields import with_unsteady
from freight_exchange.feed.core.first_scan import BASELINE, UNDECIDED
from freight_exchange.feed.events import Event, RequestEvent, RequestKind, Unreadable
from freight_exchange.feed.serialization import pack, recall
from freight_exchange.models import RateRequest
from freight_exchange.store.protocol import NewEvent, TrackedRequest

__all__ = ["Classification", "classify", "withdrawal"]


@attrs.frozen
class Classification:
    """Classification of a page.

    Attributes:
        tracked: The new state of the requests on it.
        events: New events.
        changed: The indexes of requests that are new or updated.
        schema: The last known change of the schema.
        excused: The indexes of requests with a difference that is only a change of the schema.
        flips: Pairs of index and field, for each request whose only difference is that fields appeared or disappeared.
            A field of a schema change has the index `None`.
    """

    tracked: Sequence[TrackedRequest]
    events: Sequence[NewEvent]
    changed: frozenset[int]
    schema: Schema
    excused: frozenset[int]
    flips: frozenset[tuple[int | None, str]] = frozenset()


def classify(
    records: Sequence[RateRequest],
    broken: Iterable[DecodeError],
    known: Mapping[int, TrackedRequest],
    observation: Observation,
) -> Classification:
    """Classify the records and the unreadable rows of a page, by the known state of their requests."""
    states = _states(_with_steady_fields(record, known.get(record.index), observation) for record in records)
    digests = {index: b"".join(sorted(several)) for index, several in states.items()}
    # A page that shows a request in several states does not tell their order: all new states are reported.
    fresh = {index: _new_states(several, known.get(index)) for index, several in states.items()}
    changes = {
        index: [Change.of(recall(before.record), record) for record in fresh[index]]
        for index, before in known.items()
        if index in digests and before.digest != digests[index] and before.record is not None and before.digest
    }
    now = {index: several[-1] for index, several in fresh.items()}
    last = {index: several[-1] for index, several in changes.items()}
    # An unsteady field is no change of the schema: another release of the service shows it.
    steady = {index: change for index, change in last.items() if not change.is_only_of(observation.unsteady_extras)}
    schema, event = schema_change(now, steady, known, observation)
    tracked: list[TrackedRequest] = []
    events: list[tuple[str, int | None, Event]] = []
    if event is not None:
        fields = ",".join((*event.added, "", *event.removed))
        of_fields = hashlib.blake2b(fields.encode(), digest_size=8).hexdigest()
        events.append((f"schema:{observation.scan}:{of_fields}", None, event))
    changed: set[int] = set()
    excused: set[int] = set()
    for index, several in fresh.items():
        before = known.get(index)
        version, record = (observation.version if before is None else before.version), several[-1]
        reported: Iterable[RequestEvent]
        if before is None or _counts_as_unseen(before, observation):
            reported = () if observation.is_silent else _events_of("new", None, several, observation)
        elif before.digest == digests[index]:
            reported = ()
        elif index not in changes:
            previous = None if before.record is None else recall(before.record)
            reported = _events_of("updated", previous, several, observation, returned=not before.digest)
        else:
            # A change without fields means that another version of this package wrote the digest.
            differing = [change for change in changes[index] if change.fields]
            differing = [change for change in differing if not change.is_only_of(observation.unsteady_extras)]
            real = [change for change in differing if not is_only_schema_change(change, before, schema, observation)]
            if len(real) < len(differing):
                excused.add(index)
            reported = _events_of(
                "updated", changes[index][0].previous, [change.record for change in real], observation
            )
        for event_of_it in reported:
            version, record = max(version, BASELINE) + 1, event_of_it.request
            events.append((f"{index}:{version}", index, event_of_it))
            changed.add(index)
        turn = index in changes and any(_flipped_fields(change) for change in changes[index])
        tracked.append(_tracked(record, digests[index], version, before, observation, turn=turn))
    for error in broken:
        raw, index_of_it = error.raw, wire.index_of_raw(error.raw)
        before = None if index_of_it is None else known.get(index_of_it)
        if before is not None and index_of_it not in now:
            tracked.append(attrs.evolve(before, last_seen=observation.sent, last_scan=observation.scan, missed_scans=0))
        unreadable = Unreadable(index=index_of_it, raw=raw, error=str(error), observed=observation.between[1])
        events.append((f"unreadable:{_digest_of_raw(raw)}", index_of_it, unreadable))
    return Classification(
        tracked,
        [NewEvent(key=key, index=about, kind=event.kind, payload=pack(event)) for key, about, event in events],
        frozenset(changed),
        schema,
        frozenset(excused),
        frozenset((*_flips(changes), *(() if event is None else ((None, name) for name in schema.fields)))),
    )


def withdrawal(
    before: TrackedRequest, between: tuple[datetime | None, datetime], at: float
) -> tuple[TrackedRequest, NewEvent | None]:
    """Return the tracked state of a request after its withdrawal, and the event, if its last content is known."""
    after = attrs.evolve(before, digest=b"", version=max(before.version, BASELINE) + 1, last_seen=at, missed_scans=0)
    if before.record is None or not before.digest:
        return after, None
    request = recall(before.record)
    event = RequestEvent(kind="withdrawn", request=request, previous=request, observed_between=between)
    return after, NewEvent(
        key=f"{before.index}:{after.version}", index=before.index, kind=event.kind, payload=pack(event)
    )


def _counts_as_unseen(before: TrackedRequest, observation: Observation) -> bool:
    if before.version > BASELINE:
        return False
    return observation.baseline_is_new or (
        before.version == UNDECIDED and before.first_seen > observation.undecided_since
    )


def _with_steady_fields(record: RateRequest, before: TrackedRequest | None, observation: Observation) -> RateRequest:
    """Return the record with the fields that an older release of the service may have omitted."""
    unsteady = observation.unsteady(record.index)
    if before is None or before.record is None or not unsteady - present(record):
        return record
    return with_unsteady(record, recall(before.record), unsteady)


def _flips(changes: Mapping[int, Sequence[Change]]) -> Iterator[tuple[int, str]]:
    for index, several in changes.items():
        for change in several:
            yield from ((index, name) for name in _flipped_fields(change))


def _flipped_fields(change: Change) -> frozenset[str]:
    """Return the fields that appeared or disappeared, if nothing else changed."""
    flipped = change.had ^ change.has
    return flipped if change.is_only_of(flipped) else frozenset()


def _states(records: Iterable[RateRequest]) -> dict[int, dict[bytes, RateRequest]]:
    """Return the different states of each request on a page, by index; more than one is an error of the service."""
    states: dict[int, dict[bytes, RateRequest]] = {}
    for record in records:
        states.setdefault(record.index, {}).setdefault(digest(record), record)
    return states


def _new_states(states: Mapping[bytes, RateRequest], before: TrackedRequest | None) -> Sequence[RateRequest]:
    """Return the states that were not known before; if there are none, the one that counts as the present state."""
    several = tuple(states.values())
    if len(several) == 1 or before is None:
        return several
    digests = {before.digest[start : start + DIGEST] for start in range(0, len(before.digest), DIGEST)}
    fresh = [several[at] for at, state in enumerate(states) if state not in digests]
    if fresh or before.record is None:
        return fresh or several[-1:]
    known = recall(before.record)
    # Fewer states than before: the one reported last stays the present state while the page still shows it.
    return [next((record for record in several if not differences(known, record)), several[-1])]


def _events_of(
    kind: RequestKind,
    previous: RateRequest | None,
    states: Iterable[RateRequest],
    observation: Observation,
    *,
    returned: bool = False,
) -> Iterator[RequestEvent]:
    """Yield an event for each state: the first one of `kind`, the others `updated`."""
    for record in states:
        changed = () if previous is None else differences(previous, record)
        yield RequestEvent(
            kind=kind,
            request=record,
            previous=previous,
            changed=changed,
            returned=returned,
            observed_between=observation.between,
        )
        kind, previous, returned = "updated", record, False


def _tracked(
    record: RateRequest,
    digest: bytes,
    version: int,
    before: TrackedRequest | None,
    observation: Observation,
    *,
    turn: bool,
) -> TrackedRequest:
    """Return the new tracked state of a request.

    If its only difference is that fields appeared or disappeared (`turn`), the watermark does not date the update: only
    the windows that list the request do.
    """
    proven = observation.begin_for(record.index)
    if not turn and _is_recent(before, record, digest, observation):
        proven = max(proven, observation.covered)
    same = before is not None and before.digest == digest and before.record is not None
    return TrackedRequest(
        index=record.index,
        digest=digest,
        record=before.record if before is not None and same else wire.keep(record),
        version=version,
        first_seen=observation.sent if before is None else before.first_seen,
        last_seen=observation.sent,
        last_scan=observation.scan,
        updated_after=proven if before is None else max(proven, before.updated_after),
    )


def _is_recent(before: TrackedRequest | None, record: RateRequest, digest: bytes, observation: Observation) -> bool:
    """Return whether the state of a request proves an update since the watermark.

    A withdrawn request that returns unchanged proves none: the service may have hidden it for a while.
    """
    if before is None:
        return observation.unseen_is_recent
    if before.digest or before.record is None:
        return before.digest not in (b"", digest)
    return bool(differences(recall(before.record), record))


def _digest_of_raw(raw: object) -> str:
    text = json.dumps(raw, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
