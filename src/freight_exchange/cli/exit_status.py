"""How the program ends: whatever goes wrong becomes one sentence on standard error and one status, by one table."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final

import attrs
import click

from freight_exchange.cli.messages import worded
from freight_exchange.cli.warn import aside
from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    FreightExchangeError,
    HeldError,
    LoginRejectedError,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitedError,
    ServerError,
    StoreError,
    TransportError,
    ValidationError,
)
from freight_exchange.platform.text import clean

__all__ = [
    "ADVICE",
    "STATUSES",
    "Ending",
    "InterruptedWriteError",
    "Left",
    "NotPrintedError",
    "Row",
    "Status",
    "cannot_be_printed",
    "ended",
    "row_of",
]


class Status(IntEnum):
    """What the program exits with: numbers of `sysexits.h` where those fit, and a bot's where it has them."""

    DONE = 0
    BUG = 1
    USAGE = 2
    REFUSED = 65
    NOT_FOUND = 66
    UNAVAILABLE = 69
    NOT_PRINTED = 71
    STORE = 73
    OUTCOME_UNKNOWN = 74
    TRY_LATER = 75
    UNEXPECTED = 76
    LOGIN_REJECTED = 77
    CONFIGURATION = 78
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


class Left(KeyboardInterrupt):
    """Somebody ended the program in the way that there is: nothing is to be said of it."""


class InterruptedWriteError(Exception):
    """Somebody interrupted the program while a write was on its way."""


class NotPrintedError(Exception):
    """What was asked is done, and what is to be said of it cannot be printed.

    Args:
        cause: Why not.
    """

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"what was asked is done, and it could not be printed: {cause.strerror}")


def _is_permanent(error: FreightExchangeError) -> bool:
    return isinstance(error, TransportError) and error.permanent


def _is_of_the_login(error: FreightExchangeError) -> bool:
    return error.path == "login"


def _is_held(error: FreightExchangeError) -> bool:
    return isinstance(error, AuthenticationError) and error.retry_after is not None


@attrs.frozen
class Row:
    """What an error of this kind, where it fits, ends the program with; the sentence is the error's own unless told."""

    kind: type[FreightExchangeError]
    status: Status
    sentence: str | None = None
    fits: Callable[[FreightExchangeError], bool] = lambda _: True
    advice: str | None = None


STATUSES: Final = (
    Row(OutcomeUnknownError, Status.OUTCOME_UNKNOWN),
    Row(ValidationError, Status.USAGE),
    Row(ConfigurationError, Status.CONFIGURATION),
    Row(HeldError, Status.TRY_LATER),
    Row(StoreError, Status.STORE),
    Row(
        LoginRejectedError,
        Status.LOGIN_REJECTED,
        "the service rejected the email or password",
        advice="Check both: too many wrong passwords may lock the account.",
    ),
    Row(AuthenticationError, Status.TRY_LATER, fits=_is_held),
    Row(AuthenticationError, Status.LOGIN_REJECTED),
    Row(RateLimitedError, Status.TRY_LATER),
    Row(ServerError, Status.UNAVAILABLE),
    # A wrong URL is met at the login first.
    Row(NotFoundError, Status.UNEXPECTED, "there is no exchange at this URL", _is_of_the_login),
    Row(NotFoundError, Status.NOT_FOUND),
    Row(APIStatusError, Status.UNEXPECTED, fits=_is_of_the_login),
    Row(APIStatusError, Status.REFUSED),
    Row(DecodeError, Status.UNEXPECTED),
    Row(FeedProtocolError, Status.UNEXPECTED),
    Row(TransportError, Status.UNEXPECTED, fits=_is_permanent),
    Row(TransportError, Status.UNAVAILABLE),
    Row(DeadlineExceededError, Status.UNAVAILABLE),
)
"""The first row that fits an error says how the program ends; an error that none fits is a bug."""

ADVICE: Final = {
    Status.UNAVAILABLE: "Nothing was changed. Is the URL right, and the service up? If so, try again later.",
    Status.UNEXPECTED: "Is the URL right? It is the API root, such as https://host/api.",
}
"""What to do about it, where neither the sentence nor its row says."""


_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class Ending:
    """The status that the program exits with."""

    def __init__(self) -> None:
        self.status: int = Status.DONE
        self.interrupted_by = Status.INTERRUPTED

    def terminate(self, *_: object) -> None:
        """On SIGTERM, end as on Ctrl-C: what is on its way is not left without a word."""
        self.interrupted_by = Status.TERMINATED
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # What a script starts in the background is deaf to Ctrl-C, and must not be to this.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def ended() -> Iterator[Ending]:
    """Run the program within: however it ends, the reason is said, and the status is known. A bug shows its traceback,
    and ends with 1."""
    ending = Ending()
    _prepare()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, ending.terminate)
    try:
        yield ending
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        ending.status = end.exit_code
    except click.ClickException as error:
        ending.status = error.exit_code
        _show(error)
    except FreightExchangeError as error:
        row = row_of(error)
        if row is None:
            ending.status = Status.BUG
            raise
        ending.status = row.status
        said = row.sentence or worded(error)
        _say(said, *getattr(error, "__notes__", ()), row.advice or ADVICE.get(row.status))
    except InterruptedWriteError as error:
        ending.status = Status.OUTCOME_UNKNOWN
        _say(str(error), *getattr(error, "__notes__", ()))
    except NotPrintedError as error:
        ending.status = Status.NOT_PRINTED
        _say(str(error), *getattr(error, "__notes__", ()))
        _fall_silent()
    except Left:
        ending.status = ending.interrupted_by
    except (KeyboardInterrupt, click.Abort):
        ending.status = ending.interrupted_by
        # Once is enough: a second Ctrl-C while this is said would be a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _say("interrupted")
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ESHUTDOWN):
            ending.status = Status.PIPE_CLOSED
        elif cannot_be_printed(error):
            ending.status = Status.STORE
            _say(f"what was to be printed cannot be written: {error.strerror}")
        else:
            raise
        _fall_silent()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def cannot_be_printed(error: OSError) -> bool:
    """Whether it is that what was to be printed has no room."""
    return error.errno in _NO_ROOM and error.filename is None


def row_of(error: FreightExchangeError) -> Row | None:
    """The row of the table that an error fits, if one does."""
    return next((row for row in STATUSES if isinstance(error, row.kind) and row.fits(error)), None)


def _show(error: click.ClickException) -> None:
    if isinstance(error, click.UsageError):
        with contextlib.suppress(OSError):
            error.show()
    else:
        _say(error.format_message())


def _say(sentence: str, *more: str | None) -> None:
    aside(f"Error: {clean(sentence)}")
    for line in filter(None, more):
        aside(f"  {clean(line)}")


def _prepare() -> None:
    """Let no stream be a reason to fail: one that was closed, or one that cannot spell a commodity's name."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fall_silent() -> None:
    """Nobody reads any more: what is still to be written at the interpreter's end must not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
