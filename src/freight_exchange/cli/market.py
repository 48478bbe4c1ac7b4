"""Commands of the market: `requests`, `offers`, `bids`, `routes`, `carriers` and `currencies`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import click

from freight_exchange import RequestFilter, models
from freight_exchange.cli import files
from freight_exchange.cli import options as opt
from freight_exchange.cli.files import draft_options
from freight_exchange.cli.login import connect, with_client
from freight_exchange.cli.run import Failure, Status, confirm, warn, yes_option
from freight_exchange.cli.show import (
    Out,
    collect,
    counted,
    csv_columns,
    price_of,
    progress,
    text_of,
    units_of,
    warnings_of,
)
from freight_exchange.cli.watch import watch, watch_offers
from freight_exchange.errors import BadRequestError, NotFoundError

if TYPE_CHECKING:
    from freight_exchange import FreightExchange
    from freight_exchange.cargo import Per

__all__ = ["bids", "carriers", "currencies", "offers", "requests", "routes"]

_COMPUTED: Final = ("volume", "weight_per", "gross_weight", "chargeable.amount", "chargeable.unit", "chargeable.by")
"""Columns of CSV that are computed from the fields of a request."""
_OFFER: Final = {"amount": Decimal, "currency": str, "terms": str | None}
_REQUEST: Final = opt.fields_of(models.RateRequestDraft)
_ROUTE: Final = opt.fields_of(models.RouteDraft)
_ROUTE_FILTERS: Final = {
    **dict.fromkeys(("origin", "destination"), str | None), "carrier": int | None,
    **dict.fromkeys(("vessel", "voyage_id"), str | None),
    **dict.fromkeys(("departs_from", "departs_until", "arrives_from", "arrives_until"), datetime | None),
}  # fmt: skip
_ZONED: Final = ("cy_cutoff", "cfs_cutoff", "departure")
"""Times in the zone of the route."""


def _state(help: str, default: str | None = "all", **words: str) -> Callable[[opt.AnyCommand], opt.AnyCommand]:
    """Return `--state`; `words` are those of the service by the names that they have here."""
    kind = opt.Choices({name.replace("_", "-"): word for name, word in words.items()})
    return click.option("--state", type=kind, default=default, show_default=default is not None, help=help)


# Requests


@click.group(cls=opt.Group)
def requests() -> None:
    """Rate requests: find them, publish your own, watch for new ones."""


@requests.command("list")
@opt.made_from(opt.fields_of(RequestFilter))
@_state("State of the requests.", open="pending", awarded="accept", all="all")
@click.option("--since", type=opt.duration, metavar="TIME", help="Updated within this time, such as 6h. Default: 5d.")
@opt.weight(default="unit", show_default=True)
@opt.limit
@opt.as_json
@opt.as_csv
@with_client
async def list_requests(
    exchange: FreightExchange, /, state: str, since: timedelta | None, limit: int | None, out: Out, **filters: Any
) -> None:
    """List the requests of the last five days, open and awarded.

    The service lists no older ones, and lists requests to forwarders only. For the requests that you published, see
    `offers list`.

    CHARGEABLE is the chargeable quantity: revenue tons (W/M) by sea, kilograms by air (divisor 6000) and road (333 kg
    per cubic metre, 1850 kg per loading metre).

    A ? after KG marks a weight that is implausible for the volume. A ? after INCOTERM marks a term that is not in
    Incoterms 2020, or a sea-only term for goods that go by air or road. `requests get` gives the details.

    $ requests list --origin "Hong Kong" --type shipping --max-volume 60
    $ requests list --json | jq .index
    """
    where = RequestFilter(**{name: value for name, value in filters.items() if value not in (None, ())})
    printed = await out.listing(
        exchange.requests.search(type=state, since=since),
        "There are no such requests. See `freight-exchange offers list` for your own.",
        limit=limit,
        is_included=where.matches,
        columns=[*csv_columns(models.RateRequest), *_COMPUTED],
    )
    if printed and not out.format and not opt.is_typed("per"):
        warn("KG reads each weight as that of one unit; --weight total reads it as the total of all units.")


@requests.command
@click.argument("index", type=opt.index)
@opt.weight(default="unit", show_default=True)
@opt.as_json
@with_client
async def get(exchange: FreightExchange, /, index: int, out: Out) -> None:
    """Show one request, with warnings about implausible values.

    $ requests get 4
    """
    try:
        request = await exchange.requests.get(index)
    except NotFoundError as error:
        error.add_note(f"For a request that you published, see `freight-exchange offers get {index}`.")
        raise
    out.record(request)
    if not out.format:
        _warn_of(request, out.per)


@requests.command
@draft_options(_REQUEST)
@opt.past
@yes_option("sent")
@opt.as_json
@with_client(lookup="offers list")
async def publish(exchange: FreightExchange, /, past: bool, yes: bool, out: Out, **typed: Any) -> None:
    """Publish a request.

    The fields come from options, a file (JSON or TOML), or both; options take precedence.

    $ requests publish --file tiles.toml
    $ requests publish --file tiles.toml --quantity 24 --yes
    """
    draft = files.draft_of(models.RateRequestDraft, typed, past=past)
    await exchange.login()
    if not yes:
        out.details(draft, err=True)
    _warn_of(draft, "unit")
    places = f"{draft.origin} to {draft.destination}, {draft.volume:f} m3"
    await confirm(f"Publish {units_of(draft)} of {draft.commodity}, {places}?", yes=yes)
    out.record(await exchange.requests.publish(draft))


requests.add_command(files.import_)
requests.add_command(watch)


def _warn_of(request: models.RateRequest | models.RateRequestDraft, per: Per) -> None:
    for warning in warnings_of(request, per):
        warn(f"Check the {warning.field}: {text_of(warning.message)}")


# Offers on own requests


class OfferRow(NamedTuple):
    """Offer with its request; a request without offers has a row too."""

    listing: models.Listing
    offer: models.Offer | None

    @property
    def status(self) -> object:
        return "no offer yet" if self.offer is None else self.offer.status


@click.group(cls=opt.Group)
def offers() -> None:
    """Offers on your own requests: list, watch, compare and export them, approve or decline one."""


@offers.command("list")
@_state("Which of your requests.", all="all", with_offers="offers", selected="sel", not_selected="nsel")
@opt.limit
@opt.as_json
@opt.as_csv
@with_client
async def list_offers(exchange: FreightExchange, /, state: str, limit: int | None, out: Out) -> None:
    """List your requests, each with the offers on it.

    CSV has a row for each offer.

    $ offers list --state with-offers
    """
    listing = exchange.offers.search(type=state)
    if out.format == "json":
        await out.listing(listing, "", limit=limit)
        return
    if not out.format:
        await out.read_codes(exchange)
    rows = [
        OfferRow(record, offer) for record in await collect(listing, limit=limit) for offer in record.offers or (None,)
    ]
    if out.format == "csv":
        columns = [*csv_columns(models.Listing, exclude=("offers",)), *csv_columns(models.Offer, prefix="offer.")]
        out.records([{**out.plain(row.listing), "offer": out.plain(row.offer)} for row in rows], "", columns)
        return
    out.table(rows, "You have published no such requests. See `freight-exchange bids list` for your own offers.")


@offers.command("get")
@click.argument("request", type=opt.index)
@opt.as_json
@with_client
async def get_offers(exchange: FreightExchange, /, request: int, out: Out) -> None:
    """Show one of your requests, with the offers on it.

    $ offers get 4
    """
    listing = await files.get_listing(exchange, request)
    if not out.format:
        await out.read_codes(exchange)
    _print_listing(listing, out)


def _add_answer(verb: str, help: str) -> None:
    @offers.command(verb, help=f"{help}\n\nOFFER is the number of the offer.\n\n$ offers {verb} 17")
    @click.argument("offer", type=opt.index)
    @yes_option("sent")
    @opt.as_json
    @with_client(lookup="offers list")
    async def command(exchange: FreightExchange, /, offer: int, yes: bool, out: Out) -> None:
        await _respond(exchange, offer, verb.title(), getattr(exchange.offers, verb), yes=yes, out=out)


_add_answer("approve", "Approve OFFER, and show who made it. You and the forwarder get each other's contact.")
_add_answer("decline", "Decline OFFER.")


async def _respond(
    exchange: FreightExchange,
    number: int,
    verb: str,
    send: Callable[[int], Awaitable[models.Listing | None]],
    *,
    yes: bool,
    out: Out,
) -> None:
    # Before the write: a later failure would look like the write's own.
    if not (yes and out.format):
        await out.read_codes(exchange)
    if not yes:
        await confirm(f"{verb} offer {number}: {await _describe(exchange, number, out)}?", yes=False)
    try:
        listing = await send(number)
    except BadRequestError as error:
        if await _find(exchange, number) is None:
            # Its request may show only the offer that was approved, so the service's own sentence is the reason.
            why = f"{error}; nothing was changed"
            raise Failure(
                why, Status.NOT_FOUND, f"Offer {number} is not among those that your requests show."
            ) from None
        raise
    if listing is None and not out.format:
        click.echo(f"{verb} of offer {number}: done; the service returned no record of it.")
    else:
        _print_listing(listing, out)


async def _describe(exchange: FreightExchange, number: int, out: Out) -> str:
    if (found := await _find(exchange, number)) is None:
        return "your requests do not show it, perhaps because another one was approved. Send it all the same"
    listing, offer = found
    return f"{price_of(offer, out)} on {listing.commodity}, {listing.origin} to {listing.destination}"


async def _find(exchange: FreightExchange, number: int) -> tuple[models.Listing, models.Offer] | None:
    with progress("requests searched:") as advance:
        async for listing in exchange.offers.search(type="offers"):
            advance(1)
            for offer in listing.offers:
                if offer.id == number:
                    return listing, offer
    return None


def _print_listing(listing: models.Listing | None, out: Out) -> None:
    out.record(listing)
    if listing is None or out.format:
        return
    for offer in listing.offers:
        click.echo()
        out.details(offer)


offers.add_command(watch_offers)
offers.add_command(files.export)
offers.add_command(files.compare)


# Own offers


@click.group(cls=opt.Group)
def bids() -> None:
    """Your own offers: list them, submit one."""


@bids.command("list")
@_state("Default: the service's own choice.", None, active="active", selected="sel", not_selected="nsel", all="offers")
@opt.limit
@opt.as_json
@opt.as_csv
@with_client
async def list_bids(exchange: FreightExchange, /, state: str | None, limit: int | None, out: Out) -> None:
    """List your own offers, with the contact of each selected one.

    $ bids list --state selected
    """
    if not out.format:
        await out.read_codes(exchange)
    await out.listing(
        exchange.bids.list(type=state),
        "You have no such offers. See `freight-exchange offers list` for those on your requests.",
        limit=limit,
        columns=csv_columns(models.Bid),
    )


@bids.command
@click.argument("request", type=opt.index)
@draft_options(_OFFER)
@opt.pairs("NAME", "Fee, part of the total, such as 'Ocean Freight=1700'. May be repeated.")
@click.option("--again", is_flag=True, help="Submit the offer even if you have an identical one on the request.")
@yes_option("sent")
@opt.as_json
@click.pass_obj
def submit(
    options: opt.Options, /, request: int, rates: Mapping[str, str], again: bool, yes: bool, out: Out, **typed: Any
) -> None:
    """Submit an offer on REQUEST.

    REQUEST is the index of the request. The offer is sent only once: a failure is not retried. Your earlier offers on
    the request are shown first. A second offer with the same amount and currency needs --again.

    $ bids submit 4 --amount 1840.50 --currency USD --terms "valid 14 days"
    $ bids submit 4 --amount 1840.50 --currency USD --rate "Ocean Freight=1700" --rate "Chassis=140.50"
    """
    values = files.require_fields(_OFFER, typed, also=("rates",))
    fees = values.pop("rates", {})
    if not isinstance(fees, Mapping):
        example = '{"Ocean Freight": 1700}'
        raise click.UsageError(f"rates in the file must be amounts by fee name, such as {example}; nothing was sent")
    fees = {**fees, **rates}
    amount, currency = files.decimal_of(values["amount"]), values["currency"]
    price = f"{text_of(amount or values['amount'])} {text_of(currency)}"
    notes: list[str] = []

    async def work(exchange: FreightExchange) -> None:
        target = None if yes else await exchange.requests.get(request)
        if target is not None:
            out.lines([("offer", price), ("fees", fees), ("terms", values.get("terms"))], err=True)
        _warn_of_difference(amount, fees)
        earlier = [bid async for bid in exchange.bids.list(sweep=True) if bid.index == request]
        # Before the offer: a later failure would look like the offer's own.
        if earlier or not out.format:
            await out.read_codes(exchange)
        if earlier:
            prices = ", ".join(f"{price_of(bid, out)} ({bid.status})" for bid in earlier)
            warn(f"You have {counted(len(earlier), 'offer')} on request {request} already: {text_of(prices)}.")
        named = text_of(currency).casefold()
        equal = sum(
            bid.amount == amount and named in (str(bid.currency), out.codes.get(bid.currency or 0, "").casefold())
            for bid in earlier
        )
        if equal and not again:
            raise click.UsageError(
                f"you have {counted(equal, 'offer')} of {price} on request {request} already: give --again to send"
                " another; nothing was sent"
            )
        notes.append(f"Before this offer, you had {counted(equal, 'offer')} of {price} on request {request}.")
        if target is not None:
            if str(target.status).casefold() == "selected":
                warn("The request is Selected: its shipper has accepted an offer.")
            goods = f"{units_of(target)} of {target.commodity}, {target.origin} to {target.destination}"
            await confirm(f"Offer {price} on {goods}?", yes=yes)
        out.record(await exchange.bids.submit(request, rates=fees or None, **values))

    connect(options, work, lookup="bids list", notes=notes)


def _warn_of_difference(amount: Decimal | None, fees: Mapping[str, object]) -> None:
    figures = {name: files.decimal_of(fee) for name, fee in fees.items()}
    # A figure that is none is named by the SDK.
    if None in figures.values():
        return
    difference = models.Offer(amount=amount, rates=figures).difference  # type: ignore[arg-type]  # no figure is `None`
    if difference:
        direction = "more" if difference > 0 else "less"
        warn(f"Check the fees: the amount is {abs(difference):f} {direction} than their sum.")


# Routes


@click.group(cls=opt.Group)
def routes() -> None:
    """Routes: find them, create and update them."""


@routes.command("list")
@opt.made_from(_ROUTE_FILTERS)
@opt.limit
@opt.as_json
@opt.as_csv
@with_client
async def list_routes(exchange: FreightExchange, /, limit: int | None, out: Out, **filters: Any) -> None:
    """List routes. Cut-offs and departure are in the route's time zone; the zone of the arrival is not stated.

    $ routes list --origin "Hong Kong" --departs-from 2027-02-01
    """
    listing = exchange.routes.list(**filters)
    await out.listing(listing, "There are no such routes.", limit=limit, columns=csv_columns(models.Route))


@routes.command("get")
@click.argument("index", type=opt.index)
@opt.as_json
@with_client
async def get_route(exchange: FreightExchange, /, index: int, out: Out) -> None:
    """Show one route.

    $ routes get 2
    """
    out.record(await exchange.routes.get(index))


@routes.command
@draft_options(_ROUTE)
@opt.past
@yes_option("sent")
@opt.as_json
@with_client(lookup="routes list")
async def create(exchange: FreightExchange, /, past: bool, yes: bool, out: Out, **typed: Any) -> None:
    """Create a route.

    The fields come from options, a file (JSON or TOML), or both; options take precedence.

    $ routes create --file sailing.toml --vessel "Ever Patient"
    """
    draft = files.draft_of(models.RouteDraft, typed, past=past)
    await exchange.login()
    if not yes:
        out.details(draft, err=True)
    places = f"{draft.origin} to {draft.destination}"
    await confirm(f"Create the route {places}, {draft.vessel} {draft.voyage_id}?", yes=yes)
    created = await exchange.routes.create(draft)
    if created is None:
        warn("The route is created; the service did not return its number.")
    out.record(created or draft)


@routes.command
@click.argument("index", type=opt.index)
@draft_options(_ROUTE)
@opt.past
@yes_option("sent")
@opt.as_json
@with_client(lookup="routes get {index}")
async def update(exchange: FreightExchange, /, index: int, past: bool, yes: bool, out: Out, **typed: Any) -> None:
    """Change a route.

    The command reads the route, replaces the fields that options or file give, and sends it.

    A new --timezone keeps the local times of cut-offs and departure: 17:00 in Hong Kong becomes 17:00 in Hamburg, seven
    hours later. The question lists every date that changes.

    $ routes update 2 --vessel "Ever Patient"
    $ routes update 2 --timezone Europe/Berlin
    """
    changes = files.collect_fields(_ROUTE, typed)
    if not changes:
        raise click.UsageError("there is nothing to change: give an option or --file; nothing was sent")
    files.check_arrival(changes.get("arrival"), past=past)
    before = await exchange.routes.get(index)
    after = _changed(before, changes)
    names = [*changes, *(name for name in _ZONED if getattr(before, name) != getattr(after, name))]
    summary = ", ".join(
        f"{name} {text_of(getattr(before, name))} to {text_of(getattr(after, name))}" for name in dict.fromkeys(names)
    )
    await confirm(f"Change route {index}: {summary}?", yes=yes)
    out.record(await exchange.routes.update(after) or after)


def _changed(before: models.Route, changes: Mapping[str, Any]) -> models.Route:
    """Return the changed route, checked as a draft is; a new time zone keeps the local times."""
    values = {name: getattr(before, name) for name in _ROUTE}
    if "timezone" in changes:
        values |= {name: values[name].replace(tzinfo=None) for name in _ZONED if values[name] is not None}
    values |= changes
    if any(value in (None, "") for value in values.values()):
        # The client sends back what it could not read.
        return attrs.evolve(before, **changes)
    draft = models.RouteDraft(**values)
    return attrs.evolve(before, **{name: getattr(draft, name) for name in _ROUTE})


# Lists


def _list_of(name: str, record: type, help: str) -> click.Command:
    @click.command(name, cls=opt.Command, help=f"{help}\n\n$ {name} --json")
    @opt.as_json
    @opt.as_csv
    @with_client
    async def command(exchange: FreightExchange, /, out: Out) -> None:
        await out.listing(getattr(exchange, name).list(), f"There are no {name}.", columns=csv_columns(record))

    return command


carriers = _list_of("carriers", models.Carrier, "List the carriers of routes.")
currencies = _list_of("currencies", models.Currency, "List the currencies of offers.")
