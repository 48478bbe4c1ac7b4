"""No text of the service commands the terminal that it is shown on."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.cli.render.text import escaped_json, fitted, width
from freight_exchange.cli.settings import Settings
from freight_exchange.platform.text import clean

ANYTHING = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_what_could_command_a_terminal_is_spelt_out(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_record_of_a_log_is_a_line_and_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("freight_exchange")
    handlers, level = list(logger.handlers), logger.level
    logger.handlers[:] = []
    try:
        Settings.be_heard(1)
        try:
            raise ValueError("no tariff")
        except ValueError:
            logger.exception("quoting %s", "tiles\nCRITICAL \x1b[2J")
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)
    line, *traceback = capsys.readouterr().err.splitlines()
    assert line == "ERROR freight_exchange: quoting tiles CRITICAL \\x1b[2J"
    assert (traceback[0], traceback[-1]) == ("Traceback (most recent call last):", "ValueError: no tariff")


@given(ANYTHING)
def test_nothing_invisible_is_shown(text: str) -> None:
    assert clean(text).isprintable()


@given(ANYTHING, st.booleans())
def test_json_stays_what_it_is_and_shows_nothing_invisible(text: str, ascii_only: bool) -> None:
    written = escaped_json(json.dumps({"text": text}, ensure_ascii=False), ascii_only=ascii_only)
    assert written.isprintable()
    assert written.isascii() or not ascii_only
    assert json.loads(written) == {"text": text}


@pytest.mark.parametrize(("text", "columns"), [("tiles", 5), ("瓷砖", 4), ("e\u0301", 1)])
def test_a_table_knows_how_wide_a_text_is(text: str, columns: int) -> None:
    assert width(text) == columns
    assert fitted(text, 7) == text + " " * (7 - columns)
    assert fitted(text, 7, right=True) == " " * (7 - columns) + text
