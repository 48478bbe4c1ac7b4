"""How the program ends: whatever goes wrong becomes one sentence on standard error and one status, by one table."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final

import click

from freight_exchange.cli.text import clean
from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    FreightExchangeError,
    HeldError,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitedError,
    ServerError,
    StoreError,
    TransportError,
    ValidationError,
)

__all__ = ["ADVICE", "STATUSES", "Ending", "InterruptedWriteError", "Status", "ended"]


class Status(IntEnum):
    """What the program exits with: numbers of `sysexits.h` where those fit, and a bot's where it has them."""

    DONE = 0
    BUG = 1
    USAGE = 2
    REFUSED = 65
    NOT_FOUND = 66
    UNAVAILABLE = 69
    STORE = 73
    OUTCOME_UNKNOWN = 74
    TRY_LATER = 75
    UNEXPECTED = 76
    LOGIN_REJECTED = 77
    CONFIGURATION = 78
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class InterruptedWriteError(Exception):
    """Somebody interrupted the program while a write was on its way."""


def _is_permanent(error: FreightExchangeError) -> bool:
    return isinstance(error, TransportError) and error.permanent


def _is_of_the_login(error: FreightExchangeError) -> bool:
    return error.path == "login"


STATUSES: Final[
    tuple[tuple[type[FreightExchangeError], Callable[[FreightExchangeError], bool] | None, Status], ...]
] = (
    (OutcomeUnknownError, None, Status.OUTCOME_UNKNOWN),
    (ValidationError, None, Status.USAGE),
    (ConfigurationError, None, Status.CONFIGURATION),
    (HeldError, None, Status.TRY_LATER),
    (StoreError, None, Status.STORE),
    (AuthenticationError, None, Status.LOGIN_REJECTED),
    (RateLimitedError, None, Status.TRY_LATER),
    (ServerError, None, Status.UNAVAILABLE),
    # A wrong URL is met at the login first.
    (NotFoundError, _is_of_the_login, Status.UNEXPECTED),
    (NotFoundError, None, Status.NOT_FOUND),
    (APIStatusError, _is_of_the_login, Status.UNEXPECTED),
    (APIStatusError, None, Status.REFUSED),
    (DecodeError, None, Status.UNEXPECTED),
    (FeedProtocolError, None, Status.UNEXPECTED),
    (TransportError, _is_permanent, Status.UNEXPECTED),
    (TransportError, None, Status.UNAVAILABLE),
    (DeadlineExceededError, None, Status.UNAVAILABLE),
)
"""The first row that fits an error says the status."""

ADVICE: Final = {
    Status.UNAVAILABLE: "Nothing was changed: try again later.",
    Status.LOGIN_REJECTED: "Check the email and the password; too many wrong ones may lock the account.",
    Status.UNEXPECTED: "Is the URL right? It is the API root, such as https://host/api.",
    Status.OUTCOME_UNKNOWN: "Do not send it again before you have looked whether it is there.",
}
"""What to do about it, where the error itself may not say."""


class Ending:
    """The status that the program exits with."""

    def __init__(self) -> None:
        self.status: int = Status.DONE


@contextlib.contextmanager
def ended() -> Iterator[Ending]:
    """Run the program within: however it ends, the reason is said, and the status is known. A bug shows its traceback,
    and ends with 1."""
    ending = Ending()
    try:
        yield ending
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        ending.status = end.exit_code
    except click.ClickException as error:
        ending.status = error.exit_code
        _show(error)
    except FreightExchangeError as error:
        ending.status = status_of(error)
        if ending.status == Status.BUG:
            raise
        _say(str(error), ADVICE.get(Status(ending.status)))
    except InterruptedWriteError as error:
        ending.status = Status.OUTCOME_UNKNOWN
        _say(str(error), ADVICE[Status.OUTCOME_UNKNOWN])
    except (KeyboardInterrupt, click.Abort):
        ending.status = Status.INTERRUPTED
        _say("interrupted")
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ESHUTDOWN):
            raise
        ending.status = Status.PIPE_CLOSED
        _fall_silent()


def status_of(error: FreightExchangeError) -> int:
    """The status for this error; that of a bug for one which nobody has thought of."""
    for kind, fits, status in STATUSES:
        if isinstance(error, kind) and (fits is None or fits(error)):
            return status
    return Status.BUG


def _show(error: click.ClickException) -> None:
    if isinstance(error, click.UsageError):
        error.show()
    else:
        _say(error.format_message())


def _say(sentence: str, advice: str | None = None) -> None:
    # A reader that is gone does not change how the program ends.
    with contextlib.suppress(OSError):
        click.echo(f"Error: {clean(sentence)}", err=True)
        if advice is not None:
            click.echo(f"  {advice}", err=True)


def _fall_silent() -> None:
    """Nobody reads any more: what is still to be written at the interpreter's end must not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
