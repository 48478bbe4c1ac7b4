"""Run of a command: event loop, signals, dialogue, and the exit status of each error."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final, TypeVar

import click

from freight_exchange import errors
from freight_exchange.errors import FreightExchangeError
from freight_exchange.platform.text import clean

T = TypeVar("T")


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


class Failure(click.ClickException):
    """End of a command with a sentence, a status and notes."""

    def __init__(self, message: str, status: Status, *notes: str) -> None:
        super().__init__(message)
        self.exit_code = status  # type: ignore[misc]  # click declares it for the class
        self.__notes__ = list(notes)


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` in an event loop and return its result. Ctrl-C or SIGTERM cancel it and raise `KeyboardInterrupt`."""
    import asyncio

    async def supervise() -> T:
        task = asyncio.ensure_future(main())
        # As asyncio does after Ctrl-C, which a program that a script starts in the background ignores.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    try:
        return asyncio.run(supervise())
    except asyncio.CancelledError:
        raise KeyboardInterrupt(signal.SIGTERM) from None
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


def warn(line: str) -> None:
    """Print a line to standard error; a failure to print is ignored."""
    with contextlib.suppress(OSError):
        click.echo(line, err=True)


def is_interactive() -> bool:
    """Return whether standard input and standard error are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


async def confirm(question: str, effect: str = "sent") -> None:
    """Ask the user to confirm; end the command if the user declines, or if there is no terminal to ask on."""
    import anyio

    if not is_interactive():
        raise click.UsageError(f"there is no terminal to ask on: give --yes to confirm; nothing was {effect}")
    click.echo(f"{clean(question)} [y/N]: ", nl=False, err=True)
    # A terminal is readable once a line is complete. Until then a signal cancels the wait, as it does any other.
    await anyio.wait_readable(sys.stdin)
    answer = sys.stdin.readline()
    if not answer:
        raise click.Abort
    if answer.strip().casefold() not in ("y", "yes"):
        raise Failure(f"nothing was {effect}", Status.USAGE)


# Exit statuses

_STATUSES: Final[Sequence[tuple[type[FreightExchangeError], Status]]] = (
    (errors.OutcomeUnknownError, Status.OUTCOME_UNKNOWN),
    (errors.ValidationError, Status.USAGE),
    (errors.ConfigurationError, Status.CONFIGURATION),
    (errors.HeldError, Status.TRY_LATER),
    (errors.StoreAwayError, Status.TRY_LATER),
    (errors.StoreError, Status.STORE),
    (errors.AuthenticationError, Status.LOGIN_REJECTED),
    (errors.RateLimitedError, Status.TRY_LATER),
    (errors.ServerError, Status.UNAVAILABLE),
    (errors.NotFoundError, Status.NOT_FOUND),
    (errors.APIStatusError, Status.REFUSED),
    (errors.DecodeError, Status.UNEXPECTED),
    (errors.FeedProtocolError, Status.UNEXPECTED),
    (errors.TransportError, Status.UNAVAILABLE),
    (errors.DeadlineExceededError, Status.UNAVAILABLE),
)
_ADVICE: Final = {
    Status.UNAVAILABLE: "Nothing was changed. Is the URL right, and the service up? If so, try again later.",
    Status.UNEXPECTED: "Is the URL right? It is the API root, such as https://host/api. --ca-file is for private"
    " certificate authorities.",
}
_LOCKED: Final = "Check both: too many wrong passwords may lock the account."


def status_of(error: FreightExchangeError) -> Status | None:
    """Return the exit status of an error, or `None` for a bug."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
    if status == Status.STORE:
        from freight_exchange.store.errors import ConflictError  # imports sqlite3

        return Status.TRY_LATER if isinstance(error, ConflictError) else status
    # The login is the first call to meet a wrong URL.
    is_wrong_url = error.path == "login" and status in (Status.NOT_FOUND, Status.REFUSED)
    if is_wrong_url or (isinstance(error, errors.TransportError) and error.permanent):
        return Status.UNEXPECTED
    is_paused = isinstance(error, errors.AuthenticationError) and error.retry_after is not None
    return Status.TRY_LATER if is_paused and not isinstance(error, errors.LoginRejectedError) else status


def exit_status_of(body: Callable[[], object]) -> int:
    """Run `body`, report its errors on standard error and return the exit status. A bug is raised."""
    _prepare_streams()
    try:
        body()
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        if isinstance(error, click.UsageError):
            with contextlib.suppress(OSError):
                error.show()
        else:
            _report(error.format_message(), *getattr(error, "__notes__", ()))
        if error.exit_code == Status.NOT_PRINTED:
            _discard_stdout()
        return error.exit_code
    except FreightExchangeError as error:
        if (status := status_of(error)) is None:
            raise
        message, advice = str(error), _ADVICE.get(status)
        if isinstance(error, errors.LoginRejectedError):
            message, advice = "the service rejected the email or password", _LOCKED
        _report(message, *getattr(error, "__notes__", ()), advice)
        return status
    except (KeyboardInterrupt, click.Abort) as error:
        if is_interactive():
            # The cursor is behind a prompt or an echoed `^C`.
            warn("")
        _report("interrupted")
        return 128 + int(error.args[0] if error.args else signal.SIGINT)
    except OSError as error:
        if is_full := _is_output_full(error):
            _report(f"the output cannot be written: {error.strerror}")
        elif error.errno not in (errno.EPIPE, errno.ESHUTDOWN):
            raise
        _discard_stdout()
        return Status.STORE if is_full else Status.PIPE_CLOSED
    return Status.DONE


def _is_output_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) and error.filename is None


def not_printed(error: OSError, *notes: str) -> Exception:
    """Return the failure of a command that took effect and could not print its result, or another error as it is."""
    message = f"the command took effect, but its result could not be printed: {error.strerror}"
    return Failure(message, Status.NOT_PRINTED, *notes) if _is_output_full(error) else error


def _report(message: str, *details: str | None) -> None:
    warn(f"Error: {clean(message)}")
    for detail in filter(None, details):
        warn(f"  {clean(detail)}")


def _prepare_streams() -> None:
    """Replace closed streams with the null device, and escape characters that the encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Redirect standard output to the null device, so that the flush at exit cannot fail."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())
