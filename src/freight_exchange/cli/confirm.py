"""Asking before something is sent, or changed in a file, that cannot be taken back."""

from __future__ import annotations

import signal
from typing import Literal, TypeAlias

import click

from freight_exchange.cli.session import on_a_terminal

__all__ = ["check", "confirm"]

Done: TypeAlias = Literal["sent", "changed"]
"""What the command would do: send something to the service, or change a file."""


def check(*, yes: bool, done: Done = "sent") -> None:
    """Refuse what nobody could be asked about, before anything else is done.

    Raises:
        UsageError: It is not confirmed, and there is nobody to ask.
    """
    if not yes and not on_a_terminal():
        raise click.UsageError(f"there is no terminal to ask on: give --yes if it is to be {done}; nothing was {done}")


def confirm(question: str, *, yes: bool, done: Done = "sent") -> None:
    """Go on only if the user says so.

    Raises:
        ClickException: The user says no.
    """
    if yes:
        return
    # A loop turns Ctrl-C into a cancellation, which would wait for the answer.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        agreed = click.confirm(question, err=True)
    finally:
        signal.signal(signal.SIGINT, before)
    if not agreed:
        raise NotConfirmedError(f"nothing was {done}")


class NotConfirmedError(click.ClickException):
    """The user said no."""

    exit_code = 2
