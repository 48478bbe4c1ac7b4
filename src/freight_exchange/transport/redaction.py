"""Keeping secrets out of everything that is printed, logged, raised or pickled."""

from __future__ import annotations

import html
import json
import re
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError

__all__ = ["MASK", "Redactor", "Secret"]

MASK = "***"

_LONGEST = 2000
_PATTERNS = (
    re.compile(r"(?i)\b(bearer\s+)[^\s\"',;]+"),
    re.compile(r"(?i)(\"?(?:access_token|password|authorization)\"?\s*[:=]\s*\"?)(?!bearer\b)[^\s\"',;&}]+"),
)
_SECRET_KEYS = frozenset({"access_token", "password", "authorization"})


class Secret:
    """A password or token that no `repr`, traceback or pickle shows; only `reveal()` does."""

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
    """Masks the secrets it was told of, and whatever looks like one, in text and JSON from the service."""

    def __init__(self) -> None:
        self._fixed: set[Secret] = set()
        # A body may echo the token before the current one: a reply can be older than a renewal.
        self._tokens: deque[Secret] = deque(maxlen=4)

    def __repr__(self) -> str:
        return "Redactor()"

    def learn(self, secret: Secret) -> None:
        self._fixed.add(secret)

    def learn_token(self, token: Secret) -> None:
        self._tokens.append(token)

    def text(self, text: str) -> str:
        """The text with secrets masked, cut to 2,000 characters."""
        text = self._masked(text, self._spellings())
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"

    def excerpt(self, content: bytes) -> str:
        """The beginning of a body that is not JSON, as text, with secrets masked."""
        spellings = self._spellings()
        longest = max((len(spelling.encode()) for spelling in spellings), default=0)
        reach = 2 * _LONGEST + longest
        text = self._masked(content[:reach].decode("utf-8", "replace"), spellings)
        if len(content) > reach:
            # The cut may have gone through a secret, whose first half is recognised by nothing.
            text = text[: max(0, len(text) - longest)]
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(content)} bytes)"

    def clean(self, error: DecodeError) -> None:
        """Mask secrets in what a decoder's error quotes of its reply."""
        error.args = (self.text(error.message),)
        error.path = self.text(error.path)
        error.raw = self.value(error.raw)

    def _spellings(self) -> list[str]:
        """Every spelling of every secret, longest first: of one that is part of another, none is left standing."""
        found = {form for secret in (*self._fixed, *self._tokens) for form in _spellings(secret.reveal())}
        return sorted(found, key=len, reverse=True)

    def _masked(self, text: str, spellings: list[str]) -> str:
        for spelling in spellings:
            text = text.replace(spelling, MASK)
        for pattern in _PATTERNS:
            text = pattern.sub(rf"\1{MASK}", text)
        return text

    def value(self, value: object, depth: int = 0) -> object:
        """The JSON value with secrets masked in every string and key, deep nests cut."""
        if isinstance(value, str):
            return self.text(value)
        if depth > 8:
            return "..." if isinstance(value, Mapping | list | tuple) else value
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): MASK if str(key).casefold() in _SECRET_KEYS else self.value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value[:100]]
        return value


def _spellings(secret: str) -> set[str]:
    """The secret as it is, and as JSON, HTML and URLs write it; PHP escapes slashes in JSON as well."""
    if not secret:
        return set()
    forms = {
        secret,
        html.escape(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    }
    return forms | {form.replace("/", "\\/") for form in forms}
