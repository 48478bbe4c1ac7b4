"""What is said on standard error, beside what is printed."""

from __future__ import annotations

import contextlib

import click

__all__ = ["aside"]


def aside(line: str) -> None:
    """Say a line on standard error; that nobody can hear it changes nothing of what is done."""
    with contextlib.suppress(OSError):
        click.echo(line, err=True)
