"""Options of commands: those before a command, those that several share, and those made from fields of records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import click

from freight_exchange.options import DEFAULT_DEADLINE, CarrierField, CurrencyField, GetParameters

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])

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
    "vessel": "Name of the vessel.",
    "voyage_id": "Code of the voyage.",
    "weight": "Weight of a unit in kilograms.",
    "width": "Width of a unit in metres.",
}


# Types of values. The SDK checks what is not said here.


def index(value: object) -> int:
    """Return the number of a record or of things."""
    if not re.fullmatch(r"0*[1-9]\d{0,17}", str(value).strip(), re.ASCII):
        raise click.BadParameter(f"{value!r} is not a whole number from 1")
    return int(str(value))


def moment(value: object) -> Any:
    """Return the moment of a date or of its text; anything else is left to the SDK."""
    try:
        return datetime.fromisoformat(str(value).strip()) if isinstance(value, (str, date)) else value
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a date such as 2027-03-01 or '2027-03-01 17:00'") from None


def duration(text: str) -> Any:
    """Return a duration such as `6h`; the words `now` and `backfill` stay as they are."""
    if text in ("now", "backfill"):
        return text
    if (match := re.fullmatch(r"(\d{1,8}(?:\.\d+)?)\s*([smhd])", text.strip(), re.ASCII)) is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 15m, 6h or 5d")
    return float(match[1]) * timedelta(seconds={"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]])


class Choice(click.Choice[str]):
    """Words in any case; `-` and `_` count as blanks."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return re.sub(r"[\s_-]+", "-", str(choice)).casefold()


def fields_of(cls: type) -> dict[str, Any]:
    """Return the types of the public fields of an attrs class."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in attrs.fields(cls) if not field.name.startswith("_")}


def made_from(fields: Mapping[str, Any], **settings: Mapping[str, Any]) -> Callable[[AnyCommand], AnyCommand]:
    """Add an option for each field that has a text in `_HELP`, with further `settings`; the SDK checks the values."""

    def decorate(command: AnyCommand) -> AnyCommand:
        for name in [name for name in reversed([*fields]) if name in _HELP]:
            kinds = _flat(fields[name])
            option = f"{name_of(name)}/--not-{name}" if bool in kinds else name_of(name)
            derived = {"help": _HELP[name], "multiple": tuple in kinds, **_derived(kinds)}
            command = click.option(option, name, **{**derived, **settings.get(name, {})})(command)
        return command

    return decorate


def name_of(name: str) -> str:
    """Return the option of a field."""
    return f"--{name.replace('_', '-')}"


def _flat(kind: Any) -> list[Any]:
    # The members of a union, with those of its sequences behind `tuple`.
    origin = get_origin(kind)
    if origin in (None, Literal):
        return [kind]
    members = [one for part in get_args(kind) for one in _flat(part)]
    return [tuple, *members] if origin in (tuple, Sequence) else members


def _derived(kinds: Sequence[Any]) -> dict[str, Any]:
    for kind in kinds:
        if get_origin(kind) is Literal:
            return {"type": click.Choice(get_args(kind))}
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return {"type": Choice(kind, case_sensitive=False)}
    if datetime in kinds:
        return {"type": moment, "metavar": "DATE"}
    if Decimal in kinds:
        return {"metavar": "NUMBER"}
    if int in kinds:
        return {"type": index, "metavar": "N"}
    return {"default": None} if bool in kinds else {}


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

    @classmethod
    def add_to(cls, command: AnyCommand) -> AnyCommand:
        """Add the options to the root command."""
        timeout = {"type": click.FloatRange(0, min_open=True), "metavar": "SECONDS"}
        variables = [name for name in fields_of(cls) if name not in ("timeout", "proxy", "ca_file")]
        texts = {name: {"help": f"{_HELP[name]}  [env var: FREIGHT_EXCHANGE_{name.upper()}]"} for name in variables}
        return made_from(fields_of(cls), timeout=timeout, **texts)(command)


# Options that several commands share

readable: Final = click.Path(exists=True, dir_okay=False)
as_csv: Final = click.option(
    "--csv", "output", flag_value="csv", default=None, help="Print CSV with a header, for spreadsheets and data frames."
)
limit: Final = click.option("--limit", type=index, metavar="N", help="Maximum number of records.")
yes: Final = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
past: Final = click.option("--past", is_flag=True, help="Accept an arrival date in the past.")


def choice(name: str, words: Sequence[str], help: str) -> Callable[[AnyCommand], AnyCommand]:
    """Add an option that takes one of several words, by default the first."""
    return click.option(name, type=Choice(words, case_sensitive=False), default=words[0], show_default=True, help=help)


def pairs(example: str, help: str) -> Callable[[AnyCommand], AnyCommand]:
    """Add `--rate NAME=NUMBER`, which may be repeated."""
    metavar = f"{example}=NUMBER"

    def parse(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> Mapping[str, str]:
        numbers: dict[str, str] = {}
        for value in values:
            name, _, number = (part.strip() for part in value.rpartition("="))
            if not (name and number) or name.casefold() in map(str.casefold, numbers):
                raise click.BadParameter(f"{value!r} is not {metavar}, or gives a name twice; nothing was sent")
            numbers[name] = number
        return numbers

    return click.option("--rate", "rates", multiple=True, metavar=metavar, callback=parse, help=help)


def weight(**settings: Any) -> Callable[[AnyCommand], AnyCommand]:
    """Add `--weight`."""
    text = "Read a request's weight as that of one packaging unit, or as the total of all units."
    return click.option("--weight", "per", type=click.Choice(["unit", "total"]), help=text, **settings)


def store(command: AnyCommand) -> AnyCommand:
    """Add `--store` and `--name`, which select a bot's file."""
    command = click.option("--name", metavar="NAME", help="The bot's name, if the file holds several bots.")(command)
    text = "The bot's file, or the URL of its database."
    settings: Any = {"required": True, "envvar": "FREIGHT_EXCHANGE_STORE", "show_envvar": True}
    return click.option("--store", metavar="FILE", help=text, **settings)(command)
