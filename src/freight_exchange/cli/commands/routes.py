"""`routes`: scheduled sailings and other routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import attrs
import click

from freight_exchange.cli.confirm import check, confirm
from freight_exchange.cli.drafts import draft_options, drafted, given_fields
from freight_exchange.cli.options import INDEX, MOMENT, json_option, limit_option, yes_option
from freight_exchange.cli.render.listing import show_listing
from freight_exchange.cli.render.tables import Column, plain, said, show_details, show_json
from freight_exchange.cli.session import connected
from freight_exchange.cli.warn import aside
from freight_exchange.models import validation

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Route, RouteDraft
    from freight_exchange.cli.settings import Settings

__all__ = ["routes"]

_ZONED = ("cy_cutoff", "cfs_cutoff", "departure")
"""The times of a route that are in its zone."""

_COLUMNS: tuple[Column[Route], ...] = (
    Column("INDEX", lambda route: route.index, right=True),
    Column("ORIGIN", lambda route: route.origin, folds=True, spare=2),
    Column("DESTINATION", lambda route: route.destination, folds=True, spare=1),
    Column("VESSEL", lambda route: route.vessel, folds=True, spare=3),
    Column("VOYAGE", lambda route: route.voyage_id, spare=7),
    Column("CY CUT-OFF", lambda route: route.cy_cutoff, spare=5),
    Column("CFS CUT-OFF", lambda route: route.cfs_cutoff, spare=6),
    Column("DEPARTURE", lambda route: route.departure),
    Column("ARRIVAL", lambda route: route.arrival, spare=4),
    Column("CARRIER", lambda route: route.carrier, right=True, spare=8),
)


@click.group
def routes() -> None:
    """Routes: find them, create and update them."""


@routes.command("list")
@click.option("--origin", metavar="PLACE", help="From this port or city.")
@click.option("--destination", metavar="PLACE", help="To this port or city.")
@click.option("--carrier", type=INDEX, metavar="INDEX", help="By this carrier.")
@click.option("--vessel", metavar="NAME", help="By this vessel.")
@click.option("--voyage-id", metavar="CODE", help="On this voyage.")
@click.option("--departs-from", type=MOMENT, metavar="DATE", help="Leaving then or later.")
@click.option("--departs-until", type=MOMENT, metavar="DATE", help="Leaving then or earlier.")
@click.option("--arrives-from", type=MOMENT, metavar="DATE", help="Arriving then or later.")
@click.option("--arrives-until", type=MOMENT, metavar="DATE", help="Arriving then or earlier.")
@limit_option
@json_option
@click.pass_obj
def list_(settings: Settings, /, limit: int | None, as_json: bool, **filters: str | int | datetime | None) -> None:
    """List routes. Cut-offs and departure are in the route's own time zone, the arrival in no zone that is named.

    \b
    Example:
      freight-exchange routes list --origin "Hong Kong" --departs-from 2027-02-01
    """
    wanted: dict[str, Any] = filters

    async def work(exchange: FreightExchange) -> None:
        await show_listing(
            exchange.routes.list(**wanted),
            _COLUMNS,
            as_json=as_json,
            nothing="There are no such routes.",
            limit=limit,
        )

    connected(settings, work)


@routes.command
@click.argument("index", type=INDEX)
@json_option
@click.pass_obj
def get(settings: Settings, /, index: int, as_json: bool) -> None:
    """Show one route.

    \b
    Example:
      freight-exchange routes get 2
    """

    async def work(exchange: FreightExchange) -> None:
        _show(await exchange.routes.get(index), as_json=as_json)

    connected(settings, work)


@routes.command
@draft_options("RouteDraft")
@yes_option
@json_option
@click.pass_obj
def create(settings: Settings, /, yes: bool, as_json: bool, **given: Any) -> None:
    """Create a route.

    It is given by options, by a file (JSON or TOML), or by both: then the options count.

    \b
    Example:
      freight-exchange routes create --file sailing.toml --vessel "Ever Patient"
    """
    check(yes=yes)
    draft = drafted("RouteDraft", given)

    async def work(exchange: FreightExchange) -> None:
        await exchange.login()
        if not yes:
            show_details(_lines(draft), err=True)
        confirm(f"Create the route {_described(draft)}?", yes=yes)
        created = await exchange.routes.create(draft)
        if created is not None:
            _show(created, as_json=as_json)
            return
        aside("The route is created; the service did not say under which number.")
        if as_json:
            show_json({"index": None, **plain(draft), "extra": {}})
        else:
            show_details(_lines(draft))

    connected(settings, work, look="routes list")


@routes.command
@click.argument("index", type=INDEX)
@draft_options("RouteDraft")
@yes_option
@json_option
@click.pass_obj
def update(settings: Settings, /, index: int, yes: bool, as_json: bool, **given: Any) -> None:
    """Change a route.

    What you give, by options or a file, is put in; all else stays as it is read now.

    With another --timezone cut-offs and departure stay what the clocks show, and are meant in the new zone: 17:00 in
    Hong Kong becomes 17:00 in Hamburg, seven hours later. The question lists every date that changes so.

    \b
    Examples:
      freight-exchange routes update 2 --vessel "Ever Patient"
      freight-exchange routes update 2 --timezone Europe/Berlin
    """
    check(yes=yes)
    changes = given_fields("RouteDraft", given)
    if not changes:
        raise click.UsageError("there is nothing to change: give an option or --file; nothing was sent")

    async def work(exchange: FreightExchange) -> None:
        before = await exchange.routes.get(index)
        after = _changed(before, changes)
        different = [*changes, *(name for name in _ZONED if getattr(before, name) != getattr(after, name))]
        listed = ", ".join(
            f"{name} {said(getattr(before, name))} to {said(getattr(after, name))}" for name in dict.fromkeys(different)
        )
        confirm(f"Change route {index}: {listed}?", yes=yes)
        updated = await exchange.routes.update(after)
        _show(after if updated is None else updated, as_json=as_json)

    connected(settings, work, look=f"routes get {index}")


def _changed(before: Route, changes: Mapping[str, Any]) -> Route:
    """The route with these changes; in another zone its times stay what the clocks show."""
    after = attrs.evolve(before, **changes)
    moved = "timezone" in changes
    zone = validation.timezone(after.timezone) if moved else validation.find_zone(after.timezone or "")
    if zone is None:
        return after
    times: dict[str, Any] = {name: getattr(after, name) for name in _ZONED if moved or name in changes}
    for name, time in times.items():
        # What a file has in place of a date, the SDK refuses.
        if isinstance(time, datetime):
            times[name] = validation.zoned_datetime(time if name in changes else time.replace(tzinfo=None), zone, name)
    return attrs.evolve(after, **times)


def _described(draft: RouteDraft) -> str:
    return f"{said(draft.origin)} to {said(draft.destination)}, {said(draft.vessel)} {said(draft.voyage_id)}"


def _show(route: Route, *, as_json: bool) -> None:
    if as_json:
        show_json(route)
        return
    show_details([("route", route.index), *_lines(route)])


def _lines(route: Route | RouteDraft) -> Sequence[tuple[str, object]]:
    """What a route, or a draft of one, says."""
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
