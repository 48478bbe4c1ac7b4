"""Command `requests`: rate requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

import freight_exchange
from freight_exchange import cargo
from freight_exchange.cli.client.session import client_command, run_with_client
from freight_exchange.cli.commands.requests_import import import_
from freight_exchange.cli.commands.watch import watch
from freight_exchange.cli.drafts import build_draft, draft_options, past_option, reject_past_arrival
from freight_exchange.cli.enum_choice import EnumChoice
from freight_exchange.cli.options import (
    INDEX,
    Duration,
    build_filter,
    filter_options,
    is_weight_assumed,
    json_option,
    limit_option,
    weight_option,
    yes_option,
)
from freight_exchange.cli.output import Output, format_options
from freight_exchange.cli.render import freight
from freight_exchange.cli.render.csv_rows import csv_columns
from freight_exchange.cli.render.listing import print_listing
from freight_exchange.cli.render.record import format_value, print_details, print_json
from freight_exchange.cli.render.table import Column
from freight_exchange.cli.terminal import confirm, require_confirmation, warn
from freight_exchange.errors import NotFoundError

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, RateRequest, RateRequestDraft
    from freight_exchange.cargo import Per
    from freight_exchange.cli.options import GlobalOptions

__all__ = ["requests"]

_COMPUTED: Final = (
    "volume", "weight_per", "gross_weight", "chargeable.amount", "chargeable.unit", "chargeable.by"
)  # fmt: skip
"""Columns of CSV that are computed from the fields of a request."""
_ASSUMED_WEIGHT: Final = "KG reads each weight as that of one unit; --weight total reads it as the total of all units."
_WEIGHT_READINGS: Final[dict[Per, str]] = {"unit": "that of one unit", "total": "the total of all units"}


@click.group
def requests() -> None:
    """Rate requests: find them, publish your own, watch for new ones."""


@requests.command("list")
@filter_options
@click.option(
    "--state",
    type=EnumChoice("SearchType", {"open": "pending", "awarded": "accept"}),
    default="all",
    show_default=True,
    help="State of the requests.",
)
@click.option(
    "--since",
    type=Duration(5, ", which is all that the service lists"),
    metavar="TIME",
    help="Updated within this time, such as 6h; default 5d.",
)
@weight_option
@limit_option
@format_options
@click.pass_context
def list_(
    context: click.Context,
    /,
    state: str,
    since: timedelta | None,
    per: Per,
    limit: int | None,
    output: Output,
    **filters: Any,
) -> None:
    """List the requests of the last five days, open and awarded.

    The service lists no older ones, and lists requests to forwarders only. For the requests that you published, see
    `offers list`.

    CHARGEABLE is the chargeable quantity: revenue tons (W/M) by sea, kilograms by air (divisor 6000) and road (333 kg
    per cubic metre, 1850 kg per loading metre).

    A ? after KG marks a weight that is implausible for the volume. A ? after INCOTERM marks a term that is not in
    Incoterms 2020, or a sea-only term for goods that go by air or road. `requests get` gives the details.

    \b
    Examples:
      freight-exchange requests list --origin "Hong Kong" --type shipping --max-volume 60
      freight-exchange requests list --json | jq .index
    """
    request_filter = build_filter(filters)
    warns_of_weight = is_weight_assumed(context) and not output

    async def work(exchange: FreightExchange) -> None:
        printed = await print_listing(
            exchange.requests.search(type=state, since=since),
            _columns(per),
            output=output,
            csv_columns=[*csv_columns(freight_exchange.RateRequest), *_COMPUTED],
            empty_message="There are no such requests. See `freight-exchange offers list` for your own.",
            limit=limit,
            is_included=lambda request: request_filter is None or request_filter.matches(request),
            convert=lambda request: freight.request_to_json(request, per),
        )
        if printed and warns_of_weight:
            warn(_ASSUMED_WEIGHT)

    run_with_client(context.obj, work)


@requests.command
@click.argument("index", type=INDEX)
@weight_option
@json_option
@client_command
async def get(exchange: FreightExchange, /, index: int, per: Per, as_json: bool) -> None:
    """Show one request, with warnings about implausible values.

    \b
    Example:
      freight-exchange requests get 4
    """
    try:
        request = await exchange.requests.get(index)
    except NotFoundError as error:
        error.add_note(f"For a request that you published, see `freight-exchange offers get {index}`.")
        raise
    _print_request(request, per, as_json=as_json)
    if not as_json:
        _print_warnings(request, per)


@requests.command
@draft_options("RateRequestDraft")
@past_option
@yes_option
@json_option
@click.pass_obj
def publish(options: GlobalOptions, /, past: bool, yes: bool, as_json: bool, **fields: Any) -> None:
    """Publish a request.

    The fields come from options, a file (JSON or TOML), or both; options take precedence.

    \b
    Examples:
      freight-exchange requests publish --file tiles.toml
      freight-exchange requests publish --file tiles.toml --quantity 24 --yes
    """
    require_confirmation(yes=yes)
    draft = build_draft("RateRequestDraft", fields)
    reject_past_arrival(draft.arrival, past=past)

    async def work(exchange: FreightExchange) -> None:
        await exchange.login()
        if not yes:
            print_details(_details(draft, draft.arrival, "unit"), err=True)
        _print_warnings(draft, "unit")
        confirm(
            f"Publish {freight.format_units(draft)} of {format_value(draft.commodity)}, {format_value(draft.origin)} to"
            f" {format_value(draft.destination)}, {draft.volume:f} m3?",
            yes=yes,
        )
        _print_request(await exchange.requests.publish(draft), "unit", as_json=as_json)

    run_with_client(options, work, lookup_command="offers list")


requests.add_command(import_)
requests.add_command(watch)


def _columns(per: Per) -> Sequence[Column[RateRequest]]:
    return (
        Column("INDEX", lambda request: request.index, align_right=True),
        Column("STATUS", lambda request: request.status, drop_order=3),
        Column("REF", lambda request: request.ref_id, drop_order=8),
        Column("TYPE", lambda request: request.type, drop_order=5),
        Column("COMMODITY", lambda request: request.commodity, wraps=True),
        Column("ORIGIN", lambda request: request.origin, wraps=True, drop_order=3),
        Column("DESTINATION", lambda request: request.destination, wraps=True, drop_order=2),
        Column(
            "ARRIVAL", lambda request: None if request.need_date is None else request.need_date.date(), drop_order=7
        ),
        Column("UNITS", freight.format_units, drop_order=9),
        Column("M3", lambda request: request.volume, align_right=True, drop_order=6),
        Column("KG", lambda request: _kilograms(request, per), align_right=True, drop_order=1),
        Column("INCOTERM", _incoterm, drop_order=4),
        Column("CHARGEABLE", lambda request: freight.chargeable(request, per), align_right=True),
    )


def _kilograms(request: RateRequest, per: Per) -> str | None:
    weight = freight.gross_weight(request, per)
    return None if weight is None else f"{weight.kilograms:f}" + ("?" if weight.warning else "")


def _incoterm(request: RateRequest) -> str | None:
    if request.incoterm is None:
        return None
    return request.incoterm + ("?" if cargo.incoterm_warning(request.incoterm, request.type) else "")


def _print_request(request: RateRequest, per: Per, *, as_json: bool) -> None:
    if as_json:
        print_json(freight.request_to_json(request, per))
        return
    print_details(
        [
            ("request", request.index),
            ("reference", request.ref_id),
            ("status", request.status),
            *_details(request, request.need_date, per),
        ]
    )


def _details(
    request: RateRequest | RateRequestDraft, arrival: datetime | None, per: Per
) -> Sequence[tuple[str, object]]:
    """Return the details that requests and drafts share."""
    weight, quantity = freight.gross_weight(request, per), freight.chargeable(request, per)
    sizes = [request.length, request.width, request.height]
    return [
        ("commodity", request.commodity),
        ("type", request.type),
        ("from", request.origin),
        ("to", request.destination),
        ("arrival", arrival),
        ("units", freight.format_units(request)),
        ("each", None if None in sizes else " x ".join(f"{size:f}" for size in sizes) + f" {_length_unit(request)}"),
        ("volume", None if request.volume is None else f"{request.volume:f} m3"),
        ("weight", _stated_weight(request, per)),
        ("gross weight", None if weight is None else f"{weight.kilograms:f} kg"),
        ("chargeable", None if quantity is None else f"{quantity} by {quantity.basis}"),
        ("incoterm", request.incoterm),
        ("hazardous", request.hazardous),
        ("notes", request.notes),
    ]


def _length_unit(request: RateRequest | RateRequestDraft) -> str:
    return getattr(request, "measure_unit", None) or "m"  # drafts are in metres


def _stated_weight(request: RateRequest | RateRequestDraft, per: Per) -> str | None:
    if request.weight is None:
        return None
    unit = getattr(request, "mass_unit", None) or "kg"  # drafts are in kilograms
    return f"{request.weight:f} {unit}, read as {_WEIGHT_READINGS[per]}"


def _print_warnings(request: RateRequest | RateRequestDraft, per: Per) -> None:
    for warning in freight.find_warnings(request, per):
        warn(f"Check the {warning.field}: {format_value(warning.message)}")
