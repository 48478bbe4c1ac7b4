"""Options that several commands have, and what their values may look like."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

import freight_exchange

if TYPE_CHECKING:
    from freight_exchange.models.enums import Word

    ParamType = click.ParamType[Any]
else:
    # Generic in the newest click alone.
    ParamType = click.ParamType

__all__ = ["DURATION", "MOMENT", "ParamType", "WordOf", "json_option", "limit_option", "yes_option"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])", re.ASCII)


def json_option(command: Decorated) -> Decorated:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, for programs.")(command)


def yes_option(command: Decorated) -> Decorated:
    return click.option("-y", "--yes", is_flag=True, help="Do not ask before it is sent.")(command)


def limit_option(command: Decorated) -> Decorated:
    return click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="Stop after so many; all of them unless told."
    )(command)


class _Duration(ParamType):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = _DURATION.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is no time such as 90s, 15m, 6h or 5d", param, ctx)
        return timedelta(**{_UNITS[found[2]]: float(found[1])})


class _Moment(ParamType):
    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            self.fail(f"{value!r} is no date such as 2027-03-01 or '2027-03-01 17:00'", param, ctx)


DURATION: Final = _Duration()
"""A time such as `90s`, `15m`, `6h`, `5d`."""

MOMENT: Final = _Moment()
"""A date, or a date and a time of day."""


class WordOf(ParamType):
    """A word of the service's vocabulary, in any case.

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
        given = str(value).strip().casefold()
        found = next((word for word in self.words if word.casefold() == given), None)
        if found is None:
            self.fail(f"{value!r} is none of {', '.join(self.words)}", param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self.words if word.casefold().startswith(incomplete.casefold())]
