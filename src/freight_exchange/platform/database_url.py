"""Addresses of databases, distinguished from paths of files."""

from __future__ import annotations

import re
from typing import Final, TypeGuard, TypeVar

__all__ = ["DatabaseAddress", "is_database", "masked"]

T = TypeVar("T")

_URL: Final = re.compile(
    r"(?!\s*file:)(.*?[a-z][a-z0-9+.-]+://|[\s\"']*postgres(ql)?(:|//))", re.IGNORECASE | re.DOTALL
)
"""URL of any kind. Misspelled or quoted ones, and those of other databases, are refused without their password."""
_KEYWORDS: Final = re.compile(
    r"\s*(\w+\s*=.*\s)?(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=", re.DOTALL
)
"""Connection string of libpq, such as `host=db.internal dbname=freight`. It may contain the password."""


def is_database(value: object) -> TypeGuard[str]:
    """Return whether a value is the URL or connection string of a database, and not a path."""
    return isinstance(value, str) and any(address.match(value) for address in (_URL, _KEYWORDS))


class DatabaseAddress(str):
    """Address of a database, whose `repr` hides it: a traceback with locals would show the password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'postgresql://...'"


def masked(value: T) -> T | DatabaseAddress:
    """Return the address of a database with a `repr` that hides it, and anything else as it is."""
    return DatabaseAddress(value) if is_database(value) else value
