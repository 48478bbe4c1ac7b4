"""What a handler raises to say what is to become of its delivery."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from freight_exchange.errors import ValidationError

__all__ = ["Drop", "ProcessEnd", "RetryLater", "leaves", "told"]

_A_MINUTE: Final = timedelta(minutes=1)
_LONGEST: Final = timedelta(days=36525).total_seconds()


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors that task groups have wrapped, without the wrappings."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def told(value: object) -> str:
    """What a value says, and of which kind an error is, as text that any store can keep: whatever `str` makes of it."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - it is the user's own code
        text = "" if isinstance(value, BaseException) else type(value).__name__
    if isinstance(value, BaseException):
        text = f"{type(value).__name__}: {text}" if text else type(value).__name__
    # Half of a pair, which file names and JSON may bring, is in no encoding.
    return text.encode("utf-8", "backslashreplace").decode()


class RetryLater(Exception):
    """The handler cannot do its work yet and is to be called again: no failure, and not counted among its retries.

    Args:
        delay: How long to wait: a `timedelta`, or seconds. What is shorter than a second is one.
        reason: Why, for whoever reads the log: a text, or the error that is in the way.
    """

    delay = _A_MINUTE.total_seconds()
    reason = ""

    def __init__(self, delay: timedelta | float = _A_MINUTE, reason: object = "") -> None:
        if isinstance(delay, bool) or not isinstance(delay, timedelta | int | float):
            raise ValidationError(f"delay must be a timedelta or seconds, not a {type(delay).__name__}", field="delay")
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        # Compared and not converted: an integer can be too long for a float.
        if not 0 <= seconds <= _LONGEST:
            raise ValidationError("delay must be a time that is not negative, and less than a century", field="delay")
        super().__init__(delay, reason)
        self.delay = float(seconds)
        self.reason = told(reason)

    def __str__(self) -> str:
        return self.reason or f"again in {self.delay:g} s"


class ProcessEnd(BaseException):
    """Carries what is to end the process out of a handler's task.

    An event loop throws `SystemExit` and `KeyboardInterrupt` out of itself the moment they leave a task, and nothing is
    closed any more; from the task that runs the bot they may leave.
    """

    def __init__(self, reason: SystemExit | KeyboardInterrupt) -> None:
        super().__init__(reason)
        self.reason = reason


class Drop(Exception):
    """The handler wants nothing more to do with this event: it counts as handled.

    Args:
        reason: Why, for whoever reads the log: a text, or the error that says so.
    """

    reason = ""

    def __init__(self, reason: object = "") -> None:
        super().__init__(reason)
        self.reason = told(reason)

    def __str__(self) -> str:
        return self.reason
