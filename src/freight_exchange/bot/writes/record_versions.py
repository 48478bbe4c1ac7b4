"""Versions of the records in the ledgers.

A record is written only if the stored version is the one that was read, so no other change is lost. A version is a
state and its time. A change that keeps both does not make a new version.
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

    The state alone does not identify a version: an offer in doubt may have been resolved, sent again, and be in doubt
    once more. A result for the first send is then not valid for the second.

    Args:
        store: The store.
        record: The record.
        replaces: The version that must still be stored; `None` if there must be none.
    """
    if replaces is None:
        return store.put_effect(record.to_effect(), expected_state=None)
    return store.put_effect(record.to_effect(), expected_state=replaces.state, expected_at=replaces.at)
