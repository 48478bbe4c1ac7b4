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
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import attrs
import click

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

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

__all__ = [
    "RULES", "Failure", "Interrupted", "Rule", "Status", "confirm", "exit_status_of", "is_interactive",
    "is_output_full", "run", "warn", "yes_option",
]  # fmt: skip

T = TypeVar("T")
Effect = Literal["sent", "changed"]
"""Effect of a command that asks: it sends something to the service, or changes a file."""


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


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM.

    Args:
        number: The signal.
        is_reported: Whether it is an interruption, and not the regular end of the command.
    """

    def __init__(self, number: int, *, is_reported: bool = True) -> None:
        super().__init__()
        self.number = number
        self.is_reported = is_reported


class Failure(click.ClickException):
    """End of a command with a status and a sentence."""

    def __init__(self, message: str, status: Status, *notes: str) -> None:
        super().__init__(message)
        self.exit_code = status  # type: ignore[misc]  # click declares it for the class
        self.__notes__ = list(notes)


# Event loop


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` in an event loop and return its result. A signal cancels it.

    Raises:
        Interrupted: Ctrl-C or SIGTERM came before its end.
    """
    import anyio

    # A program that a script starts in the background ignores Ctrl-C, and must keep ignoring it.
    numbers = [one for one in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(one) is not signal.SIG_IGN]
    results: list[T] = []
    received: list[int] = []

    async def supervise() -> None:
        async with anyio.create_task_group() as tasks:

            async def cancel_at_signal(*, task_status: TaskStatus[None]) -> None:
                with anyio.open_signal_receiver(*numbers) as signals:
                    task_status.started()
                    async for number in signals:
                        received.append(number)
                        tasks.cancel_scope.cancel()

            await tasks.start(cancel_at_signal)
            results.append(await main())
            tasks.cancel_scope.cancel()

    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        anyio.run(supervise)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
    finally:
        # The event loop leaves the system's handlers.
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if not results:
        raise Interrupted(received[0])
    return results[0]


# Dialogue


def warn(line: str) -> None:
    """Print a line to standard error; a failure to print is ignored."""
    with contextlib.suppress(OSError):
        click.echo(line, err=True)


def is_interactive() -> bool:
    """Return whether standard input and standard error are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def yes_option(effect: Effect, *, unless: Sequence[str] = ()) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add `--yes`. Without it and without a terminal, the command is rejected before any other work.

    Args:
        effect: The effect of the command.
        unless: Flags of the command that ask for no confirmation.
    """

    def check(context: click.Context, _: click.Parameter, yes: bool) -> bool:
        if not (yes or is_interactive() or any(map(context.params.get, unless))):
            raise click.UsageError(f"there is no terminal to ask on: give --yes to confirm; nothing was {effect}")
        return yes

    return click.option("-y", "--yes", is_flag=True, callback=check, help="Do not ask for confirmation.")


async def confirm(question: str, *, yes: bool, effect: Effect = "sent") -> None:
    """Ask the user to confirm, unless `yes` is true.

    Raises:
        Failure: The user declines.
        Abort: The input ends.
    """
    import anyio

    if yes:
        return
    click.echo(f"{clean(question)} [y/N]: ", nl=False, err=True)
    # A terminal is readable once a line is complete. Until then a signal cancels the wait, as it does any other.
    await anyio.wait_readable(sys.stdin)
    answer = sys.stdin.readline()
    if not answer:
        raise click.Abort
    if answer.strip().casefold() not in ("y", "yes"):
        raise Failure(f"nothing was {effect}", Status.USAGE)


# Exit statuses


def _is_login_call(error: FreightExchangeError) -> bool:
    return error.path == "login"


def _is_login_paused(error: FreightExchangeError) -> bool:
    return isinstance(error, AuthenticationError) and error.retry_after is not None


def _is_permanent(error: FreightExchangeError) -> bool:
    return isinstance(error, TransportError) and error.permanent


def _is_certificate(error: FreightExchangeError) -> bool:
    return _is_permanent(error) and error.message.startswith("the certificate of ")


@attrs.frozen
class Rule:
    """Exit status of an error.

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
    applies: Callable[[FreightExchangeError], bool] | None = None
    advice: str | None = None


RULES: Final = (
    Rule(OutcomeUnknownError, Status.OUTCOME_UNKNOWN),
    Rule(ValidationError, Status.USAGE),
    Rule(ConfigurationError, Status.CONFIGURATION),
    Rule(HeldError, Status.TRY_LATER),
    Rule(StoreAwayError, Status.TRY_LATER),
    Rule(ConflictError, Status.TRY_LATER),
    Rule(StoreError, Status.STORE),
    Rule(
        LoginRejectedError,
        Status.LOGIN_REJECTED,
        "the service rejected the email or password",
        advice="Check both: too many wrong passwords may lock the account.",
    ),
    Rule(AuthenticationError, Status.TRY_LATER, applies=_is_login_paused),
    Rule(AuthenticationError, Status.LOGIN_REJECTED),
    Rule(RateLimitedError, Status.TRY_LATER),
    Rule(ServerError, Status.UNAVAILABLE),
    # The login is the first call to meet a wrong URL.
    Rule(NotFoundError, Status.UNEXPECTED, "there is no exchange at this URL", _is_login_call),
    Rule(NotFoundError, Status.NOT_FOUND),
    Rule(APIStatusError, Status.UNEXPECTED, applies=_is_login_call),
    Rule(APIStatusError, Status.REFUSED),
    Rule(DecodeError, Status.UNEXPECTED),
    Rule(FeedProtocolError, Status.UNEXPECTED),
    Rule(
        TransportError,
        Status.UNEXPECTED,
        applies=_is_certificate,
        advice="Nothing was sent: the server may be an impostor. See --ca-file if its authority is a private one.",
    ),
    Rule(TransportError, Status.UNEXPECTED, applies=_is_permanent),
    Rule(TransportError, Status.UNAVAILABLE),
    Rule(DeadlineExceededError, Status.UNAVAILABLE),
)
"""Rules in order of precedence: the first that applies decides, and an error without one is a bug."""

_ADVICE: Final = {
    Status.UNAVAILABLE: "Nothing was changed. Is the URL right, and the service up? If so, try again later.",
    Status.UNEXPECTED: "Is the URL right? It is the API root, such as https://host/api.",
}
_CLOSED: Final = (errno.EPIPE, errno.ESHUTDOWN)


def exit_status_of(body: Callable[[], object]) -> int:
    """Run `body`, report its errors on standard error and return the exit status. A bug is raised."""
    _prepare_streams()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, _terminate)
    try:
        body()
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        with contextlib.suppress(OSError):
            error.show()
        return error.exit_code
    except click.ClickException as error:
        _report(error.format_message(), *_notes(error))
        if error.exit_code == Status.NOT_PRINTED:
            _discard_stdout()
        return error.exit_code
    except FreightExchangeError as error:
        matching = (one for one in RULES if isinstance(error, one.error_type))
        rule = next((one for one in matching if one.applies is None or one.applies(error)), None)
        if rule is None:
            raise
        _report(rule.message or str(error), *_notes(error), rule.advice or _ADVICE.get(rule.status))
        return rule.status
    except (KeyboardInterrupt, click.Abort) as error:
        # A second Ctrl-C during the report would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        end = error if isinstance(error, Interrupted) else Interrupted(signal.SIGINT)
        if end.is_reported:
            if is_interactive():
                # The cursor is behind a prompt or an echoed `^C`.
                warn("")
            _report("interrupted")
        return 128 + end.number
    except OSError as error:
        if error.errno not in _CLOSED and not is_output_full(error):
            raise
        if error.errno not in _CLOSED:
            _report(f"the output cannot be written: {error.strerror}")
        _discard_stdout()
        return Status.PIPE_CLOSED if error.errno in _CLOSED else Status.STORE
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Status.DONE


def is_output_full(error: OSError) -> bool:
    """Return whether standard output has no room left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) and error.filename is None


def _terminate(number: int, _: object) -> None:
    raise Interrupted(number)


def _notes(error: Exception) -> Sequence[str]:
    return getattr(error, "__notes__", ())


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
    null = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(null, sys.stdout.fileno())
    os.close(null)
