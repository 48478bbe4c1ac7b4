"""Versions of the records in the ledgers.

A record is written only over the version that its writer has read, so nothing that was recorded meanwhile is lost. A
version is a state and the time at which it was reached; a change that leaves both is no new version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from freight_exchange.store.work import Effect, Work

__all__ = ["is_version", "put_version"]


class _Record(Protocol):
    @property
    def state(self) -> str: ...

    @property
    def at(self) -> float: ...

    def to_effect(self) -> Effect: ...


def is_version(stored: _Record | None, record: _Record) -> bool:
    """Return whether the stored record is still the version that was read."""
    return stored is not None and (stored.state, stored.at) == (record.state, record.at)


def put_version(store: Work, record: _Record, *, replaces: _Record | None) -> bool:
    """Write a record in place of the version that was read, and return whether it was written.

    The state alone does not tell versions apart: an offer in doubt may have been resolved, sent again, and be in doubt
    once more. What was found out about the first send then says nothing about the second one.

    Args:
        store: The store.
        record: The record.
        replaces: The version that must still be stored; `None` if there must be none.
    """
    if replaces is None:
        return store.put_effect(record.to_effect(), expected_state=None)
    return store.put_effect(record.to_effect(), expected_state=replaces.state, expected_at=replaces.at)
