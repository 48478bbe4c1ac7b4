"""Masking of secrets in output, logs, errors and pickles.

Known secrets are found in all their spellings, unknown ones by the words before them, such as `password`. Text is
masked first and cut afterwards, since half a secret is not recognised.
"""

from __future__ import annotations

import http
import json
import logging
import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from freight_exchange.base import NO_HEADERS, REQUEST_ID_HEADERS, ReplyHeaders
from freight_exchange.errors import DecodeError
from freight_exchange.wire import SECRETS, names
from freight_exchange.wire.json import decoded

MASK: Final = "***"
_CUT: Final = "..."
LONGEST: Final = 8_192
"""Maximum number of characters of a reply in an error."""
_MAX_READ: Final = 65_536
"""Maximum number of characters to mask, which limits the cost."""

_PATTERNS: Final = (
    r"(?i)\b(bearer\s+|authorization\W{1,8}basic\s+)[^\s\"',;]+",
    # It starts in the middle of a key: a search for its beginning would scan a long word once for each letter.
    rf"(?i)((?:{'|'.join(SECRETS)})[\w-]{{0,40}}\\*[\"']?\s*[:=]\s*\\*[\"']?)(?!bearer\b|basic\b)[^\s\"',;&}}]+",
)


class Secret:
    """Password or token. Only `reveal()` returns it: `repr`, tracebacks and pickles do not contain it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


class Redactor:
    """Redactor of known and probable secrets in text and JSON of the service."""

    def __init__(self) -> None:
        self._fixed: set[Secret] = set()
        # A reply may be older than a token refresh, and repeat an earlier token.
        self._tokens: deque[Secret] = deque(maxlen=4)
        self._known: tuple[str, ...] | None = None

    def add(self, secret: Secret) -> None:
        self._fixed.add(secret)
        self._known = None

    def add_token(self, token: Secret) -> None:
        self._tokens.append(token)
        self._known = None

    def masked(self, text: str, *, shortest: int = 1) -> str:
        """Mask secrets in a text; known ones only if they have at least `shortest` characters."""
        for form in self._forms():
            if len(form) >= shortest:
                text = text.replace(form, MASK)
        for pattern in _PATTERNS:
            text = re.sub(pattern, rf"\1{MASK}", text)
        return text

    def text(self, text: str, size: str = "") -> str:
        masked = self.masked(text[:_MAX_READ])
        if len(text) <= LONGEST:
            return masked
        if len(text) > _MAX_READ:
            # The end may be half of a secret. If masking has made the text short, the end would be shown.
            masked = masked[: -max(map(len, self._forms()), default=0) or None]
        return f"{masked[:LONGEST]}{_CUT} ({size or f'{len(text)} characters'})"

    def excerpt(self, content: bytes) -> str:
        return self.text(decoded(content[: 4 * _MAX_READ]), f"{len(content)} bytes")

    def value(self, value: object) -> object:
        """Copy the beginning of a JSON value, with secrets masked in every string and key."""
        room = LONGEST

        def take(value: object) -> object:
            nonlocal room
            room -= 1
            if isinstance(value, str):
                masked = self.text(value)
                room -= len(masked)
                return masked
            if isinstance(value, Mapping):
                taken: dict[str, object] = {}
                for key, item in value.items():
                    if room <= 0:
                        return {**taken, _CUT: _CUT}
                    room -= len(key)
                    is_secret = any(word in key.casefold() for word in SECRETS)
                    taken[key if key in names() else self.text(key)] = MASK if is_secret else take(item)
                return taken
            if isinstance(value, list | tuple):
                items: list[object] = []
                for item in value:
                    if room <= 0:
                        return [*items, _CUT]
                    items.append(take(item))
                return items
            return value

        return take(value)

    def without_secrets(self, value: object, content: bytes) -> object:
        """Mask the known secrets in a whole JSON value of `content`, but not short ones, which may be words of it."""
        forms = [form for form in self._forms() if len(form) >= _MIN_IN_PROSE]
        if not any(form.encode("utf-8", "replace") in content for form in forms):
            return value

        def masked(value: Any) -> Any:
            if isinstance(value, str):
                for form in forms:
                    value = value.replace(form, MASK)
                return value
            if isinstance(value, dict):
                return {key if key in names() else masked(key): masked(item) for key, item in value.items()}
            return [masked(item) for item in value] if isinstance(value, list) else value

        return masked(value)

    def _forms(self) -> tuple[str, ...]:
        """Return all spellings of the known secrets, longest first, so that masking one leaves no part of another."""
        if self._known is None:
            forms = {form for secret in (*self._fixed, *self._tokens) for form in _spellings(secret.reveal())}
            self._known = tuple(sorted(forms, key=len, reverse=True))
        return self._known


def _spellings(secret: str) -> set[str]:
    """Return a secret as it is, as JSON escapes it, and as `repr` writes it, or its bytes, in errors and logs."""
    if not secret:
        return set()
    in_json = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    in_bytes = set[str]()
    for encoded in (secret.encode("utf-8", "replace"), secret.encode("latin-1", "replace")):
        # With both kinds of quotation marks, one of them is escaped.
        in_bytes |= {repr(encoded)[2:-1], repr(encoded + b"'\"")[2:-4]}
    in_repr = {form for text in (secret, *in_bytes) for form in (repr(text)[1:-1], repr(f"{text}'\"")[1:-4])}
    return in_json | {form.replace("/", "\\/") for form in in_json} | in_bytes | in_repr


# Errors and headers

_SHOWN_HEADERS: Final = frozenset({*REQUEST_ID_HEADERS, "content-type", "date", "server", "via"})
_SHOWN_OF_CALLS: Final = r"retry-after|(x-)?rate-?limit[a-z-]*"
_MAX_VALUE: Final = 200
_MIN_IN_PROSE: Final = 12
"""Minimum length of a secret to mask in this package's own words: a shorter one may be one of these words."""


def reply_headers(headers: Sequence[tuple[bytes, bytes]], redactor: Redactor, *, login: bool = False) -> ReplyHeaders:
    """Return the headers that may be shown, masked and shortened; for a `login`, only those without its token."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if name in _SHOWN_HEADERS or (not login and re.fullmatch(_SHOWN_OF_CALLS, name)):
            value = redactor.masked(" ".join(raw_value[:_MAX_READ].decode("latin-1").split()))
            found.setdefault(name, value if len(value) <= _MAX_VALUE else f"{value[:_MAX_VALUE]}{_CUT}")
    return ReplyHeaders(found) if found else NO_HEADERS


def redact_decode_error(error: DecodeError, redactor: Redactor) -> None:
    """Mask secrets in the message of a decoder's error, in its path of keys, and in the record."""
    error.args = (redactor.masked(error.message[:LONGEST], shortest=_MIN_IN_PROSE),)
    steps = error.path[:LONGEST].split(".")
    if not all(step in names() or step in ("$", "") or step.isdecimal() for step in steps):
        error.path = redactor.masked(error.path[:LONGEST])
    error.raw = redactor.value(error.raw)


# Logs of the HTTP libraries: they log the headers of a reply at DEBUG, and its reason phrase at INFO

_LIBRARIES: Final = ("httpx", "httpx2")
_LOGGERS: Final = (
    *_LIBRARIES,
    *(f"{core}.{part}" for core in ("httpcore", "httpcore2") for part in ("connection", "http11", "http2", "proxy")),
)
_PHRASES: Final = frozenset(status.phrase for status in http.HTTPStatus)

sending: ContextVar[tuple[Redactor, bool] | None] = ContextVar("sending", default=None)
"""Redactor of the request that is being sent, and whether it is a login, for the filter of the libraries' logs."""


def filter_logs() -> None:
    """Mask secrets in all later log records of the HTTP libraries that belong to a request of this package."""
    for name in _LOGGERS:
        # A filter that was added before is not added again.
        logging.getLogger(name).addFilter(_mask_record)
    # The codec of HTTP/2 logs whole header blocks at DEBUG, and the token can be read from them.
    for name in ("hpack.hpack", "hpack.table"):
        if (logger := logging.getLogger(name)).level == logging.NOTSET:
            logger.setLevel(logging.INFO)


def _mask_record(record: logging.LogRecord) -> bool:
    """Mask secrets in a record. Always return `True`: no record is dropped."""
    if (current := sending.get()) is None:
        return True
    redactor, is_login = current
    # The token in a login's reply is not known yet.
    if is_login and record.name not in _LIBRARIES:
        event, _, facts = record.getMessage().partition(" ")
        if event.startswith("receive_") and facts:
            record.msg, record.args = f"{event} {MASK}", ()
    elif is_login and isinstance(record.args, tuple) and record.args and record.args[-1] not in _PHRASES:
        # The library's line ends with the reason phrase.
        record.args = (*record.args[:-1], MASK)
    message = record.getMessage()
    if (masked := redactor.masked(message)) != message:
        record.msg, record.args = masked, ()
    return True
