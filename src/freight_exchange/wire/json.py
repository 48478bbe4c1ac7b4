"""Parser and writer of JSON: exact numbers, limited memory, one class of errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Final, NoReturn

from freight_exchange.errors import DecodeError, ValidationError
from freight_exchange.validation import BOUNDED, MAX_DIGITS

MAX_BODY: Final = 10_000_000
DEEPEST: Final = 64

_ENDLESS: Final = 10**MAX_DIGITS
CONSTANTS: Final = {None: "null", True: "true", False: "false"}
_MAX_INTEGER_DIGITS: Final = 1000
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def parse(content: bytes, *, largest: int | None = MAX_BODY) -> object:
    """Decode a JSON body: fractions as `Decimal` exactly as written, integers as `int`.

    A number out of range stays text. Escaped lone surrogates become U+FFFD. A body that is not JSON, or exceeds
    `largest` bytes or 64 levels, is a `DecodeError`.
    """
    problem, value = "", None
    try:
        if largest is not None and len(content) > largest:
            problem = f"the body is larger than {largest / 1e6:g} MB"
        elif not (text := decoded(content)).strip():
            problem = "the body is empty"
        # Most replies have one kind of bracket only, and a search for the other one is far cheaper than counting it.
        elif _too_deep(value := _decoded(text), sum(text.count(bracket) for bracket in "{[" if bracket in text)):
            problem = f"the body is nested deeper than {DEEPEST}"
        elif "\\" in text and ("\\ud" in text or "\\uD" in text):
            value = _whole_characters(value)
    except RecursionError:
        problem = f"the body is nested deeper than {DEEPEST}"
    except MemoryError:
        problem = "the body does not fit in memory"
    except ValueError:
        problem = "the body is not JSON"
    if problem:
        # The body may be a login's reply, and a traceback with locals would show the token. For the same reason this is
        # raised outside of `except`: the parser's own error contains the whole text.
        content, text, value = b"", "", None
        raise DecodeError(problem)
    return value


def decoded(content: bytes) -> str:
    """Decode text: UTF-8, with or without a byte-order mark."""
    return content.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")


def dump(value: object) -> bytes:
    """Encode as strict, compact JSON in UTF-8; raise `ValidationError` if JSON cannot represent the value."""
    return _written(value).encode()


def _refuse(constant: str) -> NoReturn:
    raise ArithmeticError(constant)


def _fraction_or_text(digits: str) -> Decimal | str:
    try:
        return BOUNDED.create_decimal(digits)
    except ArithmeticError:
        return digits


_DECODER: Final = json.JSONDecoder(parse_float=BOUNDED.create_decimal, parse_constant=_refuse, strict=False)
# Leaves numbers out of range as text.
_CAUTIOUS: Final = json.JSONDecoder(
    parse_float=_fraction_or_text,
    parse_constant=str,
    parse_int=lambda digits: int(digits) if len(digits) <= _MAX_INTEGER_DIGITS else digits,
    strict=False,
)


def _decoded(text: str) -> object:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except (ArithmeticError, ValueError):
        # A number out of range, or an integer of thousands of digits: only then is each number checked.
        return _CAUTIOUS.decode(text)


def _too_deep(value: object, openings: int) -> bool:
    """Return whether containers are nested too deep; `openings` is at least the number of containers.

    The search goes down by levels while the remaining containers could exceed the limit, so usually not far.
    """
    level = [value] if isinstance(value, (dict, list)) else []
    for depth in range(1, DEEPEST + 1):
        openings -= len(level)
        if not level or depth + openings <= DEEPEST:
            return False
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, (dict, list))
        ]
    return bool(level)


def _whole_characters(value: object) -> object:
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, dict):
        return {_whole(key): _whole_characters(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    return value


def _whole(text: str) -> str:
    if text.isascii():
        return text
    # Two adjacent surrogates are one character, and a lone one becomes U+FFFD.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _written(value: object, depth: int = 0) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if value is None or value is True or value is False:
        return CONSTANTS[value]
    if isinstance(value, int) and -_ENDLESS < value < _ENDLESS:
        return int.__repr__(value)
    if isinstance(value, (Mapping, list, tuple)) and depth >= DEEPEST:
        raise ValidationError(f"a body may not be nested deeper than {DEEPEST}", field="body")
    if isinstance(value, Mapping):
        return f"{{{','.join([f'{_key(key)}:{_written(item, depth + 1)}' for key, item in value.items()])}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join([_written(item, depth + 1) for item in value])}]"
    number = Decimal(float.__repr__(value)) if isinstance(value, float) else value
    if isinstance(number, Decimal) and number.is_finite() and abs(number.adjusted()) <= MAX_DIGITS:
        return format(number, "f")
    raise ValidationError(f"JSON cannot hold this {type(value).__name__}", field="body")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise ValidationError("the keys of a JSON object must be text", field="body")
    return _quoted(key)


def _quoted(text: str) -> str:
    text = str.__str__(text)
    if not text.isascii() and text != _whole(text):
        raise ValidationError("half a character (a lone surrogate) cannot be sent", field="body")
    return encode_basestring(text)
