"""Errors of a store that are told apart."""

from __future__ import annotations

from freight_exchange.errors import FencedError, HeldError, StoreError


class ConflictError(StoreError):
    """A write met writes of other replicas again and again. Nothing was written; the call may be repeated."""


class StoreRefusedError(StoreError):
    """The database refuses the login, or this user lacks a right. This may pass. Nothing was written."""


class LockedError(HeldError):
    """Another program keeps the file locked. Nothing was written."""


class RestoredError(FencedError):
    """The database lacks commits of this replica. Join again, and read the account's bids before any offer."""
