"""Versions of the records in the ledgers: one is written only over the version that its writer has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from freight_exchange.store.work import Effect, Work

__all__ = ["put_version"]


class _Record(Protocol):
    @property
    def state(self) -> str: ...

    @property
    def at(self) -> float: ...

    def to_effect(self) -> Effect: ...


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
