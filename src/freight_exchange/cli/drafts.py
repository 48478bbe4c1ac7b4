"""What is to be written, given by options, by a file, or by both: the SDK's typed drafts come out."""

from __future__ import annotations

import json
import sys
import tomllib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click

import freight_exchange
from freight_exchange.cli.options import INDEX, MOMENT, ParamType, WordOf

__all__ = ["FIELDS", "Field", "all_fields", "draft_options", "drafted", "given_fields"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@attrs.frozen
class Field:
    """A field of a draft, and its option.

    Attributes:
        name: Its name in the draft, and in a file.
        help: What it is.
        type: What its option takes.
        needed: Whether nothing can be sent without it.
        metavar: What help calls its value.
    """

    name: str
    help: str
    type: ParamType | type | None = None
    needed: bool = True
    metavar: str | None = None

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def negative(self) -> str | None:
        """The option for no, where the field is a yes or a no."""
        return "--not-" + self.name.replace("_", "-") if self.type is bool else None

    @property
    def options(self) -> str:
        """All that give it, in words: naming one answer alone would suggest it."""
        return self.option if self.negative is None else f"{self.option} or {self.negative}"

    def decorate(self, command: Decorated) -> Decorated:
        if self.negative is not None:
            return click.option(f"{self.option}/{self.negative}", self.name, default=None, help=self.help)(command)
        return click.option(self.option, self.name, type=self.type, metavar=self.metavar, help=self.help)(command)


FIELDS: Final[Mapping[str, tuple[Field, ...]]] = {
    "RateRequestDraft": (
        Field("commodity", "What is to be moved."),
        Field("type", "How it travels.", WordOf("RequestType")),
        Field("origin", "Port or city."),
        Field("destination", "Port or city."),
        Field("arrival", "When it is to arrive.", MOMENT, metavar="DATE"),
        Field("packaging", "What one unit is.", WordOf("Packaging")),
        Field("quantity", "How many units.", int),
        Field("length", "Metres, of one unit.", metavar="M"),
        Field("width", "Metres, of one unit.", metavar="M"),
        Field("height", "Metres, of one unit.", metavar="M"),
        Field("weight", "Kilograms, of one unit.", metavar="KG"),
        Field("incoterm", "Three letters, such as FOB."),
        Field("hazardous", "Whether the goods are dangerous.", bool),
        Field("notes", "Information for forwarders.", needed=False),
    ),
    "RouteDraft": (
        Field("origin", "Port or city."),
        Field("destination", "Port or city."),
        Field("cy_cutoff", "When the container yard closes, in the route's zone.", MOMENT, metavar="DATE"),
        Field("cfs_cutoff", "When the freight station closes, in the route's zone.", MOMENT, metavar="DATE"),
        Field("departure", "In the route's zone.", MOMENT, metavar="DATE"),
        Field("arrival", "At the destination, by its own clocks.", MOMENT, metavar="DATE"),
        Field("carrier", "The carrier's index; `freight-exchange carriers` lists them.", INDEX),
        Field("vessel", "The vessel's name."),
        Field("voyage_id", "The voyage's code."),
        Field("timezone", "The zone of cut-offs and departure, such as Asia/Hong_Kong."),
    ),
    "Offer": (
        Field("amount", "The total.", metavar="AMOUNT"),
        Field("currency", "Its code, such as USD."),
        Field("terms", "Terms and conditions.", needed=False),
    ),
}
"""The fields of each draft, in the order of its own; an offer's are those of `exchange.bids.submit`."""

_file_option = click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Fields from a file, JSON or TOML (by its name: *.toml); - reads JSON from standard input.",
)


def draft_options(kind: str) -> Callable[[Decorated], Decorated]:
    """Adds the options of that draft, and `--file`."""

    def decorate(command: Decorated) -> Decorated:
        for field in reversed(FIELDS[kind]):
            command = field.decorate(command)
        return _file_option(command)

    return decorate


def drafted(kind: str, given: Mapping[str, Any]) -> Any:
    """The draft, of what options and file say together.

    Raises:
        UsageError: A field is missing, or unknown.
        ValidationError: A value cannot be right; it names the field.
    """
    return getattr(freight_exchange, kind)(**all_fields(kind, given))


def all_fields(kind: str, given: Mapping[str, Any], *, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """As `given_fields`, and all that are needed are among them.

    Raises:
        UsageError: A field is missing, or unknown.
    """
    values = given_fields(kind, given, more=more)
    if missing := [field for field in FIELDS[kind] if field.needed and field.name not in values]:
        named = ", ".join(f"{field.name} ({field.options})" for field in missing)
        raise click.UsageError(f"still missing: {named}; nothing was sent")
    return values


def given_fields(kind: str, given: Mapping[str, Any], *, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """What options and file say together, by the names of the fields; options count before the file.

    Args:
        kind: Of which draft.
        given: The options, and `file` among them.
        more: Names that the file may have beside the fields.

    Raises:
        UsageError: The file cannot be read, or has a field that there is not.
    """
    known = {field.name: field for field in FIELDS[kind]}
    options = {name: given[name] for name in known if given.get(name) is not None}
    values: dict[str, Any] = {}
    for name, value in _read(given.get("file")).items():
        if name not in known and name not in more:
            there = ", ".join([*known, *more])
            raise click.UsageError(f"the file has {name!r}, which is no field; there are {there}; nothing was sent")
        if value is None:
            raise click.UsageError(f"the file has null for {name}: leave it out, or say what it is; nothing was sent")
        if name in options:
            continue
        values[name] = _moment(name, value) if name in known and known[name].type is MOMENT else value
    return values | options


def _read(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    named = "standard input" if file == "-" else file
    try:
        said = _parsed(sys.stdin.read() if file == "-" else _decoded(Path(file).read_bytes()), file)
    except UnicodeDecodeError as error:
        trouble = f"byte {error.start + 1} is no {error.encoding.upper()}"
    except RecursionError:
        trouble = "it goes too deep"
    except (OSError, ValueError) as error:
        # Python's own advice is for programmers.
        trouble = "it has a number of thousands of digits" if "set_int_max_str_digits" in str(error) else str(error)
    else:
        if isinstance(said, dict):
            return said
        raise click.UsageError(f"{named} must hold one object with the fields; nothing was sent")
    raise click.UsageError(f"{named} cannot be read: {trouble}; nothing was sent")


def _decoded(content: bytes) -> str:
    """The text of a file, as programs on Windows write it too."""
    return content.decode("utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8")


def _parsed(text: str, file: str) -> Any:
    text = text.removeprefix("\ufeff")
    if file.lower().endswith(".toml"):
        return tomllib.loads(text, parse_float=Decimal)
    if not text.strip():
        raise ValueError("it is empty")
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_each_once)


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"it gives {key!r} twice")
        found[key] = value
    return found


def _moment(name: str, value: object) -> object:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            raise click.UsageError(
                f"{name} is no date such as 2027-03-01 or '2027-03-01 17:00', but {value!r}; nothing was sent"
            ) from None
    return value
