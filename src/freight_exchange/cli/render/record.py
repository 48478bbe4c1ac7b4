"""Values and single records, as text for people and as JSON for programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import click
from rich.cells import cell_len

from freight_exchange import wire
from freight_exchange.cli.exit_status import OutputError, is_output_full
from freight_exchange.cli.terminal import warn
from freight_exchange.platform.text import clean

if TYPE_CHECKING:
    from freight_exchange import FreightExchange
    from freight_exchange.base import Serializable

__all__ = [
    "currency_codes",
    "escape_json",
    "fee_details",
    "format_amount",
    "format_value",
    "print_details",
    "print_json",
    "print_result",
    "to_json",
]

_MAYBE_UNPRINTABLE: Final = re.compile(r"[^ -~]")


def format_value(value: object) -> str:
    """Format a value for people, safe for a terminal."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Decimal():
            return f"{value:f}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}" + ("" if value.tzinfo is None else f" {clean(str(value.tzname()))}")
        case date():
            return value.isoformat()
        case _:
            return clean(str(value))


def to_json(value: object) -> Any:
    """Convert a value to JSON types: a record as `freight_exchange.to_dict` does, others by the same rules."""
    # Imported with the first record: help and completion need neither.
    from freight_exchange.serialization import is_known, to_dict

    kind: Any = type(value)
    match value:
        case _ if is_known(kind):
            return to_dict(cast("Serializable", value))
        case _ if attrs.has(kind):
            return {field.name: to_json(getattr(value, field.name)) for field in attrs.fields(kind)}
        case datetime():
            return value.isoformat()
        case Decimal():
            return str(value)
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case list() | tuple():
            return [to_json(item) for item in value]
        case _:
            return value


def print_details(details: Iterable[tuple[str, object]], *, err: bool = False) -> None:
    """Print a record, one field per line without the empty ones; `err` selects standard error."""
    known = [(name, format_value(value)) for name, value in details if value not in (None, "")]
    indent = max((cell_len(name) for name, _ in known), default=0)
    for name, value in known:
        (warn if err else click.echo)(f"{name}{' ' * (indent - cell_len(name))}  {value}")


def print_json(value: object) -> None:
    """Print one JSON object on a line."""
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    click.echo(escape_json(wire.dump(to_json(value)).decode(), ascii_only=ascii_only))


def escape_json(text: str, *, ascii_only: bool) -> str:
    """Escape control and format characters in JSON text, so that it is safe for a terminal."""

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character.isprintable() and not ascii_only:
            return character
        units = character.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    return _MAYBE_UNPRINTABLE.sub(escape, text)


def print_result(sentence: str, result: Mapping[str, object], *, as_json: bool) -> None:
    """Print the result of a command that has taken effect, as a sentence or as JSON.

    Raises:
        OutputError: It cannot be printed.
    """
    try:
        if as_json:
            print_json(result)
        else:
            click.echo(sentence)
    except OSError as error:
        if not is_output_full(error):
            raise
        raise OutputError(error) from None


async def currency_codes(exchange: FreightExchange) -> dict[int, str]:
    """Fetch the code of each currency by its index."""
    return {currency.index: currency.code async for currency in exchange.currencies.list() if currency.code}


def format_amount(amount: Decimal | None, currency: int | None, codes: Mapping[int, str]) -> str | None:
    """Format an amount with the code of its currency."""
    if amount is None:
        return None
    if currency is None:
        return f"{amount:f}"
    return f"{amount:f} {codes.get(currency, f'(currency {currency})')}"


def fee_details(rates: Mapping[str, Decimal] | None) -> list[tuple[str, Decimal]]:
    """Return the fees of an offer as details, indented below the total."""
    return [(f"  {format_value(name)}", fee) for name, fee in (rates or {}).items()]
