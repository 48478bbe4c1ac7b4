"""Outcomes of a delivery: exceptions that handlers raise, and errors that the store keeps."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from freight_exchange.errors import ValidationError

IN_DOUBT: Final = "its offer is in doubt"
"""Stored error of a delivery that waits for the result of an offer."""

_MAX_DELAY: Final = timedelta(days=36525).total_seconds()


def describe(value: object) -> str:
    """Return a value as text that any store can hold. The text of an error begins with its type."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - `__str__` of the user's own class
        text = "" if isinstance(value, BaseException) else type(value).__name__
    if isinstance(value, BaseException):
        text = f"{type(value).__name__}: {text}" if text else type(value).__name__
    # File names and JSON can contain lone surrogates, which no encoding holds, and texts of PostgreSQL no NUL.
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


class RetryLater(Exception):
    """Request of a handler to be called again later. It does not count as a failure and has no limit.

    Args:
        delay: A `timedelta` or seconds, default one minute; at least one second passes.
        reason: A text or an error, for the log.
    """

    delay = 60.0
    reason = ""

    def __init__(self, delay: timedelta | float = delay, reason: object = "") -> None:
        if isinstance(delay, bool) or not isinstance(delay, timedelta | int | float):
            raise ValidationError(f"delay must be a timedelta or seconds, not a {type(delay).__name__}", field="delay")
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        # Compared before the conversion: an integer can be too large for a float.
        if not 0 <= seconds <= _MAX_DELAY:
            raise ValidationError("delay must be a time that is not negative, and less than a century", field="delay")
        super().__init__(delay, reason)
        self.delay = float(seconds)
        self.reason = describe(reason)

    def __str__(self) -> str:
        return self.reason or f"again in {self.delay:g} s"


class ProcessEnd(BaseException):
    """Carrier of a `SystemExit` or `KeyboardInterrupt` from a handler's task to the bot's.

    An event loop stops at once when one of these leaves a task, and closes nothing.
    """

    def __init__(self, reason: SystemExit | KeyboardInterrupt) -> None:
        super().__init__(reason)
        self.reason = reason


class Drop(Exception):
    """End of a delivery by its handler: the event counts as handled.

    Args:
        reason: A text or an error, for the log.
    """

    reason = ""

    def __init__(self, reason: object = "") -> None:
        super().__init__(reason)
        self.reason = describe(reason)

    def __str__(self) -> str:
        return self.reason
