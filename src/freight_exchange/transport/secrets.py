"""Masking of secrets in output, logs, errors and pickles.

Known secrets are found in all their spellings, unknown ones by the words before them, such as `password`. A reply is
cut before it is masked, which limits the cost.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NoReturn

from freight_exchange.wire import fields
from freight_exchange.wire.excerpt import CUT, LONGEST, MASK, excerpt
from freight_exchange.wire.fields import SECRETS
from freight_exchange.wire.json import decoded

__all__ = ["LONGEST", "MASK", "Redactor", "Secret", "wire_names"]

_PATTERNS: Final = (
    re.compile(r"(?i)\b(bearer\s+|authorization\W{1,8}basic\s+)[^\s\"',;]+"),
    # The pattern starts in the middle of a key: a search for its beginning would scan a long word once for each letter.
    re.compile(
        rf"(?i)((?:{'|'.join(SECRETS)})[\w-]{{0,40}}\\*[\"']?\s*[:=]\s*\\*[\"']?)(?!bearer\b|basic\b)[^\s\"',;&}}]+"
    ),
)
_HALF_CHARACTER: Final = re.compile(rb"[\xc0-\xff][\x80-\xbf]*\Z")


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

    def __repr__(self) -> str:
        return "Redactor()"

    def add(self, secret: Secret) -> None:
        self._fixed.add(secret)
        self._known = None

    def add_token(self, token: Secret) -> None:
        self._tokens.append(token)
        self._known = None

    def text(self, text: str) -> str:
        """Mask secrets in a text, and cut it to `LONGEST` characters."""
        if len(text) <= LONGEST:
            return self.masked(text)
        return self._beginning(text[:LONGEST], f"{len(text)} characters")

    def excerpt(self, content: bytes) -> str:
        """Return the beginning of a body as text, with secrets masked."""
        if len(content) <= LONGEST:
            return self.masked(decoded(content))
        return self._beginning(decoded(_HALF_CHARACTER.sub(b"", content[:LONGEST])), f"{len(content)} bytes")

    def value(self, value: object) -> object:
        """Return an excerpt of a JSON value, with secrets masked in every string and key."""
        return self._value(excerpt(value))

    def masked(self, text: str, *, shortest: int = 1) -> str:
        """Mask secrets in a text of any length; known ones only if they have at least `shortest` characters."""
        for form in self._forms():
            if len(form) >= shortest:
                text = text.replace(form, MASK)
        for pattern in _PATTERNS:
            text = pattern.sub(rf"\1{MASK}", text)
        return text

    def without_half(self, cut: str) -> str:
        """Remove from the end of a shortened text what may be the first part of a secret."""
        end = min((_start_of_half(cut, form) for form in self._forms()), default=len(cut))
        before = -1
        while end != before:
            before = end
            end = min((_start_of_split(cut, form, end) for form in self._forms()), default=end)
        return cut[:end]

    def _forms(self) -> tuple[str, ...]:
        """Return all spellings of the known secrets, longest first, so that masking one leaves no part of another."""
        if self._known is None:
            forms = {form for secret in (*self._fixed, *self._tokens) for form in _spellings(secret.reveal())}
            self._known = tuple(sorted(forms, key=len, reverse=True))
        return self._known

    def _beginning(self, cut: str, size: str) -> str:
        return f"{self.masked(self.without_half(cut))}{CUT} ({size})"

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            names = wire_names()
            return {key if key in names else self.text(key): self._value(item) for key, item in value.items()}
        return [self._value(item) for item in value] if isinstance(value, list) else value


@cache
def wire_names() -> frozenset[str]:
    """Return the field names of the wire. A short secret that is a part of one is not masked there."""

    def words(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from words([*value, *value.values()])
        elif isinstance(value, tuple | list | frozenset):
            for item in value:
                yield from words(item)

    return frozenset(words([value for name, value in vars(fields).items() if name.isupper()]))


def _start_of_half(cut: str, form: str) -> int:
    """Return the index at which a text ends with the first part of `form`; its length if it does not."""
    at = cut.find(form[0], max(0, len(cut) - len(form) + 1))
    while at >= 0:
        if form.startswith(cut[at:]):
            return at
        at = cut.find(form[0], at + 1)
    return len(cut)


def _start_of_split(cut: str, form: str, end: int) -> int:
    """Return the index of a complete `form` that a cut at `end` would split; `end` if there is none."""
    at = cut.find(form, max(0, end - len(form) + 1), end + len(form) - 1)
    return end if at < 0 else at


def _spellings(secret: str) -> set[str]:
    """Return a secret as it is, as JSON escapes it, and as `repr` writes it in this package's errors."""
    if not secret:
        return set()
    in_json = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    # With both kinds of quotation marks, one of them is escaped.
    in_repr = {repr(secret)[1:-1], repr(f"{secret}'\"")[1:-4]}
    return in_json | {form.replace("/", "\\/") for form in in_json} | in_repr
