"""Which requests to show: the options of `requests list` and `requests watch` as a filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

import freight_exchange
from freight_exchange.cli.options import MOMENT, WordOf

if TYPE_CHECKING:
    from freight_exchange import RequestFilter

__all__ = ["filter_options", "filtered"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--origin", multiple=True, metavar="PLACE", help="From this port or city; may be repeated."),
    click.option("--destination", multiple=True, metavar="PLACE", help="To this port or city; may be repeated."),
    click.option("--type", "type", multiple=True, type=WordOf("RequestType"), help="How it travels; may be repeated."),
    click.option("--commodity", multiple=True, metavar="NAME", help="Of these goods; may be repeated."),
    click.option("--incoterm", multiple=True, metavar="CODE", help="On these terms, such as FOB; may be repeated."),
    click.option("--hazardous/--not-hazardous", default=None, help="Dangerous goods alone, or all others."),
    click.option("--max-volume", metavar="M3", help="No more cubic metres than this, of all units."),
    click.option("--max-weight", metavar="KG", help="No more kilograms than this, as the request says them."),
    click.option("--need-by", type=MOMENT, metavar="DATE", help="Wanted by then at the latest."),
)


def filter_options(command: Decorated) -> Decorated:
    """Adds the options; the command is given them by the names of `RequestFilter`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def filtered(given: dict[str, Any]) -> RequestFilter | None:
    """The filter that the options ask for, or `None` where they ask for none.

    Raises:
        ValidationError: A value cannot be right.
    """
    asked = {name: value for name, value in given.items() if value not in (None, ())}
    return freight_exchange.RequestFilter(**asked) if asked else None
