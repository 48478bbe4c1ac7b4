"""JSON with exact decimals, and with raw text in the place of a value."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

# The C encoder cannot write a Decimal. Each is written as a string with this mark; then mark and quotes are removed.
_MARK = "\udfff\udffe"
_MARKED = re.compile(r'"\\udfff\\udffe([^"\\]*)"')


class Raw:
    """Text that is written into the JSON unchanged, valid or not: `NaN`, `1e999`, five thousand digits."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _mark(value: object) -> str:
    if isinstance(value, Decimal):
        return _MARK + str(value)
    if isinstance(value, Raw):
        return _MARK + value.text
    raise TypeError(f"no JSON for {value!r}")


_encoder = json.JSONEncoder(default=_mark, separators=(",", ":"))


def encode(value: object) -> bytes:
    text = _encoder.encode(value)
    return (_MARKED.sub(r"\1", text) if "\\udfff" in text else text).encode("ascii")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_decoder = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)


def decode(body: bytes) -> Any:
    """Decode a JSON text. Raise `ValueError` for anything else, however deep or long."""
    try:
        return _decoder.decode(body.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
