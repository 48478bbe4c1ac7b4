"""Options that several commands have, and what their values may look like."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

import freight_exchange

if TYPE_CHECKING:
    from freight_exchange.models.enums import Word

    ParamType = click.ParamType[Any]
else:
    # Generic in the newest click alone.
    ParamType = click.ParamType

__all__ = [
    "FILE",
    "INDEX",
    "MOMENT",
    "SECONDS",
    "Duration",
    "ParamType",
    "WordOf",
    "json_option",
    "limit_option",
    "weight_is_assumed",
    "weight_option",
    "yes_option",
]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])", re.ASCII)
_LARGEST_INDEX: Final = 2**63 - 1


def json_option(command: Decorated) -> Decorated:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, for programs.")(command)


def yes_option(command: Decorated) -> Decorated:
    return click.option("-y", "--yes", is_flag=True, help="Do not ask before it is sent.")(command)


def limit_option(command: Decorated) -> Decorated:
    return click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="Stop after so many; all of them unless told."
    )(command)


def weight_option(command: Decorated) -> Decorated:
    return click.option(
        "--weight",
        "per",
        type=click.Choice(["unit", "total"]),
        default="unit",
        show_default=True,
        help="Read a request's weight as that of one packaging unit, or as the total of all units.",
    )(command)


def weight_is_assumed(context: click.Context) -> bool:
    """Return whether `--weight` was left out, so that its default decides how weights are read."""
    return context.get_parameter_source("per") is ParameterSource.DEFAULT


class Duration(ParamType):
    """A time such as `90s`, `15m`, `6h`, `5d`.

    Args:
        most: The most days that it may be.
        why: Why no more.
        zero: Whether it may be no time at all.
    """

    name = "duration"

    def __init__(self, most: int, why: str = "", *, zero: bool = False) -> None:
        self._most = most
        self._why = why
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        length = _length(value)
        if length is None:
            self.fail(f"{value!r} is no time such as 90s, 15m, 6h or 5d", param, ctx)
        if length > timedelta(days=self._most):
            self.fail(f"{value!r} is too long: {self._most}d is the most{self._why}", param, ctx)
        if not (length or self._zero):
            self.fail(f"{value!r} is too short: it must be more than 0s", param, ctx)
        return length


def _length(text: str) -> timedelta | None:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    try:
        return timedelta(**{_UNITS[found[2]]: float(found[1])})
    except OverflowError:
        return timedelta.max


class _Seconds(ParamType):
    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            self.fail(f"{value!r} is no number of seconds above 0", param, ctx)
        return seconds


class _Index(ParamType):
    name = "index"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            index = int(value)
        except ValueError:
            index = 0
        if not 0 < index <= _LARGEST_INDEX:
            self.fail(f"{value!r} is no number of a record: they are whole numbers from 1 on", param, ctx)
        return index


class _File(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not value:
            self.fail("it must not be empty", param, ctx)
        return super().convert(value, param, ctx)


class _Moment(ParamType):
    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            self.fail(f"{value!r} is no date such as 2027-03-01 or '2027-03-01 17:00'", param, ctx)


FILE: Final = _File(dir_okay=False)
"""The path of a file, which need not be there."""

INDEX: Final = _Index()
"""The number by which the service, or a bot's file, knows a record."""

MOMENT: Final = _Moment()
"""A date, or a date and a time of day."""


SECONDS: Final = _Seconds()
"""A number of seconds, more than none."""


class WordOf(ParamType):
    """A word of the service's vocabulary, in any case; `-` and `_` stand for the blank in it.

    Args:
        vocabulary: The name of an enum of `freight_exchange`, which is imported when a word is read.
    """

    def __init__(self, vocabulary: str) -> None:
        self.name = "word"
        self._vocabulary = vocabulary

    @property
    def words(self) -> list[str]:
        members: type[Word] = getattr(freight_exchange, self._vocabulary)
        return [member.value for member in members]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(self.words)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        given = _spelt(str(value))
        found = next((word for word in self.words if _spelt(word) == given), None)
        if found is None:
            self.fail(f"{value!r} is none of {', '.join(self.words)}", param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self.words if word.casefold().startswith(incomplete.casefold())]


def _spelt(word: str) -> str:
    return " ".join(re.split(r"[\s_-]+", word.strip())).casefold()
