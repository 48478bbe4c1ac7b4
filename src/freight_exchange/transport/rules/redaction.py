"""Redaction of errors and reply headers, before a caller, a log or a hook receives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import DecodeError
from freight_exchange.platform.reply_headers import NO_HEADERS, REQUEST_ID_HEADERS, ReplyHeaders
from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.secrets import wire_names
from freight_exchange.wire.excerpt import CUT, LONGEST, MASK, is_secret

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.transport.message import Request, Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["describe", "redact_decode_error", "reply_headers"]

_QUOTED: Final = re.compile(r"(?<!\S)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
"""Quotation of a reply in a message of this package, as `repr` writes it."""
_MIN_IN_PROSE: Final = 12
"""Minimum length of a secret to mask in this package's own words: a shorter one may be one of these words."""
_MAX_POSITION: Final = 6
"""Digits of a position in a list."""

_MAX_HEADERS: Final = 32
_MAX_VALUE: Final = 200
_MAX_READ: Final = 2000
"""Longest value to mask and show. A value is masked before it is cut, since half a secret is not recognised."""

_HEADER_NAME: Final = re.compile(r"[a-z0-9-]{1,40}")
_SECRET_PARTS: Final = ("auth", "cookie", "csrf", "jwt", "key", "secret", "session", "xsrf")
"""Parts of header names. Such headers may grant access, and are left out like tokens and passwords."""

_LOGIN_HEADERS: Final = frozenset({*REQUEST_ID_HEADERS, "content-type", "date", "server", "via"})
"""Headers to show of a login's reply. Any other header may contain a token that is not known yet."""

_MIN_IN_NAMES: Final = 8
"""Minimum length of a secret to search for in header names: a shorter one may be a part of a name by chance."""


def describe(
    error: FreightExchangeError, request: Request, redactor: Redactor, response: Response | None = None
) -> None:
    """Complete an error with the circumstances of its call and a masked excerpt of the reply."""
    error.method = request.method
    error.call_id = request.call_id
    if isinstance(error, DecodeError):
        error.request_path = request.path
        redact_decode_error(error, redactor)
    else:
        error.path = request.path
    error.attempts = request.progress.sends
    error.token_refused = request.progress.replays > 0
    error.elapsed = anyio.current_time() - request.context.started
    if response is not None:
        error.status = response.status
        is_login = request.kind is RequestKind.LOGIN
        error.headers = reply_headers(response.headers, redactor, login=is_login)
        # The reply to a login contains a token that is not known yet, and cannot be masked.
        if error.body is None and not is_login:
            error.body = redactor.excerpt(response.content)


def reply_headers(headers: Sequence[tuple[bytes, bytes]], redactor: Redactor, *, login: bool = False) -> ReplyHeaders:
    """Return the headers that may be shown, masked and shortened; for a `login`, only well-known ones."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if not _HEADER_NAME.fullmatch(name) or name in found:
            continue
        if is_secret(name) or any(part in name for part in _SECRET_PARTS):
            continue
        if login and name not in _LOGIN_HEADERS:
            continue
        value = raw_value.decode("latin-1")
        # A longer value is not shown: a secret at the cut would not be found.
        found[name] = " ".join(value.split()) if len(value) <= _MAX_READ else f"({len(value)} characters)"
        if len(found) == _MAX_HEADERS:
            break
    if not found:
        return NO_HEADERS
    # Masked in one pass, as masking costs about the same for one value as for thirty.
    values = redactor.masked("\n".join(found.values())).split("\n")
    names = redactor.masked("\n".join(found), shortest=_MIN_IN_NAMES).split("\n")
    if len(values) != len(found) or len(names) != len(found):
        return NO_HEADERS
    return ReplyHeaders(
        {
            name: value if len(value) <= _MAX_VALUE else f"{value[:_MAX_VALUE]}..."
            for name, masked, value in zip(found, names, values, strict=True)
            if name == masked
        }
    )


def redact_decode_error(error: DecodeError, redactor: Redactor) -> None:
    """Mask secrets in the quotations of a decoder's error."""
    error.args = (_sentence(error.message, redactor),)
    error.path = _path(error.path, redactor)
    error.raw = redactor.value(error.raw)


def _sentence(sentence: str, redactor: Redactor) -> str:
    if len(sentence) > LONGEST:
        return redactor.text(sentence)
    quoting = _QUOTED.sub(lambda found: _quotation(found.group(), redactor), sentence)
    return redactor.masked(quoting, shortest=_MIN_IN_PROSE)


def _quotation(quoted: str, redactor: Redactor) -> str:
    mark, words = quoted[0], quoted[1:-1]
    if words in wire_names():
        return quoted
    if words.endswith(CUT):
        whole = words.removesuffix(CUT)
        beginning = redactor.without_half(whole)
        words = f"{beginning}{MASK if beginning != whole else ''}{CUT}"
    return f"{mark}{redactor.masked(words)}{mark}"


def _path(path: str, redactor: Redactor) -> str:
    """Mask the steps of a path that are not names of the wire: they come from the reply."""
    if len(path) > LONGEST:
        return redactor.text(path)
    steps = path.split(".")
    start, end = 0, len(steps)
    while start < end and _is_own_step(steps[start]):
        start += 1
    while end > start and _is_own_step(steps[end - 1]):
        end -= 1
    if start == end:
        return path
    # As one text, since a token may contain points.
    return ".".join((*steps[:start], redactor.masked(".".join(steps[start:end])), *steps[end:]))


def _is_own_step(step: str) -> bool:
    return step in wire_names() or step in ("$", "") or (len(step) <= _MAX_POSITION and step.isdecimal())
