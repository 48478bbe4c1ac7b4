"""Merging of updates of one request that wait for the same handler. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from freight_exchange.feed.core.changes.diff import differences
from freight_exchange.feed.events import RequestEvent

__all__ = ["merge_updates"]


def merge_updates(updates: Sequence[RequestEvent]) -> RequestEvent:
    """Merge updates into one, from the first one's previous request to the last one's request."""
    first, last = updates[0], updates[-1]
    # `differing` includes changes of updates that the handler's filter excluded. `changed` includes changes that were
    # reversed later, which an earlier attempt may have seen.
    differing = () if first.previous is None else differences(first.previous, last.request)
    changed = (name for update in updates for name in update.changed)
    return attrs.evolve(
        last,
        previous=first.previous,
        changed=tuple(dict.fromkeys((*differing, *changed))),
        observed_between=(first.observed_between[0], last.observed_between[1]),
    )
