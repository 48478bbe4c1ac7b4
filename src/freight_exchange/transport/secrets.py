"""Masking of secrets in all that is printed, logged, raised or pickled.

Known secrets are found in their spellings, unknown ones by the words in front of them. A reply is cut before it is
masked, which bounds the cost.
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
    # The key's beginning is left out: looked for, it would take a long word as often as it has letters.
    re.compile(
        rf"(?i)((?:{'|'.join(SECRETS)})[\w-]{{0,40}}\\*[\"']?\s*[:=]\s*\\*[\"']?)(?!bearer\b|basic\b)[^\s\"',;&}}]+"
    ),
)
_HALF_CHARACTER: Final = re.compile(rb"[\xc0-\xff][\x80-\xbf]*\Z")


class Secret:
    """Password or token; only `reveal()` shows it, no `repr`, traceback or pickle."""

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
    """Mask for known and probable secrets in text and JSON of the service."""

    def __init__(self) -> None:
        self._fixed: set[Secret] = set()
        # A body may echo the token before the current one: a reply can be older than a token refresh.
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
        """Mask secrets in a text of any length, known ones from `shortest` characters on."""
        for form in self._forms():
            if len(form) >= shortest:
                text = text.replace(form, MASK)
        for pattern in _PATTERNS:
            text = pattern.sub(rf"\1{MASK}", text)
        return text

    def without_half(self, cut: str) -> str:
        """Drop what may be the first part of a secret from the end of a text that was cut."""
        end = min((_half(cut, form) for form in self._forms()), default=len(cut))
        before = -1
        while end != before:
            before = end
            end = min((_across(cut, form, end) for form in self._forms()), default=end)
        return cut[:end]

    def _forms(self) -> tuple[str, ...]:
        """Return the known secrets in every spelling, longest first, so that none leaves a part of another."""
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
    """Return the names of the wire, which every reply has: a short secret in one of them stays hidden."""

    def words(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from words([*value, *value.values()])
        elif isinstance(value, tuple | list | frozenset):
            for item in value:
                yield from words(item)

    return frozenset(words([value for name, value in vars(fields).items() if name.isupper()]))


def _half(cut: str, form: str) -> int:
    """Return the index from which the text ends in the first part of this form, else the text's length."""
    at = cut.find(form[0], max(0, len(cut) - len(form) + 1))
    while at >= 0:
        if form.startswith(cut[at:]):
            return at
        at = cut.find(form[0], at + 1)
    return len(cut)


def _across(cut: str, form: str, end: int) -> int:
    """Return the index at which a whole form begins that would lose its end if the text ended at `end`, else `end`."""
    at = cut.find(form, max(0, end - len(form) + 1), end + len(form) - 1)
    return end if at < 0 else at


def _spellings(secret: str) -> set[str]:
    """Spell a secret as it is, as JSON escapes it, and as `repr` does in this package's own errors."""
    if not secret:
        return set()
    in_json = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    # With both kinds of quotation marks, one of them is escaped.
    in_repr = {repr(secret)[1:-1], repr(f"{secret}'\"")[1:-4]}
    return in_json | {form.replace("/", "\\/") for form in in_json} | in_repr
