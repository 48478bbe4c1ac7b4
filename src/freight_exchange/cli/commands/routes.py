"""Command `routes`: scheduled sailings and other routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import attrs
import click

import freight_exchange
from freight_exchange import validation
from freight_exchange.cli.client.session import client_command, run_with_client
from freight_exchange.cli.drafts import build_draft, collect_fields, draft_options, past_option, reject_past_arrival
from freight_exchange.cli.options import DATETIME, INDEX, json_option, limit_option, yes_option
from freight_exchange.cli.output import Output, format_options
from freight_exchange.cli.render.csv_rows import csv_columns
from freight_exchange.cli.render.listing import print_listing
from freight_exchange.cli.render.record import format_value, print_details, print_json
from freight_exchange.cli.render.table import Column
from freight_exchange.cli.terminal import confirm, require_confirmation, warn

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Route, RouteDraft
    from freight_exchange.cli.options import GlobalOptions

__all__ = ["routes"]

_ZONED_FIELDS = ("cy_cutoff", "cfs_cutoff", "departure")
"""Times in the zone of the route."""

_COLUMNS: tuple[Column[Route], ...] = (
    Column("INDEX", lambda route: route.index, align_right=True),
    Column("ORIGIN", lambda route: route.origin, wraps=True, drop_order=2),
    Column("DESTINATION", lambda route: route.destination, wraps=True, drop_order=1),
    Column("VESSEL", lambda route: route.vessel, wraps=True, drop_order=3),
    Column("VOYAGE", lambda route: route.voyage_id, drop_order=7),
    Column("CY CUT-OFF", lambda route: route.cy_cutoff, drop_order=5),
    Column("CFS CUT-OFF", lambda route: route.cfs_cutoff, drop_order=6),
    Column("DEPARTURE", lambda route: route.departure),
    Column("ARRIVAL", lambda route: route.arrival, drop_order=4),
    Column("CARRIER", lambda route: route.carrier, align_right=True, drop_order=8),
)


@click.group
def routes() -> None:
    """Routes: find them, create and update them."""


@routes.command("list")
@click.option("--origin", metavar="PLACE", help="Port or city of origin.")
@click.option("--destination", metavar="PLACE", help="Port or city of destination.")
@click.option("--carrier", type=INDEX, metavar="INDEX", help="Index of the carrier.")
@click.option("--vessel", metavar="NAME", help="Name of the vessel.")
@click.option("--voyage-id", metavar="CODE", help="Code of the voyage.")
@click.option("--departs-from", type=DATETIME, metavar="DATE", help="Earliest departure.")
@click.option("--departs-until", type=DATETIME, metavar="DATE", help="Latest departure.")
@click.option("--arrives-from", type=DATETIME, metavar="DATE", help="Earliest arrival.")
@click.option("--arrives-until", type=DATETIME, metavar="DATE", help="Latest arrival.")
@limit_option
@format_options
@client_command
async def list_(exchange: FreightExchange, /, limit: int | None, output: Output, **filters: Any) -> None:
    """List routes. Cut-offs and departure are in the route's time zone; the zone of the arrival is not stated.

    \b
    Example:
      freight-exchange routes list --origin "Hong Kong" --departs-from 2027-02-01
    """
    await print_listing(
        exchange.routes.list(**filters),
        _COLUMNS,
        output=output,
        csv_columns=csv_columns(freight_exchange.Route),
        empty_message="There are no such routes.",
        limit=limit,
    )


@routes.command
@click.argument("index", type=INDEX)
@json_option
@client_command
async def get(exchange: FreightExchange, /, index: int, as_json: bool) -> None:
    """Show one route.

    \b
    Example:
      freight-exchange routes get 2
    """
    _print_route(await exchange.routes.get(index), as_json=as_json)


@routes.command
@draft_options("RouteDraft")
@past_option
@yes_option
@json_option
@click.pass_obj
def create(options: GlobalOptions, /, past: bool, yes: bool, as_json: bool, **fields: Any) -> None:
    """Create a route.

    The fields come from options, a file (JSON or TOML), or both; options take precedence.

    \b
    Example:
      freight-exchange routes create --file sailing.toml --vessel "Ever Patient"
    """
    require_confirmation(yes=yes)
    draft = build_draft("RouteDraft", fields)
    reject_past_arrival(draft.arrival, past=past)

    async def work(exchange: FreightExchange) -> None:
        await exchange.login()
        if not yes:
            print_details(_details(draft), err=True)
        confirm(f"Create the route {_describe(draft)}?", yes=yes)
        created = await exchange.routes.create(draft)
        if created is not None:
            _print_route(created, as_json=as_json)
            return
        warn("The route is created; the service did not return its number.")
        if as_json:
            print_json(draft)
        else:
            print_details(_details(draft))

    run_with_client(options, work, lookup_command="routes list")


@routes.command
@click.argument("index", type=INDEX)
@draft_options("RouteDraft")
@past_option
@yes_option
@json_option
@click.pass_obj
def update(options: GlobalOptions, /, index: int, past: bool, yes: bool, as_json: bool, **fields: Any) -> None:
    """Change a route.

    The command reads the route, replaces the fields that options or file give, and sends it.

    A new --timezone keeps the local times of cut-offs and departure: 17:00 in Hong Kong becomes 17:00 in Hamburg, seven
    hours later. The question lists every date that changes.

    \b
    Examples:
      freight-exchange routes update 2 --vessel "Ever Patient"
      freight-exchange routes update 2 --timezone Europe/Berlin
    """
    require_confirmation(yes=yes)
    changes = collect_fields("RouteDraft", fields)
    if not changes:
        raise click.UsageError("there is nothing to change: give an option or --file; nothing was sent")
    reject_past_arrival(changes.get("arrival"), past=past)

    async def work(exchange: FreightExchange) -> None:
        before = await exchange.routes.get(index)
        after = _apply(before, changes)
        changed = [*changes, *(name for name in _ZONED_FIELDS if getattr(before, name) != getattr(after, name))]
        summary = ", ".join(
            f"{name} {format_value(getattr(before, name))} to {format_value(getattr(after, name))}"
            for name in dict.fromkeys(changed)
        )
        confirm(f"Change route {index}: {summary}?", yes=yes)
        updated = await exchange.routes.update(after)
        _print_route(after if updated is None else updated, as_json=as_json)

    run_with_client(options, work, lookup_command=f"routes get {index}")


def _apply(before: Route, changes: Mapping[str, Any]) -> Route:
    """Return the changed route; a new time zone keeps the local times."""
    after = attrs.evolve(before, **changes)
    is_rezoned = "timezone" in changes
    zone = validation.timezone(after.timezone) if is_rezoned else validation.find_zone(after.timezone or "")
    if zone is None:
        return after
    times: dict[str, Any] = {name: getattr(after, name) for name in _ZONED_FIELDS if is_rezoned or name in changes}
    for name, time in times.items():
        # The SDK rejects other values, which a file may have.
        if isinstance(time, datetime):
            times[name] = validation.zoned_datetime(time if name in changes else time.replace(tzinfo=None), zone, name)
    return attrs.evolve(after, **times)


def _describe(draft: RouteDraft) -> str:
    places = f"{format_value(draft.origin)} to {format_value(draft.destination)}"
    return f"{places}, {format_value(draft.vessel)} {format_value(draft.voyage_id)}"


def _print_route(route: Route, *, as_json: bool) -> None:
    if as_json:
        print_json(route)
        return
    print_details([("route", route.index), *_details(route)])


def _details(route: Route | RouteDraft) -> Sequence[tuple[str, object]]:
    """Return the details that routes and drafts share."""
    return [
        ("from", route.origin),
        ("to", route.destination),
        ("vessel", route.vessel),
        ("voyage", route.voyage_id),
        ("cy cut-off", route.cy_cutoff),
        ("cfs cut-off", route.cfs_cutoff),
        ("departure", route.departure),
        ("arrival", route.arrival),
        ("carrier", route.carrier),
        ("time zone", route.timezone),
    ]
