"""Formats of a listing, and the options that choose one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, TypeVar

import click

__all__ = ["Output", "format_options"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

Output: TypeAlias = Literal["json", "csv"] | None
"""Format of a listing; `None` is a table."""

_json_format: Final = click.option(
    "--json", "output", flag_value="json", help="Print one JSON object per line, for programs."
)
_csv_format: Final = click.option(
    "--csv", "output", flag_value="csv", help="Print CSV with a header, for spreadsheets and data frames."
)


def format_options(command: Decorated) -> Decorated:
    """Add `--json` and `--csv`, passed as `output`."""
    return _json_format(_csv_format(command))
