"""URLs of databases, distinguished from paths of files."""

from __future__ import annotations

from typing import TypeGuard

__all__ = ["is_database"]

_DATABASE_SCHEMES = ("postgresql://", "postgres://")


def is_database(given: object) -> TypeGuard[str]:
    """Return whether this is the URL of a database, and no path."""
    return isinstance(given, str) and given.startswith(_DATABASE_SCHEMES)
