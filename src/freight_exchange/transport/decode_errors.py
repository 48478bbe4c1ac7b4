"""Masking of secrets in the errors of the decoder, which quote pieces of a reply in sentences of this package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from freight_exchange.wire import fields
from freight_exchange.wire.excerpt import CUT, LONGEST, MASK

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError
    from freight_exchange.transport.secrets import Redactor

__all__ = ["clean", "own_words"]

_QUOTED: Final = re.compile(r"(?<!\S)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
"""A piece of a reply in a sentence of this package, as `repr` writes it."""
_SHORTEST_IN_PROSE: Final = 12
"""Characters: a shorter secret may be a word, or a part of one, that this package itself uses."""
_LONGEST_PLACE: Final = 6


def clean(error: DecodeError, redactor: Redactor) -> None:
    """Mask secrets in what a decoder's error quotes of its reply."""
    error.args = (_sentence(error.message, redactor),)
    error.path = _path(error.path, redactor)
    error.raw = redactor.value(error.raw)


@cache
def own_words() -> frozenset[str]:
    """List the names of the wire: every reply has them, and they give nothing away where a short secret is in one."""

    def words(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from words([*value, *value.values()])
        elif isinstance(value, tuple | list | frozenset):
            for item in value:
                yield from words(item)

    return frozenset(words([value for name, value in vars(fields).items() if name.isupper()]))


def _sentence(sentence: str, redactor: Redactor) -> str:
    if len(sentence) > LONGEST:
        return redactor.text(sentence)
    quoting = _QUOTED.sub(lambda found: _quotation(found.group(), redactor), sentence)
    return redactor.masked(quoting, shortest=_SHORTEST_IN_PROSE)


def _quotation(quoted: str, redactor: Redactor) -> str:
    mark, words = quoted[0], quoted[1:-1]
    if words in own_words():
        return quoted
    if words.endswith(CUT):
        whole = words.removesuffix(CUT)
        beginning = redactor.without_half(whole)
        words = f"{beginning}{MASK if beginning != whole else ''}{CUT}"
    return f"{mark}{redactor.masked(words)}{mark}"


def _path(path: str, redactor: Redactor) -> str:
    """Mask what stands between the steps of the path that this package knows: it is the reply's own."""
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
    # As one piece: a token has points as well.
    return ".".join((*steps[:start], redactor.masked(".".join(steps[start:end])), *steps[end:]))


def _is_own_step(step: str) -> bool:
    return step in own_words() or step in ("$", "") or (len(step) <= _LONGEST_PLACE and step.isdecimal())
