"""Options of commands: those before a command, those that several commands share, and those made from fields.

`options_of` makes an option of each field of a record, draft or filter: its name and type come from the field, its help
from `_HELP`. The SDK checks the values. If it refuses one, the command names the option of the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from types import NoneType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.options import DEFAULT_DEADLINE, CarrierField, CurrencyField, GetParameters

__all__ = [
    "DATE", "DURATION", "FILE", "INDEX", "Choices", "Command", "Group", "Options", "csv_option", "fields_of",
    "is_typed", "json_option", "limit_option", "option_of", "options_of", "past_option", "store_option",
    "weight_option",
]  # fmt: skip

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])
Fields = Mapping[str, Any]
"""Types of fields by name. A field whose type includes `None` is optional."""

_HELP: Final[Mapping[str, str]] = {
    "amount": "Total amount.",
    "arrival": "Arrival, in local time of the destination.",
    "arrives_from": "Earliest arrival.",
    "arrives_until": "Latest arrival.",
    "carrier": "Index of the carrier; see `freight-exchange carriers`.",
    "cfs_cutoff": "Closing time of the freight station, in the route's zone.",
    "commodity": "Commodity.",
    "currency": "Currency code, such as USD.",
    "cy_cutoff": "Closing time of the container yard, in the route's zone.",
    "departs_from": "Earliest departure.",
    "departs_until": "Latest departure.",
    "departure": "Departure, in the route's zone.",
    "destination": "Port or city of destination.",
    "hazardous": "Dangerous goods, or goods that are not.",
    "height": "Height of a unit in metres.",
    "incoterm": "Incoterm, such as FOB.",
    "length": "Length of a unit in metres.",
    "max_volume": "Maximum volume of all units, in cubic metres.",
    "max_weight": "Maximum weight as the request states it, in kilograms.",
    "need_by": "Latest arrival date.",
    "notes": "Information for forwarders.",
    "origin": "Port or city of origin.",
    "packaging": "Packaging of a unit.",
    "quantity": "Number of units.",
    "terms": "Terms and conditions.",
    "timezone": "Time zone of cut-offs and departure, such as Asia/Hong_Kong.",
    "type": "Mode of transport.",
    "vessel": "Name of the vessel.",
    "voyage_id": "Code of the voyage.",
    "weight": "Weight of a unit in kilograms.",
    "width": "Width of a unit in metres.",
}  # fmt: skip

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


# Types of values. What they accept is checked by the SDK.


class _Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in recent releases of click
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in ("now", "backfill"):
            return value
        if (match := _DURATION.fullmatch(value.strip())) is None:
            self.fail(f"{value!r} is not a duration such as 90s, 15m, 6h or 5d", param, ctx)
        try:
            return timedelta(**{_UNITS[match[2]]: float(match[1])})
        except OverflowError:
            return timedelta.max


class _WholeNumber(click.ParamType):  # type: ignore[type-arg]
    name = "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not re.fullmatch(r"\s*0*[1-9]\d{0,17}\s*", str(value), re.ASCII):
            self.fail(f"{value!r} is not a whole number from 1", param, ctx)
        return int(value)


class _Date(click.ParamType):  # type: ignore[type-arg]
    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            try:
                return datetime.fromisoformat(value.strip())
            except ValueError:
                self.fail(f"{value!r} is not a date such as 2027-03-01 or '2027-03-01 17:00'", param, ctx)
        if isinstance(value, date) and not isinstance(value, datetime):
            return datetime(value.year, value.month, value.day)
        return value


class _File(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not value:
            self.fail("it must not be empty", param, ctx)
        return super().convert(value, param, ctx)


class Choices(click.ParamType):  # type: ignore[type-arg]
    """Words of the service in any case; `-` and `_` count as blanks.

    Args:
        words: The words, each by the name that is shown for it; the words themselves are accepted too.
    """

    name = "word"

    def __init__(self, words: Mapping[str, str]) -> None:
        self.words = words

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(self.words)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        known = {_folded(word): word for word in self.words.values()}
        known |= {_folded(name): word for name, word in self.words.items()}
        if (word := known.get(_folded(value))) is None:
            self.fail(f"{value!r} is none of {', '.join(self.words)}", param, ctx)
        return word

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.words if _folded(name).startswith(_folded(incomplete))]


def _folded(word: str) -> str:
    return " ".join(re.split(r"[\s_-]+", word.strip())).casefold()


DATE: Final = _Date()
"""Date, or date and time of day."""
DURATION: Final = _Duration()
"""Duration such as `6h`; the words `now` and `backfill` stay as they are."""
FILE: Final = _File(dir_okay=False)
"""Path of a file that need not exist, or the address of a database."""
INDEX: Final = _WholeNumber()
"""Number of a record or of things."""


# Options made from fields


def fields_of(cls: type) -> Fields:
    """Return the types of the public fields of an attrs class."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in attrs.fields(cls) if not field.name.startswith("_")}


def options_of(fields: Fields, **settings: Mapping[str, Any]) -> Callable[[AnyCommand], AnyCommand]:
    """Add an option for each field, without a default. `settings` has further arguments of `click.option` by field."""

    def decorate(command: AnyCommand) -> AnyCommand:
        for name, kind in reversed([*fields.items()]):
            if name in _HELP or name in settings:
                command = click.option(*_spelled(name, kind), **{**_derived(name, kind), **settings.get(name, {})})(
                    command
                )
        return command

    return decorate


def option_of(name: str) -> str:
    """Return the option of a field."""
    return f"--{name.replace('_', '-')}"


def _members(kind: Any) -> tuple[list[Any], bool]:
    """Return the types that a field accepts, and whether it accepts several values."""
    parts = get_args(kind) if get_origin(kind) not in (None, Literal, tuple) else (kind,)
    nested = [inner for part in parts if get_origin(part) is tuple for inner in get_args(part)]
    found = [inner for part in nested for inner in (get_args(part) or (part,)) if inner is not Ellipsis]
    return [part for part in (*parts, *found) if part is not NoneType], bool(nested)


def _spelled(name: str, kind: Any) -> tuple[str, ...]:
    option = option_of(name)
    return (f"{option}/--not-{option[2:]}" if bool in _members(kind)[0] else option, name)


def _derived(name: str, kind: Any) -> dict[str, Any]:
    kinds, is_multiple = _members(kind)
    derived: dict[str, Any] = {"default": None, "help": _HELP.get(name, "") + " May be repeated." * is_multiple}
    if is_multiple:
        derived["multiple"] = True
    words: Any = next((one for one in kinds if isinstance(one, type) and issubclass(one, StrEnum)), None)
    if words is not None:
        derived["type"] = Choices({member.value: member.value for member in words})
    elif get_origin(kinds[0]) is Literal:
        derived["type"] = click.Choice(get_args(kinds[0]))
    elif datetime in kinds:
        derived["type"] = DATE
    elif Decimal in kinds:
        derived["metavar"] = "NUMBER"
    elif int in kinds:
        derived["type"] = INDEX
    return derived


# Options before the command


def _option(help: str, *, variable: str | None = None, default: Any = None, **settings: Any) -> Any:
    if variable is not None:
        help = f"{help}  [env var: FREIGHT_EXCHANGE_{variable}]"
    return attrs.field(default=default, metadata={"help": help, **settings})


@attrs.frozen(kw_only=True)
class Options:
    """Options before the command, as typed. `None` leaves a value to the environment, the saved login or the client."""

    # ruff: noqa: RUF009 - each call makes a field
    url: str | None = _option("The API root, such as https://host/api.", variable="URL")
    email: str | None = _option("The account.", variable="EMAIL")
    profile: str | None = _option("Name of a saved login, if you keep several.", variable="PROFILE", metavar="NAME")
    token_file: str | None = _option(
        "The file with the saved login; default: a private file of your system account.",
        variable="TOKEN_FILE",
        type=FILE,
    )
    timeout: float | None = _option(
        f"Time limit of a call, retries and login included. Default: {DEFAULT_DEADLINE:g}.",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
    )
    proxy: str | None = _option("URL of a proxy. If it has a password, set HTTPS_PROXY instead.", metavar="URL")
    ca_file: str | None = _option(
        "File with a certificate authority to trust besides the public ones; SSL_CERT_FILE replaces these.", type=FILE
    )
    get_parameters: GetParameters | None = _option(
        "Place of the parameters of a GET; query is for proxies that drop the bodies of GETs. Default: body.",
        variable="GET_PARAMETERS",
    )
    addresses: str | None = _option(
        "Other documented addresses, such as publish=quote/request,submit=quote/bid.",
        variable="ADDRESSES",
        metavar="LIST",
    )
    currency_field: CurrencyField | None = _option(
        "The field for an offer's currency. Default: currencyIndex.", variable="CURRENCY_FIELD"
    )
    carrier_field: CarrierField | None = _option(
        "The field for a route's carrier. Default: carrier.", variable="CARRIER_FIELD"
    )
    verbose: int = _option("Log requests to standard error (-vv for details).", default=0, type=int, count=True)

    @classmethod
    def add_to(cls, command: AnyCommand) -> AnyCommand:
        """Add the options to the root command."""
        hints = get_type_hints(cls)
        for field in reversed(attrs.fields(cls)):
            settings = {**_derived(field.name, hints[field.name]), "default": field.default, **field.metadata}
            short = ("-v",) if field.name == "verbose" else ()
            command = click.option(*short, *_spelled(field.name, hints[field.name]), **settings)(command)
        return command


_ARGUMENTS: Final = {"base_url": "--url", "deadline": "--timeout", "proxy": "--proxy"}
"""Options by the client's argument."""


# Commands and groups


class Command(click.Command):
    """Command that receives its output as `out`, and names the option of a value that the SDK refuses."""

    def invoke(self, ctx: click.Context) -> Any:
        if "output" in ctx.params:
            from freight_exchange.cli.show import Out

            ctx.params["out"] = Out(ctx.params.pop("output"), ctx.params.get("per", "unit"))
        try:
            return super().invoke(ctx)
        except (ConfigurationError, ValidationError) as error:
            field = error.field if isinstance(error, ValidationError) else error.message.partition(" ")[0]
            parameter = next((one for one in self.params if one.name == field), None)
            if parameter is None and field not in _ARGUMENTS:
                raise
            name = _ARGUMENTS.get(field) if parameter is None else _shown(parameter)
            rest = error.message.removeprefix(field)
            message = f"{name}{rest if rest[:1] in (' ', '[') else f': {error.message}'}"
            if parameter is None:
                raise ConfigurationError(message) from error
            is_write = any(one.name == "yes" for one in self.params)
            raise click.UsageError(f"{message}; nothing was sent" if is_write else message, ctx) from error


def _shown(parameter: click.Parameter) -> str:
    return parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name


class Group(click.Group):
    """Group of such commands. A misplaced option names its place."""

    command_class = Command
    group_class = type

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            place = error.ctx
            if place is None or place.parent is None:
                raise
            name, root = error.option_name, place.find_root()
            if any(name in option.opts for option in root.command.params):
                message = f"{name} belongs before the command: {root.command_path} {name} ..."
            elif isinstance(place.command, click.Group):
                commands = ", ".join(place.command.list_commands(place))
                message = f"{name} belongs behind a command of `{place.command_path}`: {commands}"
            else:
                raise
            raise click.UsageError(message, place) from None


# Options that several commands share

json_option: Final = click.option(
    "--json", "output", flag_value="json", default=None, help="Print one JSON object per line, for programs."
)
csv_option: Final = click.option(
    "--csv", "output", flag_value="csv", default=None, help="Print CSV with a header, for spreadsheets and data frames."
)
limit_option: Final = click.option("--limit", type=INDEX, help="Maximum number of records.")
past_option: Final = click.option("--past", is_flag=True, help="Accept an arrival date in the past.")
weight_option: Final = click.option(
    "--weight",
    "per",
    type=click.Choice(["unit", "total"]),
    default="unit",
    show_default=True,
    help="Read a request's weight as that of one packaging unit, or as the total of all units.",
)


def store_option(command: AnyCommand) -> AnyCommand:
    """Add `--store` and `--name`, which select a bot's file."""
    command = click.option("--name", metavar="NAME", help="The bot's name, if the file holds several bots.")(command)
    return click.option(
        "--store",
        required=True,
        type=FILE,
        envvar="FREIGHT_EXCHANGE_STORE",
        show_envvar=True,
        metavar="FILE",
        help="The bot's file, or the URL of its database.",
    )(command)


def is_typed(name: str) -> bool:
    """Return whether an option of the running command is on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
