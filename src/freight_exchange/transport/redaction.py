"""Keeping secrets out of everything that is printed, logged, raised or pickled."""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote, quote_plus

from freight_exchange.wire import names
from freight_exchange.wire.decoding import is_secret

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError

__all__ = ["MASK", "Redactor", "Secret"]

MASK = "***"

_LONGEST = 2000
_PATTERNS = (
    re.compile(r"(?i)\b(bearer\s+|authorization\W{1,8}basic\s+)[^\s\"',;]+"),
    # The key's beginning is left out: looked for, it would take a long word as often as it has letters.
    re.compile(
        rf"(?i)((?:{'|'.join(names.SECRETS)})[\w-]{{0,40}}\\*[\"']?\s*[:=]\s*\\*[\"']?)(?!bearer\b|basic\b)[^\s\"',;&}}]+"
    ),
)
_QUOTED = re.compile(r"(?<!\S)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
"""A piece of a reply in a sentence of this package, as `repr` writes it."""
_CUT = "..."
_SHORTEST_BEGINNING = 3
_SHORTEST_IN_PROSE = 12
"""Characters: a shorter secret may be a word, or a part of one, that this package itself uses."""
_LONGEST_PLACE = 6
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=\\")
_UNESCAPED = ("", "/", "!'()*", ";/?:@&=+$,#!'()*")
"""What this and other languages leave as it is when they escape for a URL."""
_HEX = re.compile("%[0-9A-F]{2}")
_IN_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""As `html.escape`, whose module brings a table of all of HTML's names."""
_SHORTEST_ENCODED = 8
"""Characters: fewer of base64 turn up anywhere by chance."""


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
        self._known: _Known | None = None

    def __repr__(self) -> str:
        return "Redactor()"

    def learn(self, secret: Secret) -> None:
        self._fixed.add(secret)
        self._known = None

    def learn_token(self, token: Secret) -> None:
        self._tokens.append(token)
        self._known = None

    def text(self, text: str) -> str:
        """The text with secrets masked, cut to 2,000 characters."""
        return _cut(self.masked(text))

    def excerpt(self, content: bytes) -> str:
        """The beginning of a body that is not JSON, as text, with secrets masked."""
        longest = self._forms().longest
        reach = 2 * _LONGEST + longest
        text = self.masked(content[:reach].decode("utf-8", "replace"))
        if len(content) > reach:
            # The cut may have gone through a secret, whose first half is recognised by nothing.
            text = text[: max(0, len(text) - longest)]
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(content)} bytes)"

    def clean(self, error: DecodeError) -> None:
        """Mask secrets in what a decoder's error quotes of its reply."""
        error.args = (_cut(self._sentence(error.message)),)
        error.path = self._path(error.path)
        error.raw = self.value(error.raw)

    def _sentence(self, sentence: str) -> str:
        """This package's own words, which hold no secret though a short one may be found in them, around quotations."""
        quoting = _QUOTED.sub(lambda found: self._quotation(found.group()), sentence)
        return self.masked(quoting, shortest=_SHORTEST_IN_PROSE)

    def _quotation(self, quoted: str) -> str:
        mark, words = quoted[0], quoted[1:-1]
        if words in _own_words():
            return quoted
        if words.endswith(_CUT):
            words = f"{self._without_beginning(words.removesuffix(_CUT))}{_CUT}"
        return f"{mark}{self.masked(words)}{mark}"

    def _without_beginning(self, text: str) -> str:
        """The text, which was cut, without the first half of a secret at its end."""
        known = self._forms()
        halves = [
            length
            for form in (*known.spellings, *known.encodings)
            for length in range(_SHORTEST_BEGINNING, min(len(form), len(text) + 1))
            if text.endswith(form[:length])
        ]
        return f"{text[: -max(halves)]}{MASK}" if halves else text

    def _path(self, path: str) -> str:
        """The path; what stands between the steps that this package knows is the reply's own."""
        steps = path.split(".")
        start, end = 0, len(steps)
        while start < end and _is_own_step(steps[start]):
            start += 1
        while end > start and _is_own_step(steps[end - 1]):
            end -= 1
        if start == end:
            return path
        # As one piece: a token has points as well.
        return ".".join((*steps[:start], self.text(".".join(steps[start:end])), *steps[end:]))

    def _forms(self) -> _Known:
        if self._known is None:
            self._known = _Known([*self._fixed, *self._tokens])
        return self._known

    def masked(self, text: str, *, shortest: int = 1) -> str:
        """The text with secrets masked, in full length; those that are known only if they are not too short."""
        known = self._forms()
        for encoding in known.encodings:
            if len(encoding) >= shortest and encoding in text:
                text = _without_run(text, encoding)
        for spelling in known.spellings:
            if len(spelling) >= shortest:
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
                self._key(str(key)): MASK if is_secret(str(key)) else self.value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value[:100]]
        return value

    def _key(self, key: str) -> str:
        return key if key in _own_words() else self.text(key)


class _Known:
    """How the secrets that are known may be written: longest first, so that none leaves a part of another standing."""

    __slots__ = ("encodings", "longest", "spellings")

    def __init__(self, secrets: list[Secret]) -> None:
        self.spellings = _longest_first({form for secret in secrets for form in _spellings(secret.reveal())})
        self.encodings = _longest_first({form for secret in secrets for form in _encodings(secret.reveal())})
        self.longest = max((len(form.encode()) for form in (*self.spellings, *self.encodings)), default=0)


@cache
def _own_words() -> frozenset[str]:
    """The names of the wire: what stands in every reply gives nothing away, though a short secret be found in it."""

    def words(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from words([*value, *value.values()])
        elif isinstance(value, tuple | list | frozenset):
            for item in value:
                yield from words(item)

    return frozenset(words([value for name, value in vars(names).items() if name.isupper()]))


def _is_own_step(step: str) -> bool:
    return step in _own_words() or step in ("$", "") or (len(step) <= _LONGEST_PLACE and step.isdecimal())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}{_CUT} ({len(text)} characters)"


def _longest_first(forms: set[str]) -> list[str]:
    return sorted(forms, key=len, reverse=True)


def _encodings(secret: str) -> Iterator[str]:
    """What base64 makes of the secret wherever it stands in what is encoded, as behind the user of a Basic header.

    Only the characters that it determines alone: those at its ends depend on its neighbours.
    """
    for charset in ("utf-8", "latin-1"):
        value = secret.encode(charset, "replace")
        whole = base64.b64encode(value).decode()
        if len(whole) >= _SHORTEST_ENCODED:
            yield whole
        for before, first in ((0, 0), (1, 2), (2, 3)):
            encoded = base64.b64encode(bytes(before) + value).decode()
            core = encoded[first : (before + len(value)) * 8 // 6]
            if len(core) >= _SHORTEST_ENCODED:
                yield from (core, core.replace("/", "\\/"), quote(core, safe=""))
                yield core.replace("+", "-").replace("/", "_")


def _without_run(text: str, encoding: str) -> str:
    """The text with every run of base64 masked that contains this one: its neighbours hold a letter's half each."""
    pieces: list[str] = []
    done = 0
    while (at := text.find(encoding, done)) >= 0:
        start, end = at, at + len(encoding)
        while start > done and text[start - 1] in _BASE64:
            start -= 1
        while end < len(text) and text[end] in _BASE64:
            end += 1
        pieces += (text[done:start], MASK)
        done = end
    return "".join((*pieces, text[done:]))


def _spellings(secret: str) -> set[str]:
    """The secret as it is, and as JSON, HTML, URLs and logs of bytes write it; PHP escapes slashes in JSON as well."""
    if not secret:
        return set()
    escaped = {quote(secret, safe=safe) for safe in _UNESCAPED} | {quote_plus(secret)}
    forms = {
        secret,
        secret.translate(_IN_HTML),
        *escaped,
        *(_HEX.sub(lambda found: found.group().lower(), form) for form in escaped),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        # With both kinds of quotation marks, one of them is escaped.
        repr(f"{secret}'\"")[1:-4],
        repr(secret.encode("utf-8", "replace"))[2:-1],
        repr(secret.encode("latin-1", "replace"))[2:-1],
    }
    return forms | {form.replace("/", "\\/") for form in forms}
