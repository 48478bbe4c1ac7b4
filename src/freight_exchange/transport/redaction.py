"""Masking of secrets in everything that is printed, logged, raised or pickled.

Known secrets are found as they are and as JSON escapes them; unknown ones by the words in front of them. A reply is cut
before it is masked, so that the cost is bounded whatever its size.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, NoReturn

from freight_exchange.wire import names
from freight_exchange.wire.decoding import is_secret
from freight_exchange.wire.json import decoded

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError

__all__ = ["LONGEST", "MASK", "Redactor", "Secret"]

MASK: Final = "***"
LONGEST: Final = 8_192
"""Bytes or characters of a reply that an error keeps. Only these are parsed and masked."""

_PATTERNS: Final = (
    re.compile(r"(?i)\b(bearer\s+|authorization\W{1,8}basic\s+)[^\s\"',;]+"),
    # The key's beginning is left out: looked for, it would take a long word as often as it has letters.
    re.compile(
        rf"(?i)((?:{'|'.join(names.SECRETS)})[\w-]{{0,40}}\\*[\"']?\s*[:=]\s*\\*[\"']?)(?!bearer\b|basic\b)[^\s\"',;&}}]+"
    ),
)
_QUOTED: Final = re.compile(r"(?<!\S)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
"""A piece of a reply in a sentence of this package, as `repr` writes it."""
_HALF_CHARACTER: Final = re.compile(rb"[\xc0-\xff][\x80-\xbf]*\Z")
_CUT: Final = "..."
_DEEPEST: Final = 8
_SHORTEST_IN_PROSE: Final = 12
"""Characters: a shorter secret may be a word, or a part of one, that this package itself uses."""
_LONGEST_PLACE: Final = 6


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
    """Mask for known secrets, and for what looks like one, in text and JSON from the service."""

    def __init__(self) -> None:
        self._fixed: set[Secret] = set()
        # A body may echo the token before the current one: a reply can be older than a renewal.
        self._tokens: deque[Secret] = deque(maxlen=4)
        self._known: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return "Redactor()"

    def learn(self, secret: Secret) -> None:
        self._fixed.add(secret)
        self._known = None

    def learn_token(self, token: Secret) -> None:
        self._tokens.append(token)
        self._known = None

    def text(self, text: str) -> str:
        """The text with secrets masked, cut to `LONGEST` characters."""
        if len(text) <= LONGEST:
            return self.masked(text)
        return f"{self._masked_beginning(text[:LONGEST])}{_CUT} ({len(text)} characters)"

    def excerpt(self, content: bytes) -> str:
        """The beginning of a body as text, with secrets masked."""
        if len(content) <= LONGEST:
            return self.masked(decoded(content))
        beginning = decoded(_HALF_CHARACTER.sub(b"", content[:LONGEST]))
        return f"{self._masked_beginning(beginning)}{_CUT} ({len(content)} bytes)"

    def value(self, value: object) -> object:
        """The JSON value with secrets masked in every string and key; deep nests, and all beyond `LONGEST`, are cut."""
        return self._value(value, _Room(), 0)

    def masked(self, text: str, *, shortest: int = 1) -> str:
        """The text with secrets masked, in full length; known ones only from `shortest` characters on."""
        for form in self._forms():
            if len(form) >= shortest:
                text = text.replace(form, MASK)
        for pattern in _PATTERNS:
            text = pattern.sub(rf"\1{MASK}", text)
        return text

    def clean(self, error: DecodeError) -> None:
        """Mask secrets in what a decoder's error quotes of its reply."""
        error.args = (self._sentence(error.message),)
        error.path = self._path(error.path)
        error.raw = self.value(error.raw)

    def _forms(self) -> tuple[str, ...]:
        """The known secrets in every spelling, longest first, so that none leaves a part of another standing."""
        if self._known is None:
            forms = {form for secret in (*self._fixed, *self._tokens) for form in _spellings(secret.reveal())}
            self._known = tuple(sorted(forms, key=len, reverse=True))
        return self._known

    def _masked_beginning(self, cut: str) -> str:
        return self.masked(self._without_half(cut))

    def _without_half(self, cut: str) -> str:
        """The beginning of a text, without what may be the first part of a secret at its end."""
        while True:
            # Without one secret's beginning, the text may end in the middle of another.
            end = min((_half(cut, form) for form in self._forms()), default=len(cut))
            if end == len(cut):
                return cut
            cut = cut[:end]

    def _value(self, value: object, room: _Room, depth: int) -> object:
        if isinstance(value, str):
            room.left -= len(value)
            return self.text(value)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth > _DEEPEST:
            return _CUT
        if isinstance(value, Mapping):
            masked: dict[str, object] = {}
            for key, item in value.items():
                if not room.take(len(key)):
                    masked[_CUT] = _CUT
                    break
                masked[self._key(key)] = MASK if is_secret(key) else self._value(item, room, depth + 1)
            return masked
        items: list[object] = []
        for item in value:
            if not room.take(1):
                items.append(_CUT)
                break
            items.append(self._value(item, room, depth + 1))
        return items

    def _key(self, key: str) -> str:
        return key if key in _own_words() else self.text(key)

    def _sentence(self, sentence: str) -> str:
        """This package's own words, which hold no secret though a short one may be found in them, around quotations."""
        if len(sentence) > LONGEST:
            return self.text(sentence)
        quoting = _QUOTED.sub(lambda found: self._quotation(found.group()), sentence)
        return self.masked(quoting, shortest=_SHORTEST_IN_PROSE)

    def _quotation(self, quoted: str) -> str:
        mark, words = quoted[0], quoted[1:-1]
        if words in _own_words():
            return quoted
        if words.endswith(_CUT):
            whole = words.removesuffix(_CUT)
            beginning = self._without_half(whole)
            words = f"{beginning}{MASK if beginning != whole else ''}{_CUT}"
        return f"{mark}{self.masked(words)}{mark}"

    def _path(self, path: str) -> str:
        """The path; what stands between the steps that this package knows is the reply's own."""
        if len(path) > LONGEST:
            return self.text(path)
        steps = path.split(".")
        start, end = 0, len(steps)
        while start < end and _is_own_step(steps[start]):
            start += 1
        while end > start and _is_own_step(steps[end - 1]):
            end -= 1
        if start == end:
            return path
        # As one piece: a token has points as well.
        return ".".join((*steps[:start], self.masked(".".join(steps[start:end])), *steps[end:]))


class _Room:
    """Characters that an excerpt of a value may still have."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = LONGEST

    def take(self, characters: int) -> bool:
        """Take them for one more item, if there is room for any."""
        if self.left <= 0:
            return False
        self.left -= characters + 1
        return True


@cache
def _own_words() -> frozenset[str]:
    """The names of the wire: they stand in every reply and give nothing away, even where a short secret is in one."""

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


def _half(cut: str, form: str) -> int:
    """The place from which the text is the beginning of this form, cut before its end; else the text's length."""
    at = cut.find(form[0], max(0, len(cut) - len(form) + 1))
    while at >= 0:
        if form.startswith(cut[at:]):
            return at
        at = cut.find(form[0], at + 1)
    return len(cut)


def _spellings(secret: str) -> set[str]:
    """The secret as it is, as JSON escapes it, and as `repr` does in this package's own errors."""
    if not secret:
        return set()
    in_json = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    # With both kinds of quotation marks, one of them is escaped.
    in_repr = {repr(secret)[1:-1], repr(f"{secret}'\"")[1:-4]}
    return in_json | {form.replace("/", "\\/") for form in in_json} | in_repr
