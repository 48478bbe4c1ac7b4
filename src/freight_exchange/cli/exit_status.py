"""Exit statuses: one table maps each error to a status and a message on standard error."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

import attrs
import click

from freight_exchange.cli.messages import explain_misplaced_option, translate_error
from freight_exchange.cli.terminal import warn
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
    StoreAwayError,
    StoreError,
    TransportError,
    ValidationError,
)
from freight_exchange.platform.text import clean
from freight_exchange.store.protocol import ConflictError

__all__ = [
    "EXIT_RULES",
    "ExitRule",
    "InterruptedWriteError",
    "OutputError",
    "ProgramResult",
    "QuietInterrupt",
    "Status",
    "find_rule",
    "handle_errors",
    "is_output_full",
]


class Status(IntEnum):
    """Exit status: a number of `sysexits.h`, or the bot's own number for a failure of the bot."""

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


class QuietInterrupt(KeyboardInterrupt):
    """Interrupt that is the regular end of a command, so that nothing is reported."""


class InterruptedWriteError(Exception):
    """Interrupt while a write is in flight, so that its outcome is unknown."""


class OutputError(Exception):
    """Failure to print the result of a command that has taken effect.

    Args:
        cause: The error of the output stream.
    """

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"the command took effect, but its result could not be printed: {cause.strerror}")


def _is_permanent(error: FreightExchangeError) -> bool:
    return isinstance(error, TransportError) and error.permanent


def _is_certificate_error(error: FreightExchangeError) -> bool:
    return _is_permanent(error) and str(error).startswith("the certificate of ")


def _is_login_error(error: FreightExchangeError) -> bool:
    return error.path == "login"


def _is_login_paused(error: FreightExchangeError) -> bool:
    return isinstance(error, AuthenticationError) and error.retry_after is not None


@attrs.frozen
class ExitRule:
    """Mapping of an error to an exit status.

    Attributes:
        error_type: The class of the error.
        status: The exit status.
        message: The message; `None` for that of the error.
        applies: A further condition on the error.
        advice: The last line of the report; `None` for that of the status.
    """

    error_type: type[FreightExchangeError]
    status: Status
    message: str | None = None
    applies: Callable[[FreightExchangeError], bool] = lambda _: True
    advice: str | None = None


EXIT_RULES: Final = (
    ExitRule(OutcomeUnknownError, Status.OUTCOME_UNKNOWN),
    ExitRule(ValidationError, Status.USAGE),
    ExitRule(ConfigurationError, Status.CONFIGURATION),
    ExitRule(HeldError, Status.TRY_LATER),
    ExitRule(StoreAwayError, Status.TRY_LATER),
    ExitRule(ConflictError, Status.TRY_LATER),
    ExitRule(StoreError, Status.STORE),
    ExitRule(
        LoginRejectedError,
        Status.LOGIN_REJECTED,
        "the service rejected the email or password",
        advice="Check both: too many wrong passwords may lock the account.",
    ),
    ExitRule(AuthenticationError, Status.TRY_LATER, applies=_is_login_paused),
    ExitRule(AuthenticationError, Status.LOGIN_REJECTED),
    ExitRule(RateLimitedError, Status.TRY_LATER),
    ExitRule(ServerError, Status.UNAVAILABLE),
    # The login is the first call to meet a wrong URL.
    ExitRule(NotFoundError, Status.UNEXPECTED, "there is no exchange at this URL", _is_login_error),
    ExitRule(NotFoundError, Status.NOT_FOUND),
    ExitRule(APIStatusError, Status.UNEXPECTED, applies=_is_login_error),
    ExitRule(APIStatusError, Status.REFUSED),
    ExitRule(DecodeError, Status.UNEXPECTED),
    ExitRule(FeedProtocolError, Status.UNEXPECTED),
    ExitRule(
        TransportError,
        Status.UNEXPECTED,
        applies=_is_certificate_error,
        advice="Nothing was sent: the server may be an impostor.",
    ),
    ExitRule(TransportError, Status.UNEXPECTED, applies=_is_permanent),
    ExitRule(TransportError, Status.UNAVAILABLE),
    ExitRule(DeadlineExceededError, Status.UNAVAILABLE),
)
"""Rules in order of precedence: the first that applies decides, and an error without one is a bug."""

_ADVICE: Final = {
    Status.UNAVAILABLE: "Nothing was changed. Is the URL right, and the service up? If so, try again later.",
    Status.UNEXPECTED: "Is the URL right? It is the API root, such as https://host/api.",
}
_OUTPUT_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class ProgramResult:
    """Exit status of the program, known once `handle_errors` has ended."""

    def __init__(self) -> None:
        self.status: int = Status.DONE
        self.interrupt_status = Status.INTERRUPTED

    def terminate(self, *_: object) -> None:
        """Handle SIGTERM as Ctrl-C, so that a write in flight is reported."""
        self.interrupt_status = Status.TERMINATED
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # A program that a script starts in the background ignores Ctrl-C, but must obey SIGTERM.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def handle_errors() -> Iterator[ProgramResult]:
    """Report the errors of the body on standard error and set the exit status; re-raise a bug, with status 1."""
    result = ProgramResult()
    _prepare_streams()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, result.terminate)
    try:
        yield result
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        result.status = error.exit_code
    except click.ClickException as error:
        result.status = error.exit_code
        _report_click_error(error)
    except FreightExchangeError as error:
        rule = find_rule(error)
        if rule is None:
            result.status = Status.BUG
            raise
        result.status = rule.status
        advice = rule.advice or _ADVICE.get(rule.status)
        _report(rule.message or translate_error(error), *_notes(error), advice)
    except InterruptedWriteError as error:
        result.status = Status.OUTCOME_UNKNOWN
        _report(str(error), *_notes(error))
    except OutputError as error:
        result.status = Status.NOT_PRINTED
        _report(str(error), *_notes(error))
        _discard_stdout()
    except QuietInterrupt:
        result.status = result.interrupt_status
    except (KeyboardInterrupt, click.Abort) as error:
        result.status = result.interrupt_status
        # A second Ctrl-C during the report would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if isinstance(error, KeyboardInterrupt) and sys.stderr.isatty():
            # The terminal has echoed `^C`.
            warn("")
        _report("interrupted")
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ESHUTDOWN):
            result.status = Status.PIPE_CLOSED
        elif is_output_full(error):
            result.status = Status.STORE
            _report(f"the output cannot be written: {error.strerror}")
        else:
            raise
        _discard_stdout()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def is_output_full(error: OSError) -> bool:
    """Return whether standard output has no room left."""
    return error.errno in _OUTPUT_FULL and error.filename is None


def find_rule(error: FreightExchangeError) -> ExitRule | None:
    """Return the first rule that applies to an error."""
    return next((rule for rule in EXIT_RULES if isinstance(error, rule.error_type) and rule.applies(error)), None)


def _notes(error: Exception) -> Sequence[str]:
    return getattr(error, "__notes__", ())


def _report_click_error(error: click.ClickException) -> None:
    if isinstance(error, click.UsageError):
        if (message := explain_misplaced_option(error)) is not None:
            error = click.UsageError(message, error.ctx)
        with contextlib.suppress(OSError):
            error.show()
    else:
        _report(error.format_message())


def _report(message: str, *details: str | None) -> None:
    warn(f"Error: {clean(message)}")
    for detail in filter(None, details):
        warn(f"  {clean(detail)}")


def _prepare_streams() -> None:
    """Replace closed streams with the null device and escape characters that the encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Redirect standard output to the null device, so that the flush at exit cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(null, sys.stdout.fileno())
    os.close(null)
