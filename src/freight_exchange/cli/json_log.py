"""Log as JSON lines, for programs that collect logs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

__all__ = ["JSONFormatter", "log_as_json"]

_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PACKAGE: Final = "freight_exchange"


class JSONFormatter(logging.Formatter):
    """Formatter that writes a record as one JSON object: time, level, logger, message, extra fields, and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def log_as_json() -> None:
    """Write the log and Python's warnings to standard error as JSON lines; a handler of `-v` is replaced."""
    package = logging.getLogger(_PACKAGE)
    for handler in [handler for handler in package.handlers if not isinstance(handler, logging.NullHandler)]:
        package.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter())
    # The root logger: records of the bot's own modules and of libraries are JSON too.
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(capture=True)
    if package.level == logging.NOTSET:
        package.setLevel(logging.INFO)
