"""Filter options of `requests list` and `requests watch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

import freight_exchange
from freight_exchange.cli.options import DATETIME, EnumChoice

if TYPE_CHECKING:
    from freight_exchange import RequestFilter

__all__ = ["build_filter", "filter_options"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--origin", multiple=True, metavar="PLACE", help="Port or city of origin; may be repeated."),
    click.option("--destination", multiple=True, metavar="PLACE", help="Port or city of destination; may be repeated."),
    click.option(
        "--type", "type", multiple=True, type=EnumChoice("RequestType"), help="Mode of transport; may be repeated."
    ),
    click.option("--commodity", multiple=True, metavar="NAME", help="Commodity; may be repeated."),
    click.option("--incoterm", multiple=True, metavar="CODE", help="Incoterm, such as FOB; may be repeated."),
    click.option("--hazardous/--not-hazardous", default=None, help="Only dangerous goods, or only others."),
    click.option("--max-volume", metavar="M3", help="Maximum volume of all units, in cubic metres."),
    click.option("--max-weight", metavar="KG", help="Maximum weight as the request states it, in kilograms."),
    click.option("--need-by", type=DATETIME, metavar="DATE", help="Latest arrival date."),
)


def filter_options(command: Decorated) -> Decorated:
    """Add the filter options, passed by the field names of `RequestFilter`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def build_filter(options: dict[str, Any]) -> RequestFilter | None:
    """Build the filter, or return `None` if no filter option is set.

    Raises:
        ValidationError: A value is invalid.
    """
    fields = {name: value for name, value in options.items() if value not in (None, ())}
    return freight_exchange.RequestFilter(**fields) if fields else None
