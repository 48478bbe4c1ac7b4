"""Options that several commands share, and the parameter types of their values."""

from __future__ import annotations

import logging
import math
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click
from click.core import ParameterSource

import freight_exchange
from freight_exchange.cli.enum_choice import EnumChoice, ParamType
from freight_exchange.options import DEFAULT_DEADLINE
from freight_exchange.platform.text import CleanFormatter
from freight_exchange.store.database_url import is_database

if TYPE_CHECKING:
    from freight_exchange import RequestFilter
    from freight_exchange.options import CarrierField, CurrencyField, GetParameters


__all__ = [
    "DATETIME",
    "FILE",
    "FILE_OR_DATABASE",
    "INDEX",
    "SECONDS",
    "STORE_FILE",
    "Duration",
    "GlobalOptions",
    "bot_file_options",
    "build_filter",
    "filter_options",
    "is_weight_assumed",
    "json_option",
    "limit_option",
    "weight_option",
    "yes_option",
]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])", re.ASCII)
_MAX_INDEX: Final = 2**63 - 1


@attrs.frozen(kw_only=True)
class GlobalOptions:
    """Options before the command.

    Attributes:
        url: The API root, from the option or the environment.
        email: The account, from the option or the environment.
        token_file: The file with the saved login, from the option or the environment.
        timeout: Seconds that a call may take.
        proxy: The URL of a proxy.
        ca_file: A file with further certificate authorities.
        get_parameters, addresses, currency_field, carrier_field: Conventions of the service; `None` leaves them to the
            client.
    """

    url: str | None = None
    email: str | None = None
    token_file: str | None = None
    timeout: float = DEFAULT_DEADLINE
    proxy: str | None = attrs.field(default=None, repr=False)
    ca_file: str | None = None
    get_parameters: GetParameters | None = None
    addresses: str | None = None
    currency_field: CurrencyField | None = None
    carrier_field: CarrierField | None = None

    @staticmethod
    def enable_logging(verbosity: int) -> None:
        """Write the SDK's log to standard error; `verbosity` 1 is INFO, higher is DEBUG."""
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(CleanFormatter("%(levelname)s %(name)s: %(message)s"))
        logger = logging.getLogger("freight_exchange")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)


json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, for programs."
)
yes_option: Final = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
limit_option: Final = click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of records."
)
weight_option: Final = click.option(
    "--weight",
    "per",
    type=click.Choice(["unit", "total"]),
    default="unit",
    show_default=True,
    help="Read a request's weight as that of one packaging unit, or as the total of all units.",
)


def bot_file_options(command: Decorated) -> Decorated:
    """Add `--store` and `--name`, which select a bot's file."""
    command = click.option("--name", metavar="NAME", help="The bot's name, if the file holds several bots.")(command)
    return click.option(
        "--store",
        required=True,
        type=FILE_OR_DATABASE,
        envvar="FREIGHT_EXCHANGE_STORE",
        show_envvar=True,
        metavar="FILE",
        help="The bot's file, or the URL of its database.",
    )(command)


def is_weight_assumed(context: click.Context) -> bool:
    """Return whether `--weight` was left out, so that its default decides how weights are read."""
    return context.get_parameter_source("per") is ParameterSource.DEFAULT


class Duration(ParamType):
    """Duration such as `90s`, `15m`, `6h` or `5d`.

    Args:
        max_days: The upper limit in days.
        reason: Explanation of the limit, appended to the error message.
        allow_zero: Whether zero is valid.
    """

    name = "duration"

    def __init__(self, max_days: int, reason: str = "", *, allow_zero: bool = False) -> None:
        self._max_days = max_days
        self._reason = reason
        self._allow_zero = allow_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        duration = _parse_duration(value)
        if duration is None:
            self.fail(f"{value!r} is not a duration such as 90s, 15m, 6h or 5d", param, ctx)
        if duration > timedelta(days=self._max_days):
            self.fail(f"{value!r} is too long: the limit is {self._max_days}d{self._reason}", param, ctx)
        if not (duration or self._allow_zero):
            self.fail(f"{value!r} is too short: it must be more than 0s", param, ctx)
        return duration


def _parse_duration(text: str) -> timedelta | None:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
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
            self.fail(f"{value!r} is not a number of seconds above 0", param, ctx)
        return seconds


class _Index(ParamType):
    name = "index"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            index = int(value)
        except ValueError:
            index = 0
        if not 0 < index <= _MAX_INDEX:
            self.fail(f"{value!r} is not a record number: record numbers are whole numbers from 1", param, ctx)
        return index


class _File(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not value:
            self.fail("it must not be empty", param, ctx)
        return super().convert(value, param, ctx)


class _StoreFile(_File):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if is_database(value):
            # It may have a password.
            self.fail("give the path of a file, not the address of a database", param, ctx)
        return super().convert(value, param, ctx)


class _FileOrDatabase(_File):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if is_database(value) else super().convert(value, param, ctx)


class _DateTime(ParamType):
    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            self.fail(f"{value!r} is not a date such as 2027-03-01 or '2027-03-01 17:00'", param, ctx)


FILE: Final = _File(dir_okay=False)
"""Path of a file that need not exist."""

STORE_FILE: Final = _StoreFile(dir_okay=False)
"""Path of a bot's file that need not exist, and not the address of a database."""

FILE_OR_DATABASE: Final = _FileOrDatabase(dir_okay=False)
"""Path of a bot's file that need not exist, or the URL of a database."""

INDEX: Final = _Index()
"""Number of a record at the service or in a bot's file."""

DATETIME: Final = _DateTime()
"""Date, or date and time of day."""

SECONDS: Final = _Seconds()
"""Positive number of seconds."""


_FILTER_OPTIONS = (
    click.option("--origin", multiple=True, metavar="PLACE", help="Port or city of origin; may be repeated."),
    click.option("--destination", multiple=True, metavar="PLACE", help="Port or city of destination; may be repeated."),
    click.option(
        "--type", "type", multiple=True, type=EnumChoice("RequestType"), help="Mode of transport; may be repeated."
    ),
    click.option("--commodity", multiple=True, metavar="NAME", help="Commodity; may be repeated."),
    click.option("--incoterm", multiple=True, metavar="CODE", help="Incoterm, such as FOB; may be repeated."),
    click.option(
        "--hazardous/--not-hazardous", default=None, help="Only dangerous goods, or only goods that are not dangerous."
    ),
    click.option("--max-volume", metavar="M3", help="Maximum volume of all units, in cubic metres."),
    click.option("--max-weight", metavar="KG", help="Maximum weight as the request states it, in kilograms."),
    click.option("--need-by", type=DATETIME, metavar="DATE", help="Latest arrival date."),
)


def filter_options(command: Decorated) -> Decorated:
    """Add the filter options, passed by the field names of `RequestFilter`."""
    for option in reversed(_FILTER_OPTIONS):
        command = option(command)
    return command


def build_filter(options: dict[str, Any]) -> RequestFilter | None:
    """Build the filter, or return `None` if no filter option is set.

    Raises:
        ValidationError: A value is invalid.
    """
    fields = {name: value for name, value in options.items() if value not in (None, ())}
    return freight_exchange.RequestFilter(**fields) if fields else None
