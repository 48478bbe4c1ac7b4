"""Tests of the log that `-v` prints."""

from __future__ import annotations

import logging

import pytest

from freight_exchange.cli.options import GlobalOptions


def test_log_record_is_one_line_and_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("freight_exchange")
    level = logger.level
    monkeypatch.setattr(logger, "handlers", [])
    try:
        GlobalOptions.enable_logging(1)
        try:
            raise ValueError("no tariff")
        except ValueError:
            logger.exception("quoting %s", "tiles\nCRITICAL \x1b[2J")
    finally:
        logger.setLevel(level)
    line, *traceback = capsys.readouterr().err.splitlines()
    assert line == "ERROR freight_exchange: quoting tiles CRITICAL \\x1b[2J"
    assert (traceback[0], traceback[-1]) == ("Traceback (most recent call last):", "ValueError: no tariff")
