"""Asking before something is sent that cannot be taken back."""

from __future__ import annotations

import signal

import click

from freight_exchange.cli.connecting import on_a_terminal

__all__ = ["check", "confirm"]


def check(*, yes: bool) -> None:
    """Refuse what nobody could be asked about, before anything else is done.

    Raises:
        UsageError: It is not confirmed, and there is nobody to ask.
    """
    if not yes and not on_a_terminal():
        raise click.UsageError("there is no terminal to ask on: give --yes if it is to be sent; nothing was sent")


def confirm(question: str, *, yes: bool) -> None:
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
        raise NotConfirmedError("nothing was sent")


class NotConfirmedError(click.ClickException):
    """The user said no."""

    exit_code = 2
