"""Addresses of databases, distinguished from paths of files."""

from __future__ import annotations

import re
from typing import Final, TypeGuard, TypeVar

T = TypeVar("T")

_URL: Final = re.compile(
    r"(?!\s*file:)(.*?[a-z][a-z0-9+.-]+://|[\s\"']*(postgres(ql)?//|(postgres|pg|jdbc|odbc)\w*:))",
    re.IGNORECASE | re.DOTALL,
)
"""URL of any kind. Misspelled or quoted ones, and those of other databases, are refused without their password."""
_NO_SCHEME: Final = re.compile(
    r"(?!\s*(file:|[a-z]:[\\/]))[\s\"']*(//)?([^/\s]*:.*@|[^/\\.~\s\"'].*@[^/]+:\d)", re.IGNORECASE | re.DOTALL
)
"""URL without its scheme, such as `bots:PASSWORD@db.internal/freight` or `bots/PASSWORD@db.internal:5432/freight`. A
path begins with a drive at most."""
_CREDENTIAL: Final = re.compile(
    r"(?!\s*file:).*[?&;,\s({](password|passwd|pwd|user|username|uid)\s*=", re.IGNORECASE | re.DOTALL
)
"""Login at any place but the first, such as in `db.internal/freight?user=bots&password=PASSWORD`."""
_KEYWORDS: Final = re.compile(
    r"[\s\"']*(\w[\w ]*=(.*[\s;\"'])?)?"
    r"(host|hostaddr|port|dbname|database|initial catalog|server|data ?source|service|sslmode|ssl mode"
    r"|user|user ?name|user ?id|uid|\w*password|pwd|passfile)\s*=",
    re.IGNORECASE | re.DOTALL,
)
"""Connection string of libpq, such as `host=db.internal dbname=freight`, or of another driver, such as
`Host=db.internal;Username=bots`, which is refused. It may contain the password."""


def is_database(value: object) -> TypeGuard[str]:
    """Return whether a value is the URL or connection string of a database, and not a path."""
    return isinstance(value, str) and any(kind.match(value) for kind in (_URL, _NO_SCHEME, _CREDENTIAL, _KEYWORDS))


class DatabaseAddress(str):
    """Address of a database, whose `repr` hides it: a traceback with locals would show the password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'postgresql://...'"


def masked(value: T) -> T | DatabaseAddress:
    """Return the address of a database with a `repr` that hides it, and anything else as it is."""
    return DatabaseAddress(value) if is_database(value) else value
