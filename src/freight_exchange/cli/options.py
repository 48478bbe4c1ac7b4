"""Options of commands: those before a command, those that several commands share, and those made from fields.

`made_from` makes an option of each field of a record, draft, filter or of `Options`: the name and the type come from
the field, the help from `_HELP`. The SDK checks the values. If it refuses one, the command names the option.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.options import DEFAULT_DEADLINE, CarrierField, CurrencyField, GetParameters

__all__ = [
    "AnyCommand", "Choices", "Command", "Fields", "Group", "Options", "as_csv", "as_json", "choice", "duration",
    "fields_of", "file_path", "index", "is_typed", "limit", "made_from", "moment", "name_of", "pairs", "past",
    "store", "weight",
]  # fmt: skip

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])
Fields = Mapping[str, Any]
"""Types of fields by name. A field whose type includes `None` is optional."""

_HELP: Final[Mapping[str, str]] = {
    "addresses": "Other documented addresses, such as publish=quote/request,submit=quote/bid.",
    "amount": "Total amount.",
    "arrival": "Arrival, in local time of the destination.",
    "arrives_from": "Earliest arrival.",
    "arrives_until": "Latest arrival.",
    "ca_file": "File with a certificate authority to trust besides the public ones; SSL_CERT_FILE replaces these.",
    "carrier": "Index of the carrier; see `freight-exchange carriers`.",
    "carrier_field": "The field for a route's carrier. Default: carrier.",
    "cfs_cutoff": "Closing time of the freight station, in the route's zone.",
    "commodity": "Commodity.",
    "currency": "Currency code, such as USD.",
    "currency_field": "The field for an offer's currency. Default: currencyIndex.",
    "cy_cutoff": "Closing time of the container yard, in the route's zone.",
    "departs_from": "Earliest departure.",
    "departs_until": "Latest departure.",
    "departure": "Departure, in the route's zone.",
    "destination": "Port or city of destination.",
    "email": "The account.",
    "get_parameters": "Place of the parameters of a GET; query is for proxies that drop their bodies. Default: body.",
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
    "profile": "Name of a saved login, if you keep several.",
    "proxy": "URL of a proxy. If it has a password, set HTTPS_PROXY instead.",
    "quantity": "Number of units.",
    "terms": "Terms and conditions.",
    "timeout": f"Seconds that a call may take, retries and login included. Default: {DEFAULT_DEADLINE:g}.",
    "timezone": "Time zone of cut-offs and departure, such as Asia/Hong_Kong.",
    "token_file": "The file with the saved login; default: a private file of your system account.",
    "type": "Mode of transport.",
    "url": "The API root, such as https://host/api.",
    "verbose": "Log requests to standard error (-vv for details).",
    "vessel": "Name of the vessel.",
    "voyage_id": "Code of the voyage.",
    "weight": "Weight of a unit in kilograms.",
    "width": "Width of a unit in metres.",
}
_VARIABLES: Final = (
    "url", "email", "profile", "token_file", "get_parameters", "addresses", "currency_field", "carrier_field"
)  # fmt: skip
"""Options that a variable of the environment replaces."""
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


# Types of values. The SDK checks what is not said here.


def index(text: str) -> int:
    """Return the number of a record or of things."""
    if not re.fullmatch(r"\s*0*[1-9]\d{0,17}\s*", text, re.ASCII):
        raise click.BadParameter(f"{text!r} is not a whole number from 1")
    return int(text)


def moment(value: object) -> Any:
    """Return a date, with or without a time of day, from its text; anything else is left to the SDK."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            raise click.BadParameter(f"{value!r} is not a date such as 2027-03-01 or '2027-03-01 17:00'") from None
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return datetime(value.year, value.month, value.day) if isinstance(value, date) and is_day else value


def duration(text: str) -> Any:
    """Return a duration such as `6h`; the words `now` and `backfill` stay as they are."""
    if text in ("now", "backfill"):
        return text
    if (match := _DURATION.fullmatch(text.strip())) is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 15m, 6h or 5d")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        return timedelta.max


def file_path(text: str) -> str:
    """Return the path of a file that need not exist, or the address of a database."""
    if not text:
        raise click.BadParameter("it must not be empty")
    return text


class Choices(click.ParamType):  # type: ignore[type-arg]  # generic only in recent releases of click
    """Words of the service in any case, by the name that is shown for each; `-` and `_` count as blanks."""

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


# Options made from fields


def fields_of(cls: type) -> Fields:
    """Return the types of the public fields of an attrs class."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in attrs.fields(cls) if not field.name.startswith("_")}


def made_from(fields: Fields, **settings: Mapping[str, Any]) -> Callable[[AnyCommand], AnyCommand]:
    """Add an option for each field. `settings` has further arguments of `click.option` by field."""

    def decorate(command: AnyCommand) -> AnyCommand:
        for name in [name for name in reversed([*fields]) if name in _HELP]:
            names, derived = _derived(name, fields[name])
            command = click.option(*names, name, **{**derived, **settings.get(name, {})})(command)
        return command

    return decorate


def name_of(name: str) -> str:
    """Return the option of a field."""
    return f"--{name.replace('_', '-')}"


def _derived(name: str, kind: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names of a field's option, and the arguments of `click.option` that its type decides."""
    parts = get_args(kind) if get_origin(kind) not in (None, Literal, tuple) else (kind,)
    repeated = [inner for part in parts if get_origin(part) is tuple for inner in get_args(part)]
    kinds = [*parts, *(inner for part in repeated for inner in (get_args(part) or (part,)))]
    words: Any = next((one for one in kinds if isinstance(one, type) and issubclass(one, StrEnum)), None)
    derived: dict[str, Any] = {"default": None, "help": _HELP[name] + " May be repeated." * bool(repeated)}
    derived["multiple"] = bool(repeated)
    if words is not None:
        derived["type"] = Choices({member.value: member.value for member in words})
    elif get_origin(kinds[0]) is Literal:
        derived["type"] = click.Choice(get_args(kinds[0]))
    elif datetime in kinds:
        derived |= {"type": moment, "metavar": "DATE"}
    elif Decimal in kinds:
        derived["metavar"] = "NUMBER"
    elif int in kinds:
        derived |= {"type": index, "metavar": "N"}
    option = name_of(name)
    short = ("-v",) if name == "verbose" else ()
    return (*short, f"{option}/--not-{name}" if bool in kinds else option), derived


@attrs.frozen(kw_only=True)
class Options:
    """Options before the command, as typed. `None` leaves a value to the environment, the saved login or the client."""

    url: str | None = None
    email: str | None = None
    profile: str | None = None
    token_file: str | None = None
    timeout: float | None = None
    proxy: str | None = None
    ca_file: str | None = None
    get_parameters: GetParameters | None = None
    addresses: str | None = None
    currency_field: CurrencyField | None = None
    carrier_field: CarrierField | None = None
    verbose: int = 0

    @classmethod
    def add_to(cls, command: AnyCommand) -> AnyCommand:
        """Add the options to the root command."""
        settings: dict[str, dict[str, Any]] = {
            name: {"help": f"{_HELP[name]}  [env var: FREIGHT_EXCHANGE_{name.upper()}]"} for name in _VARIABLES
        }
        settings["timeout"] = {"type": click.FloatRange(0, min_open=True), "metavar": "SECONDS"}
        settings["verbose"] = {"type": int, "count": True, "default": 0, "metavar": None}
        return made_from(fields_of(cls), **settings)(command)


# Commands and groups

_ARGUMENTS: Final = {"base_url": "--url", "deadline": "--timeout", "proxy": "--proxy", "addresses": "--addresses"}
"""Options by the client's argument."""


class Command(click.Command):
    """Command that receives its output as `out`, and names the option of a value that the SDK refuses.

    Lines `$ ...` at the end of its help are its examples, without the name of the program.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        text, *examples = re.split(r"\n\s*\$ ", inspect.cleandoc(self.help or ""))
        title = f"\n\n\b\nExample{'s' if len(examples) > 1 else ''}:"
        self.help = text + title + "".join(f"\n  freight-exchange {one}" for one in examples) if examples else text

    def invoke(self, ctx: click.Context) -> Any:
        if "output" in ctx.params:
            from freight_exchange.cli.show import Out

            ctx.params["out"] = Out(ctx.params.pop("output"), ctx.params.pop("per", "unit"))
        try:
            return super().invoke(ctx)
        except (ConfigurationError, ValidationError) as error:
            field = error.field if isinstance(error, ValidationError) else error.message.partition(" ")[0]
            parameter = next((one for one in self.params if one.name == field), None)
            is_option = isinstance(parameter, click.Option)
            name = _ARGUMENTS.get(field) if parameter is None else parameter.opts[0] if is_option else field.upper()
            if name is None:
                raise
            rest = error.message.removeprefix(field)
            message = f"{name}{rest if rest[:1] in (' ', '[') else f': {error.message}'}"
            if parameter is None:
                raise ConfigurationError(message) from error
            is_write = any(one.name == "yes" for one in self.params)
            raise click.UsageError(f"{message}; nothing was sent" if is_write else message, ctx) from error


class Group(click.Group):
    """Group of such commands. A misplaced option names its place."""

    command_class = Command
    group_class = type

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            place, name, root = error.ctx or ctx, error.option_name, ctx.find_root()
            if any(name in option.opts for option in root.command.params):
                message = f"{name} belongs before the command: {root.command_path} {name} ..."
            elif isinstance(place.command, click.Group):
                commands = ", ".join(place.command.list_commands(place))
                message = f"{name} belongs behind a command of `{place.command_path}`: {commands}"
            else:
                raise
            raise click.UsageError(message, place) from None


# Options that several commands share

as_json: Final = click.option(
    "--json", "output", flag_value="json", default=None, help="Print one JSON object per line, for programs."
)
as_csv: Final = click.option(
    "--csv", "output", flag_value="csv", default=None, help="Print CSV with a header, for spreadsheets and data frames."
)
limit: Final = click.option("--limit", type=index, metavar="N", help="Maximum number of records.")
past: Final = click.option("--past", is_flag=True, help="Accept an arrival date in the past.")


def choice(
    name: str, words: Sequence[str], help: str, default: str | None = None
) -> Callable[[AnyCommand], AnyCommand]:
    """Add an option that takes one of several words."""
    return click.option(name, type=click.Choice(words), default=default, show_default=True, help=help)


def pairs(example: str, help: str) -> Callable[[AnyCommand], AnyCommand]:
    """Add `--rate NAME=NUMBER`, which may be repeated."""
    metavar = f"{example}=NUMBER"

    def parse(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> Mapping[str, str]:
        rates: dict[str, str] = {}
        for value in values:
            name, _, number = (part.strip() for part in value.rpartition("="))
            if not name or not number:
                raise click.BadParameter(f"{value!r} is not {metavar}; nothing was sent")
            if name.casefold() in map(str.casefold, rates):
                raise click.BadParameter(f"{name} is given twice; nothing was sent")
            rates[name] = number
        return rates

    return click.option("--rate", "rates", multiple=True, metavar=metavar, callback=parse, help=help)


def weight(**settings: Any) -> Callable[[AnyCommand], AnyCommand]:
    """Add `--weight`."""
    text = "Read a request's weight as that of one packaging unit, or as the total of all units."
    return click.option("--weight", "per", type=click.Choice(["unit", "total"]), help=text, **settings)


def store(command: AnyCommand) -> AnyCommand:
    """Add `--store` and `--name`, which select a bot's file."""
    command = click.option("--name", metavar="NAME", help="The bot's name, if the file holds several bots.")(command)
    text = "The bot's file, or the URL of its database."
    settings = {"type": file_path, "required": True, "envvar": "FREIGHT_EXCHANGE_STORE", "show_envvar": True}
    return click.option("--store", metavar="FILE", help=text, **settings)(command)  # type: ignore[arg-type]


def is_typed(name: str) -> bool:
    """Return whether an option of the running command is on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
