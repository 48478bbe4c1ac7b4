"""Text for a terminal, without control characters, and texts in the form in which they are compared."""

from __future__ import annotations

import logging
from unicodedata import normalize


def clean(text: str) -> str:
    """Return the text on one line, with control and other invisible characters spelt out (`\\x1b`)."""
    spaced = "".join(" " if character.isspace() else character for character in text)
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in spaced)


def fold(text: str) -> str:
    """Return the form in which texts are compared: any case, single spaces, and one way to write an accent."""
    return " ".join(normalize("NFC", text).split()).casefold()


class CleanFormatter(logging.Formatter):
    """Formatter that writes each record on one line, and a traceback below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is that of `logging`
        return clean(super().formatMessage(record))
