"""Tests of texts made safe for logs and terminals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.platform.text import clean


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Ceramic tiles", "Ceramic tiles"),
        ("Fliesen für Köln, 瓷砖", "Fliesen für Köln, 瓷砖"),
        ("a\x1b[31mb\x07", "a\\x1b[31mb\\x07"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("two\nlines\tand more", "two lines and more"),
        ("\u202egnal", "\\u202egnal"),
        ("no\u00a0break", "no break"),
    ],
)
def test_invisible_characters_are_escaped(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_cleaned_text_is_printable(text: str) -> None:
    assert clean(text).isprintable()
