"""Reply headers that may be shown: without secrets, and in bounds. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from freight_exchange.errors.reply_headers import NO_HEADERS, REQUEST_ID_HEADERS, ReplyHeaders
from freight_exchange.wire.excerpt import is_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from freight_exchange.transport.secrets import Redactor

__all__ = ["shown_headers"]

_MOST: Final = 32
_LONGEST: Final = 200
_READ: Final = 2000
"""Characters of a value that are read; it is masked before it is cut, since half a secret is not recognised."""

_NAME: Final = re.compile(r"[a-z0-9-]{1,40}")
_LEFT_OUT: Final = ("auth", "cookie", "csrf", "jwt", "key", "secret", "session", "xsrf")
"""Parts of names: what stands under them may let somebody in, and is left out beside tokens and passwords."""

_OF_LOGINS: Final = frozenset({*REQUEST_ID_HEADERS, "content-type", "date", "server", "via"})
"""A login's reply may hold a token that is not known yet, and so could not be masked, under any other name."""

_SHORTEST_IN_NAMES: Final = 8
"""Characters: a shorter secret may be a part of the name of a header by chance."""


def shown_headers(headers: Sequence[tuple[bytes, bytes]], redactor: Redactor, *, login: bool = False) -> ReplyHeaders:
    """The headers of a reply that may be shown; of a `login`'s only well-known ones."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if not _NAME.fullmatch(name) or name in found or is_secret(name) or any(part in name for part in _LEFT_OUT):
            continue
        if login and name not in _OF_LOGINS:
            continue
        value = raw_value.decode("latin-1")
        # A secret that the end cuts in two would not be found: a value this long is none that anybody reads.
        found[name] = " ".join(value.split()) if len(value) <= _READ else f"({len(value)} characters)"
        if len(found) == _MOST:
            break
    if not found:
        return NO_HEADERS
    # One pass over all of them: masking costs about the same for one value as for thirty.
    values = redactor.masked("\n".join(found.values())).split("\n")
    names = redactor.masked("\n".join(found), shortest=_SHORTEST_IN_NAMES).split("\n")
    if len(values) != len(found) or len(names) != len(found):
        return NO_HEADERS
    return ReplyHeaders(
        {
            name: value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
            for name, masked, value in zip(found, names, values, strict=True)
            if name == masked
        }
    )
