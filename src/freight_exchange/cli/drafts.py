"""Drafts of records to write, read from options, a file, or both."""

from __future__ import annotations

import json
import sys
import tomllib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click

import freight_exchange
from freight_exchange.cli.enum_choice import EnumChoice, ParamType
from freight_exchange.cli.options import DATETIME, INDEX
from freight_exchange.platform import clock

__all__ = [
    "FIELDS",
    "DraftField",
    "build_draft",
    "collect_fields",
    "draft_options",
    "past_option",
    "reject_past_arrival",
    "require_fields",
]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_LAST_TIME_ZONE: Final = timedelta(hours=12)
"""UTC offset of the zone in which a day ends last, because the zone of an arrival is unknown."""


@attrs.frozen
class DraftField:
    """Field of a draft and its option.

    Attributes:
        name: The name in the draft and in a file.
        help: The help text of the option.
        type: The parameter type of the option.
        required: Whether the service requires the field.
        metavar: The placeholder of the value in help.
    """

    name: str
    help: str
    type: ParamType | type | None = None
    required: bool = True
    metavar: str | None = None

    @property
    def option(self) -> str:
        """Name of the option."""
        return "--" + self.name.replace("_", "-")

    @property
    def negative(self) -> str | None:
        """Name of the option for false, if the field is a boolean."""
        return "--not-" + self.name.replace("_", "-") if self.type is bool else None

    @property
    def options(self) -> str:
        """Names of all options that set the field. A message with only one of them would suggest its value."""
        return self.option if self.negative is None else f"{self.option} or {self.negative}"

    def decorate(self, command: Decorated) -> Decorated:
        """Add the option to a command."""
        if self.negative is not None:
            return click.option(f"{self.option}/{self.negative}", self.name, default=None, help=self.help)(command)
        return click.option(self.option, self.name, type=self.type, metavar=self.metavar, help=self.help)(command)


FIELDS: Final[Mapping[str, tuple[DraftField, ...]]] = {
    "RateRequestDraft": (
        DraftField("commodity", "Commodity."),
        DraftField("type", "Mode of transport.", EnumChoice("RequestType")),
        DraftField("origin", "Port or city."),
        DraftField("destination", "Port or city."),
        DraftField("arrival", "Arrival date.", DATETIME, metavar="DATE"),
        DraftField("packaging", "Packaging of a unit.", EnumChoice("Packaging")),
        DraftField("quantity", "Number of units.", int),
        DraftField("length", "Length of a unit in metres.", metavar="M"),
        DraftField("width", "Width of a unit in metres.", metavar="M"),
        DraftField("height", "Height of a unit in metres.", metavar="M"),
        DraftField("weight", "Weight of a unit in kilograms.", metavar="KG"),
        DraftField("incoterm", "Incoterm, such as FOB."),
        DraftField("hazardous", "Whether the goods are dangerous.", bool),
        DraftField("notes", "Information for forwarders.", required=False),
    ),
    "RouteDraft": (
        DraftField("origin", "Port or city."),
        DraftField("destination", "Port or city."),
        DraftField("cy_cutoff", "Closing time of the container yard, in the route's zone.", DATETIME, metavar="DATE"),
        DraftField("cfs_cutoff", "Closing time of the freight station, in the route's zone.", DATETIME, metavar="DATE"),
        DraftField("departure", "Departure, in the route's zone.", DATETIME, metavar="DATE"),
        DraftField("arrival", "Arrival, in local time of the destination.", DATETIME, metavar="DATE"),
        DraftField("carrier", "Index of the carrier; see `freight-exchange carriers`.", INDEX),
        DraftField("vessel", "Name of the vessel."),
        DraftField("voyage_id", "Code of the voyage."),
        DraftField("timezone", "Time zone of cut-offs and departure, such as Asia/Hong_Kong."),
    ),
    "Offer": (
        DraftField("amount", "Total amount.", metavar="AMOUNT"),
        DraftField("currency", "Currency code, such as USD."),
        DraftField("terms", "Terms and conditions.", required=False),
    ),
}
"""Fields of each draft; those of an offer are the arguments of `exchange.bids.submit`."""

_file_option = click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="File with the fields: TOML (*.toml) or JSON; - reads JSON from standard input.",
)


def draft_options(draft: str) -> Callable[[Decorated], Decorated]:
    """Add the options of a draft, and `--file`."""

    def decorate(command: Decorated) -> Decorated:
        for field in reversed(FIELDS[draft]):
            command = field.decorate(command)
        return _file_option(command)

    return decorate


past_option: Final = click.option("--past", is_flag=True, help="Accept an arrival date in the past.")


def build_draft(draft: str, options: Mapping[str, Any]) -> Any:
    """Build a draft from options and file.

    Raises:
        UsageError: A field is missing or unknown.
        ValidationError: A value is invalid; the error names the field.
    """
    return getattr(freight_exchange, draft)(**require_fields(draft, options))


def require_fields(draft: str, options: Mapping[str, Any], *, file_fields: Sequence[str] = ()) -> dict[str, Any]:
    """Collect the fields as `collect_fields` does, and check that all required ones are set.

    Raises:
        UsageError: A field is missing or unknown.
    """
    values = collect_fields(draft, options, file_fields=file_fields)
    if missing := [field for field in FIELDS[draft] if field.required and field.name not in values]:
        names = ", ".join(f"{field.name} ({field.options})" for field in missing)
        raise click.UsageError(f"still missing: {names}; nothing was sent")
    return values


def collect_fields(draft: str, options: Mapping[str, Any], *, file_fields: Sequence[str] = ()) -> dict[str, Any]:
    """Collect the fields that options and file set; options take precedence.

    Args:
        draft: The name of the draft.
        options: The values of the options, `file` included.
        file_fields: Further names that the file may have.

    Raises:
        UsageError: The file cannot be read, or has an unknown field.
    """
    fields = {field.name: field for field in FIELDS[draft]}
    typed = {name: options[name] for name in fields if options.get(name) is not None}
    values: dict[str, Any] = {}
    for name, value in _read_file(options.get("file")).items():
        if name not in fields and name not in file_fields:
            names = ", ".join([*fields, *file_fields])
            raise click.UsageError(f"the file has an unknown field {name!r}; the fields are {names}; nothing was sent")
        if value is None:
            raise click.UsageError(f"the file has null for {name}: leave it out, or give a value; nothing was sent")
        if name not in typed:
            is_datetime = name in fields and fields[name].type is DATETIME
            values[name] = _parse_datetime(name, value) if is_datetime else value
    return values | typed


def reject_past_arrival(arrival: object, *, past: bool) -> None:
    """Reject an arrival on a day that is over in every time zone, unless `past` is true.

    Raises:
        UsageError: The day is over.
    """
    if past or not isinstance(arrival, datetime):
        return
    today = (datetime.fromtimestamp(clock.wall_time(), UTC) - _LAST_TIME_ZONE).date()
    if arrival.date() < today:
        raise click.UsageError(
            f"the arrival {arrival:%Y-%m-%d} is in the past: correct it, or give --past; nothing was sent"
        )


def _read_file(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    source = "standard input" if file == "-" else file
    try:
        content = _parse(sys.stdin.read() if file == "-" else _decode(Path(file).read_bytes()), file)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not {error.encoding.upper()}"
    except RecursionError:
        reason = "it is nested too deeply"
    except (OSError, ValueError) as error:
        # Python's own message is advice for programmers.
        reason = "it has a number of thousands of digits" if "set_int_max_str_digits" in str(error) else str(error)
    else:
        if isinstance(content, dict):
            return content
        raise click.UsageError(f"{source} must hold one object with the fields; nothing was sent")
    raise click.UsageError(f"{source} cannot be read: {reason}; nothing was sent")


def _decode(content: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, as programs on Windows write it."""
    return content.decode("utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8")


def _parse(text: str, file: str) -> Any:
    text = text.removeprefix("\ufeff")
    if file.lower().endswith(".toml"):
        return tomllib.loads(text, parse_float=Decimal)
    if not text.strip():
        raise ValueError("it is empty")
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_reject_duplicates)


def _reject_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in pairs:
        if key in fields:
            raise ValueError(f"it gives {key!r} twice")
        fields[key] = value
    return fields


def _parse_datetime(name: str, value: object) -> object:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            raise click.UsageError(
                f"{name} must be a date such as 2027-03-01 or '2027-03-01 17:00', not {value!r}; nothing was sent"
            ) from None
    return value
