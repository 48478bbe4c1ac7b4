"""Addresses of databases, distinguished from paths of files."""

from __future__ import annotations

import re
from typing import Final, TypeGuard, TypeVar

T = TypeVar("T")

_ADDRESS: Final = re.compile(
    r"(?!/(?!/)|[.~\\]|\s*file:|[a-z]:[\\/])(.*(://|[@=])|[\s\"']*(postgres(ql)?//|(postgres|pg|jdbc|odbc)\w*:))",
    re.IGNORECASE | re.DOTALL,
)
"""Any text that may be an address and hold a password, also a misspelled one, or one of another driver. A path that has
one of the marks begins with a slash, a drive, a dot or `~`."""


def is_database(value: object) -> TypeGuard[str]:
    """Return whether a value is the URL or connection string of a database, and not a path."""
    return isinstance(value, str) and _ADDRESS.match(value) is not None


class DatabaseAddress(str):
    """Address of a database, whose `repr` hides it: a traceback with locals would show the password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'postgresql://...'"


def masked(value: T) -> T | DatabaseAddress:
    """Return the address of a database with a `repr` that hides it, and anything else as it is."""
    return DatabaseAddress(value) if is_database(value) else value
