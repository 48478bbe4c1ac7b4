"""`requests`: what shippers ask offers for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from freight_exchange import cargo
from freight_exchange.cli.commands.watch import watch
from freight_exchange.cli.confirm import check, confirm
from freight_exchange.cli.drafts import draft_options, drafted
from freight_exchange.cli.filters import filter_options, filtered
from freight_exchange.cli.options import (
    INDEX,
    Duration,
    WordOf,
    json_option,
    limit_option,
    weight_is_assumed,
    weight_option,
    yes_option,
)
from freight_exchange.cli.render import freight
from freight_exchange.cli.render.listing import show_listing
from freight_exchange.cli.render.tables import Column, said, show_details, show_json
from freight_exchange.cli.session import connected
from freight_exchange.cli.warn import aside
from freight_exchange.errors import NotFoundError

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, RateRequest, RateRequestDraft
    from freight_exchange.cargo import Per
    from freight_exchange.cli.settings import Settings

__all__ = ["requests"]

_WEIGHT_ASSUMED: Final = "KG reads each weight as that of one unit; --weight total reads it as the total of all units."
_READING: Final[dict[Per, str]] = {"unit": "that of one unit", "total": "the total of all units"}


@click.group
def requests() -> None:
    """Rate requests: find them, publish your own, watch for new ones."""


@requests.command("list")
@filter_options
@click.option("--state", type=WordOf("SearchType"), default="all", help="Open ones (pending), awarded ones, or all.")
@click.option(
    "--since",
    type=Duration(5, ", which is all that the service lists"),
    metavar="TIME",
    help="Updated within it, such as 6h; five days unless told.",
)
@weight_option
@limit_option
@json_option
@click.pass_context
def list_(
    context: click.Context,
    /,
    state: str,
    since: timedelta | None,
    per: Per,
    limit: int | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """List the requests of the last five days, open and awarded.

    The service lists no older ones, and lists them to forwarders: what you have published yourself is under `offers
    list`.

    CHARGEABLE is what a carrier would charge for: revenue tons (W/M) by sea, kilograms by air (divisor 6000) and road
    (333 kg a cubic metre, 1850 kg a loading metre).

    A ? after KG says that weight and volume do not go together; a ? after INCOTERM, that it is none of the Incoterms
    2020, or one for sea alone where the goods go by air or road. `requests get` says more.

    \b
    Examples:
      freight-exchange requests list --origin "Hong Kong" --type shipping --max-volume 60
      freight-exchange requests list --json | jq .index
    """
    where = filtered(filters)
    assumed = weight_is_assumed(context) and not as_json

    async def work(exchange: FreightExchange) -> None:
        shown = await show_listing(
            exchange.requests.search(type=state, since=since),
            _columns(per),
            as_json=as_json,
            nothing="There are no such requests. What you have published is under `freight-exchange offers list`.",
            limit=limit,
            wanted=lambda request: where is None or where.matches(request),
            as_object=lambda request: freight.as_object(request, per),
        )
        if shown and assumed:
            aside(_WEIGHT_ASSUMED)

    connected(context.obj, work)


@requests.command
@click.argument("index", type=INDEX)
@weight_option
@json_option
@click.pass_obj
def get(settings: Settings, /, index: int, per: Per, as_json: bool) -> None:
    """Show one request, with what is odd about it.

    \b
    Example:
      freight-exchange requests get 4
    """

    async def work(exchange: FreightExchange) -> None:
        try:
            request = await exchange.requests.get(index)
        except NotFoundError as error:
            error.add_note(f"What you have published is under `freight-exchange offers get {index}`.")
            raise
        _show(request, per, as_json=as_json)
        if not as_json:
            _say_doubts(request, per)

    connected(settings, work)


@requests.command
@draft_options("RateRequestDraft")
@yes_option
@json_option
@click.pass_obj
def publish(settings: Settings, /, yes: bool, as_json: bool, **given: Any) -> None:
    """Publish a request.

    It is given by options, by a file (JSON or TOML), or by both: then the options count.

    \b
    Examples:
      freight-exchange requests publish --file tiles.toml
      freight-exchange requests publish --file tiles.toml --quantity 24 --yes
    """
    check(yes=yes)
    draft = drafted("RateRequestDraft", given)

    async def work(exchange: FreightExchange) -> None:
        await exchange.login()
        if not yes:
            show_details(_lines(draft, draft.arrival, "unit"), err=True)
        _say_doubts(draft, "unit")
        confirm(
            f"Publish {freight.units(draft)} of {said(draft.commodity)}, {said(draft.origin)} to"
            f" {said(draft.destination)}, {draft.volume:f} m3?",
            yes=yes,
        )
        _show(await exchange.requests.publish(draft), "unit", as_json=as_json)

    connected(settings, work, look="offers list")


requests.add_command(watch)


def _columns(per: Per) -> Sequence[Column[RateRequest]]:
    return (
        Column("INDEX", lambda request: request.index, right=True),
        Column("STATUS", lambda request: request.status, spare=3),
        Column("REF", lambda request: request.ref_id, spare=8),
        Column("TYPE", lambda request: request.type, spare=5),
        Column("COMMODITY", lambda request: request.commodity, folds=True),
        Column("ORIGIN", lambda request: request.origin, folds=True, spare=3),
        Column("DESTINATION", lambda request: request.destination, folds=True, spare=2),
        Column("ARRIVAL", lambda request: None if request.need_date is None else request.need_date.date(), spare=7),
        Column("UNITS", freight.units, spare=9),
        Column("M3", lambda request: request.volume, right=True, spare=6),
        Column("KG", lambda request: _kilograms(request, per), right=True, spare=1),
        Column("INCOTERM", _incoterm, spare=4),
        Column("CHARGEABLE", lambda request: freight.charge(request, per), right=True),
    )


def _kilograms(request: RateRequest, per: Per) -> str | None:
    weight = freight.gross(request, per)
    return None if weight is None else f"{weight.kilograms:f}" + ("?" if weight.warning else "")


def _incoterm(request: RateRequest) -> str | None:
    if request.incoterm is None:
        return None
    return request.incoterm + ("?" if cargo.incoterm_warning(request.incoterm, request.type) else "")


def _show(request: RateRequest, per: Per, *, as_json: bool) -> None:
    if as_json:
        show_json(freight.as_object(request, per))
        return
    show_details(
        [
            ("request", request.index),
            ("reference", request.ref_id),
            ("status", request.status),
            *_lines(request, request.need_date, per),
        ]
    )


def _lines(request: RateRequest | RateRequestDraft, arrival: datetime | None, per: Per) -> Sequence[tuple[str, object]]:
    """What a request, or a draft of one, says of its freight."""
    weight, charge = freight.gross(request, per), freight.charge(request, per)
    sizes = [request.length, request.width, request.height]
    return [
        ("commodity", request.commodity),
        ("type", request.type),
        ("from", request.origin),
        ("to", request.destination),
        ("arrival", arrival),
        ("units", freight.units(request)),
        ("each", None if None in sizes else " x ".join(f"{size:f}" for size in sizes) + f" {_length_unit(request)}"),
        ("volume", None if request.volume is None else f"{request.volume:f} m3"),
        ("weight", _stated_weight(request, per)),
        ("gross weight", None if weight is None else f"{weight.kilograms:f} kg"),
        ("chargeable", None if charge is None else f"{charge} by {charge.by}"),
        ("incoterm", request.incoterm),
        ("hazardous", request.hazardous),
        ("notes", request.notes),
    ]


def _length_unit(request: RateRequest | RateRequestDraft) -> str:
    return getattr(request, "measure_unit", None) or "m"  # a draft is in metres


def _stated_weight(request: RateRequest | RateRequestDraft, per: Per) -> str | None:
    if request.weight is None:
        return None
    unit = getattr(request, "mass_unit", None) or "kg"  # a draft is in kilograms
    return f"{request.weight:f} {unit}, read as {_READING[per]}"


def _say_doubts(request: RateRequest | RateRequestDraft, per: Per) -> None:
    for doubt in freight.doubts(request, per):
        aside(f"Is its {doubt.field} right? {said(doubt.message)}")
