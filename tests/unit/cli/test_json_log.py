"""Tests of the log as JSON lines."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from freight_exchange.cli.json_log import JSONFormatter, log_as_json
from freight_exchange.cli.options import GlobalOptions


@pytest.fixture(autouse=True)
def _logging_restored() -> Iterator[None]:
    loggers = [logging.getLogger(), logging.getLogger("freight_exchange")]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    yield
    logging.captureWarnings(capture=False)
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)


def test_record_is_one_object_with_its_extra_fields() -> None:
    record = logging.LogRecord("freight_exchange.bot", logging.WARNING, "x.py", 1, "%s failed\n", ("quote",), None)
    record.created = 1795521600.25
    record.request = 7
    assert json.loads(JSONFormatter().format(record)) == {
        "time": "2026-11-24T12:00:00.250+00:00",
        "level": "WARNING",
        "logger": "freight_exchange.bot",
        "message": "quote failed\n",
        "request": 7,
    }
    assert "\n" not in JSONFormatter().format(record)


def test_traceback_is_a_field() -> None:
    record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), None)
    try:
        raise LookupError("no rate")
    except LookupError:
        record.exc_info = sys.exc_info()
    assert json.loads(JSONFormatter().format(record))["traceback"].endswith("LookupError: no rate")


@pytest.mark.parametrize("verbosity", [0, 2])
def test_each_record_is_written_once(capsys: pytest.CaptureFixture[str], verbosity: int) -> None:
    if verbosity:
        GlobalOptions.enable_logging(verbosity)
    log_as_json()
    logger = logging.getLogger("freight_exchange.bot")
    logger.info("running", extra={"offer": object})
    logger.debug("details")
    logging.getLogger("tariff").warning("late")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == ["running", *(["details"] if verbosity else []), "late"]
