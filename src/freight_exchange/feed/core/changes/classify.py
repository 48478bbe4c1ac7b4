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
from freight_exchange.feed.core.changes.diff import differences
from freight_exchange.feed.core.changes.observation import Observation, Schema
from freight_exchange.feed.core.changes.page_states import RequestOnPage, requests_on_page
from freight_exchange.feed.core.changes.schema_drift import Change, is_only_schema_change, schema_change
from freight_exchange.feed.core.first_scan import BASELINE, UNDECIDED
from freight_exchange.feed.events import Event, RequestEvent, RequestKind, SchemaChanged, Unreadable
from freight_exchange.feed.serialization import load_request, pack
from freight_exchange.models import RateRequest
from freight_exchange.store import snapshots
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
    requests = requests_on_page(records, known, observation)
    schema, schema_event = _schema_change(requests, known, observation)
    tracked: list[TrackedRequest] = []
    events: list[NewEvent] = []
    if schema_event is not None:
        events.append(_new_event(_schema_key(schema_event, observation), None, schema_event))
    changed: set[int] = set()
    excused: set[int] = set()
    for index, request in requests.items():
        before = request.before
        reported: Iterable[RequestEvent] = ()
        if before is None or _counts_as_unseen(request, before, observation):
            if not observation.is_silent:
                reported = _events_of("new", None, request.states, observation)
        elif request.changes:
            differing = [change for change in request.changes if _is_difference(change, observation)]
            real = [change for change in differing if not is_only_schema_change(change, before, schema, observation)]
            if len(real) < len(differing):
                excused.add(index)
            previous = request.changes[0].previous
            reported = _events_of("updated", previous, [change.record for change in real], observation)
        elif before.digest != request.digest:
            last = None if before.record is None else load_request(before.record)
            reported = _events_of("updated", last, request.states, observation, returned=not before.digest)
        version, record = (observation.version if before is None else before.version), request.states[-1]
        for event in reported:
            version, record = max(version, BASELINE) + 1, event.request
            events.append(_new_event(f"{index}:{version}", index, event))
            changed.add(index)
        tracked.append(_tracked(request, record, version, observation))
    for error in broken:
        listed = wire.index_of_raw(error.raw)
        row = None if listed is None or listed in requests else known.get(listed)
        if row is not None:
            tracked.append(attrs.evolve(row, last_seen=observation.sent, last_scan=observation.scan, missed_scans=0))
        unreadable = Unreadable(index=listed, raw=error.raw, error=str(error), observed=observation.between[1])
        events.append(_new_event(f"unreadable:{_digest_of_raw(error.raw)}", listed, unreadable))
    flips: set[tuple[int | None, str]] = {
        (index, name) for index, request in requests.items() for name in request.flipped_fields
    }
    if schema_event is not None:
        flips.update((None, name) for name in schema.fields)
    return Classification(tracked, events, frozenset(changed), schema, frozenset(excused), frozenset(flips))


def withdrawal(
    before: TrackedRequest, between: tuple[datetime | None, datetime], at: float
) -> tuple[TrackedRequest, NewEvent | None]:
    """Return the tracked state of a request after its withdrawal, and the event, if its last content is known."""
    after = attrs.evolve(before, digest=b"", version=max(before.version, BASELINE) + 1, last_seen=at, missed_scans=0)
    if before.record is None or not before.digest:
        return after, None
    request = load_request(before.record)
    event = RequestEvent(kind="withdrawn", request=request, previous=request, observed_between=between)
    return after, _new_event(f"{before.index}:{after.version}", before.index, event)


def _new_event(key: str, index: int | None, event: Event) -> NewEvent:
    return NewEvent(key=key, index=index, kind=event.kind, payload=pack(event))


def _schema_change(
    requests: Mapping[int, RequestOnPage], known: Mapping[int, TrackedRequest], observation: Observation
) -> tuple[Schema, SchemaChanged | None]:
    now = {index: request.states[-1] for index, request in requests.items()}
    last = {index: request.changes[-1] for index, request in requests.items() if request.changes}
    # An unsteady field is not a change of the schema: another release of the service shows it.
    steady = {index: change for index, change in last.items() if not change.is_only_of(observation.unsteady_extras)}
    return schema_change(now, steady, known, observation)


def _schema_key(event: SchemaChanged, observation: Observation) -> str:
    fields = ",".join((*event.added, "", *event.removed))
    return f"schema:{observation.scan}:{hashlib.blake2b(fields.encode(), digest_size=8).hexdigest()}"


def _is_difference(change: Change, observation: Observation) -> bool:
    # A change without fields means that another version of this package wrote the digest.
    return bool(change.fields) and not change.is_only_of(observation.unsteady_extras)


def _counts_as_unseen(request: RequestOnPage, before: TrackedRequest, observation: Observation) -> bool:
    if before.version > BASELINE:
        return False
    if before.version == UNDECIDED and before.first_seen > observation.undecided_since:
        return True
    return observation.baseline_is_new or (observation.changed_is_new and before.digest != request.digest)


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


def _tracked(request: RequestOnPage, record: RateRequest, version: int, observation: Observation) -> TrackedRequest:
    """Return the new tracked state of a request.

    If its only difference is that fields appeared or disappeared, the watermark does not date the update: only the
    windows that list the request do.
    """
    before, digest = request.before, request.digest
    proven = observation.start_for(record.index)
    if not request.flipped_fields and _is_recent(before, record, digest, observation):
        proven = max(proven, observation.covered)
    same = before is not None and before.digest == digest and before.record is not None
    return TrackedRequest(
        index=record.index,
        digest=digest,
        record=before.record if before is not None and same else snapshots.dump_record(record),
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
    return bool(differences(load_request(before.record), record))


def _digest_of_raw(raw: object) -> str:
    text = json.dumps(raw, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
