"""Dialogue on the terminal: warnings, prompts and confirmations, all on standard error."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import Literal, TypeAlias

import click

__all__ = ["confirm", "is_interactive", "prompt", "require_confirmation", "warn"]

Action: TypeAlias = Literal["sent", "changed"]
"""Effect of the command that asks: it sends something to the service, or changes a file."""


def warn(line: str) -> None:
    """Print a line to standard error; a failure to print is ignored."""
    with contextlib.suppress(OSError):
        click.echo(line, err=True)


def is_interactive() -> bool:
    """Return whether standard input and standard error are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def prompt(text: str, *, hidden: bool = False) -> str:
    """Ask the user for a text; `hidden` does not show it.

    Raises:
        Abort: Ctrl-C, or the end of the input.
    """
    try:
        answer: str = click.prompt(text, hide_input=hidden, err=True)
    except click.Abort:
        if not hidden:
            warn("")
        raise
    return answer


def require_confirmation(*, yes: bool, action: Action = "sent") -> None:
    """Reject, before any other work, a command that can be confirmed neither by `--yes` nor on a terminal.

    Raises:
        UsageError: `yes` is false, and there is no terminal.
    """
    if not yes and not is_interactive():
        raise click.UsageError(f"there is no terminal to ask on: give --yes to confirm; nothing was {action}")


def confirm(question: str, *, yes: bool, action: Action = "sent") -> None:
    """Ask the user to confirm, unless `yes` is true.

    Raises:
        ClickException: The user declines.
    """
    if yes:
        return
    # An event loop turns Ctrl-C into a cancellation, which would wait for the answer.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        is_confirmed = click.confirm(question, err=True)
    except click.Abort:
        warn("")
        raise
    finally:
        signal.signal(signal.SIGINT, handler)
    if not is_confirmed:
        raise _DeclinedError(f"nothing was {action}")


class _DeclinedError(click.ClickException):
    exit_code = 2
