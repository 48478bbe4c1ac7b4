"""States of the requests on a page, compared with the last known ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from freight_exchange.feed.core.changes.diff import DIGEST, differences, digest, present
from freight_exchange.feed.core.changes.observation import Observation
from freight_exchange.feed.core.changes.schema_drift import Change
from freight_exchange.feed.core.changes.unsteady_fields import with_unsteady
from freight_exchange.feed.serialization import load_request
from freight_exchange.models import RateRequest
from freight_exchange.store.protocol import TrackedRequest

__all__ = ["RequestOnPage", "requests_on_page"]


@attrs.frozen
class RequestOnPage:
    """Request that a page lists, perhaps in several states, which is an error of the service.

    Attributes:
        before: Its last known state.
        states: The states that were not known before; if there are none, the one that counts as the present state.
        digest: Digests of all its states on the page.
        changes: The differences of `states` from the last known one. Empty if there are none, and if there is nothing
            to compare: the request is new, was withdrawn, or its record is not known.
    """

    before: TrackedRequest | None
    states: Sequence[RateRequest]
    digest: bytes
    changes: Sequence[Change]

    @classmethod
    def of(cls, states: Mapping[bytes, RateRequest], before: TrackedRequest | None) -> RequestOnPage:
        """Compare the states on a page, by their digests, with the last known one."""
        # The page does not tell the order of several states: all new ones are reported.
        new, of_all = _new_states(states, before), b"".join(sorted(states))
        changes: Sequence[Change] = ()
        if before is not None and before.record is not None and before.digest not in (b"", of_all):
            previous = load_request(before.record)
            changes = [Change.of(previous, record) for record in new]
        return cls(before, new, of_all, changes)

    @property
    def flipped_fields(self) -> frozenset[str]:
        """The fields that appeared or disappeared, if nothing else changed."""
        return frozenset(name for change in self.changes for name in change.flipped_fields)


def requests_on_page(
    records: Iterable[RateRequest], known: Mapping[int, TrackedRequest], observation: Observation
) -> dict[int, RequestOnPage]:
    """Return the requests on a page, by index."""
    states: dict[int, dict[bytes, RateRequest]] = {}
    for record in records:
        steady = _with_steady_fields(record, known.get(record.index), observation)
        states.setdefault(steady.index, {}).setdefault(digest(steady), steady)
    return {index: RequestOnPage.of(several, known.get(index)) for index, several in states.items()}


def _with_steady_fields(record: RateRequest, before: TrackedRequest | None, observation: Observation) -> RateRequest:
    """Return the record with the fields that an older release of the service may have omitted."""
    unsteady = observation.unsteady(record.index)
    if before is None or before.record is None or not unsteady - present(record):
        return record
    return with_unsteady(record, load_request(before.record), unsteady)


def _new_states(states: Mapping[bytes, RateRequest], before: TrackedRequest | None) -> Sequence[RateRequest]:
    several = tuple(states.values())
    if len(several) == 1 or before is None:
        return several
    digests = {before.digest[start : start + DIGEST] for start in range(0, len(before.digest), DIGEST)}
    new = [several[at] for at, state in enumerate(states) if state not in digests]
    if new or before.record is None:
        return new or several[-1:]
    known = load_request(before.record)
    # Fewer states than before: the one reported last stays the present state while the page still shows it.
    return [next((record for record in several if not differences(known, record)), several[-1])]
