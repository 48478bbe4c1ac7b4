"""Commands of the market: `requests`, `offers`, `bids`, `routes`, `carriers`, `currencies` and `tariff`."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import attrs
import click

from freight_exchange import cargo, models, validation
from freight_exchange.cli import options as opt
from freight_exchange.cli.client import Command, Group, connect
from freight_exchange.cli.run import Failure, Status, warn
from freight_exchange.cli.show import Out, collect, counted, csv_columns, price_of, text_of, units_of, warn_of_doubts
from freight_exchange.errors import BadRequestError, NotFoundError, ValidationError
from freight_exchange.filters import OfferFilter, RequestFilter

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Listing, RateRequest
    from freight_exchange.bulk import Row, State

_COMPUTED: Final = ("volume", "weight_per", "gross_weight", "chargeable.amount", "chargeable.unit", "chargeable.by")
"""Columns of CSV that are computed from the fields of a request."""
_FILTERS: Final = opt.fields_of(RequestFilter) | {"type": tuple[models.RequestType, ...]}
_OFFER: Final = {"amount": Decimal, "currency": str, "terms": str | None}
_ROUTE: Final = opt.fields_of(models.RouteDraft)
_ROUTE_FILTERS: Final = {
    **dict.fromkeys(("origin", "destination", "vessel", "voyage_id"), str | None), "carrier": int | None,
    **dict.fromkeys(("departs_from", "departs_until", "arrives_from", "arrives_until"), datetime | None),
}  # fmt: skip
_START: Final = "Start of the first run: now, backfill (all listed requests), or a time ago such as 6h."
_ZONED: Final = ("cy_cutoff", "cfs_cutoff", "departure")
"""Times in the zone of the route."""

# Words of the service by the words that are typed.
_REQUEST_STATES: Final = {"all": "all", "open": "pending", "awarded": "accept"}
_LISTING_STATES: Final = {"all": "all", "with-offers": "offers", "selected": "sel", "not-selected": "nsel"}
_BID_STATES: Final = {"active": "active", "selected": "sel", "not-selected": "nsel", "all": "offers"}


def _feed_options(command: opt.AnyCommand) -> opt.AnyCommand:
    store = "File that records the shown events, so that the next run continues there and misses none."
    interval: Any = {"default": "30s", "show_default": True, "help": "Time between two scans."}
    command = click.option("--count", type=opt.index, metavar="N", help="Stop after N events.")(command)
    command = click.option("--interval", type=opt.duration, metavar="TIME", **interval)(command)
    return click.option("--store", metavar="FILE", help=store)(command)


async def _show(feed: Any, count: int | None, out: Out) -> None:
    """Print the events of a feed, each acknowledged once it is printed; stop after `count`."""
    shown = 0
    async for event in feed:
        out.event(event)
        sys.stdout.flush()
        # After the output: an event that a closed pipe lost is shown again.
        await event.ack()
        shown += 1
        if shown == count:
            return


def draft_options(fields: Mapping[str, Any], *, is_partial: bool = False) -> Callable[[opt.AnyCommand], opt.AnyCommand]:
    """Add the options of a draft, and `--file`, whose values are their defaults; its rates go to `context.meta`."""

    def read(context: click.Context, _: click.Parameter, file: str | None) -> None:
        values = {} if file is None else _read(file)
        if "amount" in fields:
            context.meta["rates"] = values.pop("rates", {})
        if unknown := values.keys() - fields.keys():
            message = f"the file has an unknown field {min(unknown)!r}; the fields are {', '.join(fields)}"
            raise click.UsageError(f"{message}; nothing was sent")
        context.default_map = values

    help = "File with the fields: TOML (*.toml) or JSON; - reads JSON from standard input."
    path = click.Path(exists=True, dir_okay=False, allow_dash=True)
    settings: Any = {"type": path, "metavar": "FILE", "help": help, "is_eager": True, "expose_value": False}
    file: Callable[[opt.AnyCommand], opt.AnyCommand] = click.option("--file", callback=read, **settings)
    required = [] if is_partial else [name for name, kind in fields.items() if NoneType not in get_args(kind)]
    return lambda command: file(opt.made_from(fields, **{name: {"required": True} for name in required})(command))


def _read(file: str) -> dict[str, Any]:
    source = "standard input" if file == "-" else file
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        if file.lower().endswith(".toml"):
            values: Any = tomllib.loads(content.decode("utf-8-sig"), parse_float=_decimal)
        else:
            values = json.loads(content, parse_float=_decimal)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{source} cannot be read: {error}; nothing was sent") from None
    if not isinstance(values, dict):
        raise click.UsageError(f"{source} must hold one object with the fields; nothing was sent")
    return values


def _decimal(text: str) -> Decimal:
    validation.number(float(text), "a number")  # refuses the rounding errors of a program's floats
    return Decimal(text)


def check_arrival(arrival: object, *, past: bool, place: str = "") -> None:
    """Reject an arrival that is in the past in every time zone, unless `past` is true."""
    if not past and isinstance(arrival, datetime) and (warning := cargo.arrival_warning(arrival)) is not None:
        raise click.UsageError(f"{place}{warning.message}: correct it, or give --past; nothing was sent")


@click.group(cls=Group)
def requests() -> None:
    """Rate requests: list, get, watch, publish, import."""


@requests.command("list")
@opt.made_from(_FILTERS)
@opt.choice("--state", [*_REQUEST_STATES], "State of the requests.")
@click.option("--since", type=opt.duration, metavar="TIME", help="Updated within this time, such as 6h. Default: 5d.")
@opt.weight(default="unit", show_default=True)
@opt.limit
@opt.as_csv
async def list_requests(
    exchange: FreightExchange, /, state: str, since: timedelta | None, limit: int | None, out: Out, **filters: Any
) -> None:
    """List the requests of the last five days, open and awarded.

    The service lists them to forwarders; for your own, see `offers list`. CHARGEABLE is revenue tons (W/M) by sea, and
    kilograms by air (divisor 6000) and road (333 kg per cubic metre, 1850 kg per loading metre). A ? marks a doubtful
    weight or Incoterm, which `requests get` explains.

    $ requests list --origin "Hong Kong" --type shipping --max-volume 60
    $ requests list --json | jq .index
    """
    listing, columns = (
        exchange.requests.search(type=_REQUEST_STATES[state], since=since),
        [*csv_columns(models.RateRequest), *_COMPUTED],
    )
    empty = "There are no such requests. See `freight-exchange offers list` for your own."
    await out.listing(listing, empty, columns, limit=limit, is_included=_filter(filters).matches)


def _filter(typed: Mapping[str, Any]) -> RequestFilter:
    return RequestFilter(**{name: value for name, value in typed.items() if value not in (None, ())})


@requests.command
@click.argument("index", type=opt.index)
@opt.weight(default="unit", show_default=True)
async def get(exchange: FreightExchange, /, index: int, out: Out) -> None:
    """Show one request, with warnings about implausible values.

    $ requests get 4
    """
    request = await exchange.requests.get(index)
    out.record(request)
    if not out.format:
        warn_of_doubts(request, out.per)


@requests.command(lookup="offers list")
@draft_options(opt.fields_of(models.RateRequestDraft))
@opt.past
@opt.yes
async def publish(exchange: FreightExchange, /, past: bool, out: Out, **typed: Any) -> None:
    """Publish a request.

    The fields come from options, a file (JSON or TOML), or both; options take precedence.

    $ requests publish --file tiles.toml
    $ requests publish --file tiles.toml --quantity 24 --yes
    """
    draft = models.RateRequestDraft(**typed)
    check_arrival(draft.arrival, past=past)
    await exchange.login()
    warn_of_doubts(draft, "unit")
    places = f"{draft.origin} to {draft.destination}, {draft.volume:f} m3"
    await out.confirm(f"Publish {units_of(draft)} of {draft.commodity}, {places}?", draft)
    out.record(await exchange.requests.publish(draft))


@requests.command
@opt.made_from(_FILTERS)
@click.option("--start", type=opt.duration, default="now", show_default=True, metavar="WHEN", help=_START)
@_feed_options
@opt.weight(default="unit", show_default=True)
async def watch(exchange: FreightExchange, /, count: int | None, out: Out, **typed: Any) -> None:
    """Watch for requests: new, changed and withdrawn ones.

    Ctrl-C ends it. With --store, the next run continues where the last one ended, misses no event and repeats none.

    $ requests watch --origin Shenzhen --type air-freight
    $ requests watch --store requests.db --json | ./quote
    """
    feed_options = {name: typed.pop(name) for name in ("store", "start", "interval")}
    async with exchange.watch(where=_filter(typed), **feed_options) as feed:
        await _show(feed, count, out)


# Import of requests

_EXAMPLES: Final = (
    ("Ceramic tiles,Shipping,Hong Kong,Long Beach", 45, "pallet,20,1.2,1.0,0.9,640,FOB,no,"),
    ("Lithium batteries,Air Freight,Shenzhen,Frankfurt", 30, "carton,150,0.4,0.3,0.25,12.5,DAP,yes,UN 3480"),
)
"""Rows of the template: cells, days until the arrival, further cells."""


@requests.command("import")
@click.argument("file", type=opt.readable, required=False)
@click.option("--check", is_flag=True, help="Check the file only. Nothing is sent, and no login is needed.")
@click.option("--template", is_flag=True, help="Print a file to begin with, whose examples arrive in a few weeks.")
@opt.past
@opt.yes
@click.pass_obj
def import_(options: opt.Options, /, file: str | None, check: bool, template: bool, past: bool, out: Out) -> None:
    """Publish the requests of a CSV file, each row once.

    The first line names the columns, as --template shows. All rows are checked before the first is sent. FILE.progress
    beside the file records each step: run the command again after an interruption, and no row is published twice.

    $ requests import --template > requests.csv
    $ requests import requests.csv --check
    $ requests import requests.csv
    """
    from freight_exchange import bulk

    if template:
        out.csv_header([*opt.fields_of(models.RateRequestDraft)])
        for before, days, after in _EXAMPLES:
            arrival = datetime.now(UTC).date() + timedelta(days=days)
            out.csv_row([*before.split(","), arrival.isoformat(), *after.split(",")])
        return
    if file is None:
        raise click.UsageError("give the FILE to publish, or --template for one to begin with")
    path = Path(file)
    try:
        rows = bulk.read_requests(path)
    except ValidationError as error:
        # Each problem on a line of its own.
        problems = re.sub(r"; (?=line \d|and \d+ more$)", "\n", error.message)
        raise click.UsageError(f"{problems}; nothing was sent") from None
    for row in rows:
        check_arrival(row.draft.arrival, past=past, place=f"line {row.line} of {path.name}: ")
        warn_of_doubts(row.draft, "unit", f"line {row.line}: check")
    if check:
        out.result(f"{file}: {len(rows)} rows, all valid. Nothing was sent.", {"file": file, "rows": len(rows)})
        return

    async def work(exchange: FreightExchange) -> Counter[State]:
        owner = f"{await exchange._account()} at {exchange._base_url}"
        with bulk.Journal(path.with_name(f"{path.name}.progress"), owner) as journal:
            if count := sum(journal.state(row) not in ("published", "refused") for row in rows):
                await out.confirm(f"Publish {count} of {len(rows)} requests in {file}?")
            return await bulk.publish(exchange, rows, journal, on_row=report)

    def report(row: Row, event: str, record: RateRequest | Listing | None) -> None:
        if out.format:
            out.json({"line": row.line, "event": event, "request": None if record is None else record.index})
            return
        name = "" if record is None else f" as {record.ref_id or record.index}"
        click.echo(text_of(f"line {row.line}, {row.draft.commodity}: {event}{name}"))

    states = connect(options, work, lookup=f"requests import {file}")
    if not out.format:
        click.echo(f"{states['published']} of {len(rows)} rows are published.")
    if states["sending"]:
        message = f"{states['sending']} rows are in doubt: run the command again in a minute"
        raise Failure(message, Status.OUTCOME_UNKNOWN)
    if states["refused"]:
        raise Failure(f"{states['refused']} rows were refused by the service", Status.REFUSED)


class OfferRow(NamedTuple):
    """Offer with its request, which may have none."""

    listing: models.Listing
    offer: models.Offer | None


@click.group(cls=Group)
def offers() -> None:
    """Offers on your own requests: list, compare, approve."""


@offers.command("list", shows_prices=True)
@opt.choice("--state", [*_LISTING_STATES], "Which of your requests.")
@opt.limit
@opt.as_csv
async def list_offers(exchange: FreightExchange, /, state: str, limit: int | None, out: Out) -> None:
    """List your requests, each with the offers on it. CSV has a row for each offer.

    $ offers list --state with-offers
    """
    listing = exchange.offers.search(type=_LISTING_STATES[state])
    if out.format == "json":
        await out.listing(listing, "", limit=limit)
        return
    records = await collect(listing, limit=limit)
    rows = [OfferRow(record, offer) for record in records for offer in record.offers or (None,)]
    if out.format == "csv":
        columns = [*csv_columns(models.Listing, exclude=("offers",)), *csv_columns(models.Offer, prefix="offer.")]
        out.records([{**out.plain(row.listing), "offer": out.plain(row.offer)} for row in rows], "", columns)
        return
    out.table(rows, "You have published no such requests. See `freight-exchange bids list` for your own offers.")


@offers.command("get", shows_prices=True)
@click.argument("request", type=opt.index)
async def get_offers(exchange: FreightExchange, /, request: int, out: Out) -> None:
    """Show one of your requests, with the offers on it.

    $ offers get 4
    """
    out.record(await exchange.offers.get(request))


def _add_answer(verb: str, help: str) -> None:
    text = f"{help}\n\nOFFER is the number of the offer.\n\n$ offers {verb} 17"

    @offers.command(verb, help=text, lookup="offers list", shows_prices=True)
    @click.argument("offer", type=opt.index)
    @opt.yes
    async def command(exchange: FreightExchange, /, offer: int, out: Out) -> None:
        if not out.yes:
            unknown = "your requests do not show it, perhaps because another one was approved. Send it all the same"
            await out.confirm(f"{verb.title()} offer {offer}: {await _describe(exchange, offer, out) or unknown}?")
        try:
            listing: models.Listing | None = await getattr(exchange.offers, verb)(offer)
        except BadRequestError as error:
            if await _describe(exchange, offer, out):
                raise
            # Its request may show only the offer that was approved, so the service's own sentence is the reason.
            note = f"Offer {offer} is not among those that your requests show."
            raise Failure(f"{error}; nothing was changed", Status.NOT_FOUND, note) from None
        if listing is None and not out.format:
            click.echo(f"{verb.title()} of offer {offer}: done; the service returned no record of it.")
        else:
            out.record(listing)


_add_answer("approve", "Approve OFFER, and show who made it. You and the forwarder get each other's contact.")
_add_answer("decline", "Decline OFFER.")


async def _describe(exchange: FreightExchange, number: int, out: Out) -> str | None:
    async for listing in exchange.offers.search(type="offers"):
        for offer in listing.offers:
            if offer.id == number:
                return f"{price_of(offer, out)} on {listing.commodity}, {listing.origin} to {listing.destination}"
    return None


@offers.command("watch", shows_prices=True)
@click.argument("requests", type=opt.index, nargs=-1, metavar="[REQUEST]...")
@opt.choice("--start", ["backfill", "now"], "First run: all pending offers (backfill), or later ones only.")
@_feed_options
async def watch_offers(
    exchange: FreightExchange, /, requests: Sequence[int], count: int | None, out: Out, **feed_options: Any
) -> None:
    """Watch for offers on your requests.

    It shows new, changed, answered and gone ones. Without a REQUEST, it watches all of them. Ctrl-C ends it, and
    --store works as for `requests watch`.

    $ offers watch
    $ offers watch 4 --store tender.db --json | ./award
    """
    where = OfferFilter(request=requests) if requests else None
    async with exchange.watch_offers(where=where, **feed_options) as feed:
        await _show(feed, count, out)


@offers.command(shows_prices=True)
@click.argument("requests", type=opt.index, nargs=-1, metavar="[REQUEST]...")
@opt.as_csv
async def export(exchange: FreightExchange, /, requests: Sequence[int], out: Out) -> None:
    """Export the offers on your requests for a spreadsheet.

    CSV, the default, has a row for each offer and a column for each fee. Without a REQUEST, all are exported.

    $ offers export > offers.csv
    $ offers export 4 7 --csv
    """
    listings = await exchange.offers.search(sweep=True).collect()
    if absent := sorted({*requests} - {listing.index for listing in listings}):
        raise NotFoundError(f"you have no request {', '.join(map(str, absent))}")
    rows: list[dict[str, Any]] = []
    for listing in listings:
        for offer in listing.offers if not requests or listing.index in requests else ():
            row = {name: getattr(listing, name) for name in ("ref_id", "commodity", "origin", "destination")}
            row = {"request": listing.index, **row, "offer": offer.id, "status": offer.status, "amount": offer.amount}
            row["currency"] = out.codes.get(offer.currency or 0, offer.currency)
            rows.append({**row, "terms": offer.terms, "fees": offer.rates or {}})
    if out.format == "json":
        out.records(rows, "", ())
        return
    fees = sorted({name for row in rows for name in row["fees"]})
    out.csv_header([*(name for name in (rows[0] if rows else ()) if name != "fees"), *fees])
    for row in rows:
        found = row.pop("fees")
        out.csv_row([*row.values(), *map(found.get, fees)])


@offers.command
@click.argument("request", type=opt.index)
@click.option("--to", required=True, metavar="CODE", help="The currency to compare in, such as USD.")
@opt.pairs("CODE", "Exchange rate: value of 1 CODE in the currency of --to, such as EUR=1.08. May be repeated.")
async def compare(exchange: FreightExchange, /, request: int, to: str, rates: Mapping[str, str], out: Out) -> None:
    """Rank the offers on one of your requests in one currency.

    Offers in another currency need a rate. OWN TERMS are the clauses that not every offer has.

    $ offers compare 4 --to USD --rate EUR=1.08
    """
    from freight_exchange import quotes

    listing = await exchange.offers.get(request)
    comparison = await quotes.compare(listing, to=to, rates=rates, currencies=exchange.currencies.list())
    if out.format:
        out.json(comparison)
        return
    out.table(comparison.offers, "There are no priced offers.")
    if comparison.common_terms:
        click.echo(f"\nTerms of all offers: {text_of('; '.join(comparison.common_terms))}")


@click.group(cls=Group)
def bids() -> None:
    """Your own offers: list them, submit one."""


@bids.command("list", shows_prices=True)
@click.option("--state", type=opt.Choice(_BID_STATES, case_sensitive=False), help="Default: the service's own choice.")
@opt.limit
@opt.as_csv
async def list_bids(exchange: FreightExchange, /, state: str | None, limit: int | None, out: Out) -> None:
    """List your own offers, with the contact of each selected one.

    $ bids list --state selected
    """
    empty = "You have no such offers. See `freight-exchange offers list` for those on your requests."
    await out.listing(
        exchange.bids.list(type=_BID_STATES[state] if state else None), empty, csv_columns(models.Bid), limit=limit
    )


@bids.command(lookup="bids list", shows_prices=True)
@click.argument("request", type=opt.index)
@draft_options(_OFFER)
@opt.pairs("NAME", "Fee, part of the total, such as 'Ocean Freight=1700'. May be repeated.")
@click.option("--again", is_flag=True, help="Submit the offer even if you have an identical one on the request.")
@opt.yes
async def submit(
    exchange: FreightExchange, /, request: int, rates: Mapping[str, str], again: bool, out: Out, **values: Any
) -> None:
    """Submit an offer on the request with the index REQUEST.

    It is sent once: a failure is not retried. Your earlier offers on the request are shown first, and one with the same
    amount and currency is sent only with --again.

    $ bids submit 4 --amount 1840.50 --currency USD --terms "valid 14 days"
    $ bids submit 4 --amount 1840.50 --currency USD --rate "Ocean Freight=1700" --rate "Chassis=140.50"
    """
    amount, currency = validation.amount(values.pop("amount"), "amount"), values.pop("currency").strip()
    fees = validation.rates({**validation.rates(click.get_current_context().meta["rates"]), **rates})
    price = f"{text_of(amount)} {text_of(currency)}"
    index_or_code = int(currency) if currency.isdecimal() else currency
    target = None if out.yes else await exchange.requests.get(request)
    if target:
        out.lines([("offer", price), ("fees", fees), ("terms", values.get("terms"))], err=True)
    if difference := models.Offer(amount=amount, rates=fees).difference:
        direction = "more" if difference > 0 else "less"
        warn(f"Check the fees: the amount is {abs(difference):f} {direction} than their sum.")
    if earlier := [bid async for bid in exchange.bids.list(sweep=True) if bid.index == request]:
        prices = ", ".join(f"{price_of(bid, out)} ({bid.status})" for bid in earlier)
        warn(f"You have {counted(len(earlier), 'offer')} on request {request} already: {text_of(prices)}.")
    equal = [bid for bid in earlier if bid.amount == amount]
    names = {name.casefold() for bid in equal for name in (str(bid.currency), out.codes.get(bid.currency or 0, ""))}
    if text_of(currency).casefold() in names and not again:
        raise click.UsageError(f"you have an offer of {price} already: give --again to send another; nothing was sent")
    if target:
        goods = f"{units_of(target)} of {target.commodity}, {target.origin} to {target.destination}"
        await out.confirm(f"Offer {price} on {goods}?")
    out.record(await exchange.bids.submit(request, amount=amount, currency=index_or_code, rates=fees or None, **values))


@click.group(cls=Group)
def routes() -> None:
    """Routes: list, get, create, update."""


@routes.command("list")
@opt.made_from(_ROUTE_FILTERS)
@opt.limit
@opt.as_csv
async def list_routes(exchange: FreightExchange, /, limit: int | None, out: Out, **filters: Any) -> None:
    """List routes. Cut-offs and departure are in the route's time zone; the zone of the arrival is not stated.

    $ routes list --origin "Hong Kong" --departs-from 2027-02-01
    """
    listing = exchange.routes.list(**filters)
    await out.listing(listing, "There are no such routes.", csv_columns(models.Route), limit=limit)


@routes.command("get")
@click.argument("index", type=opt.index)
async def get_route(exchange: FreightExchange, /, index: int, out: Out) -> None:
    """Show one route.

    $ routes get 2
    """
    out.record(await exchange.routes.get(index))


@routes.command(lookup="routes list")
@draft_options(_ROUTE)
@opt.past
@opt.yes
async def create(exchange: FreightExchange, /, past: bool, out: Out, **typed: Any) -> None:
    """Create a route.

    The fields come from options, a file (JSON or TOML), or both; options take precedence.

    $ routes create --file sailing.toml --vessel "Ever Patient"
    """
    draft = models.RouteDraft(**typed)
    check_arrival(draft.arrival, past=past)
    await exchange.login()
    places = f"{draft.origin} to {draft.destination}"
    await out.confirm(f"Create the route {places}, {draft.vessel} {draft.voyage_id}?", draft)
    created = await exchange.routes.create(draft)
    if created is None:
        warn("The route is created; the service did not return its number.")
    out.record(created or draft)


@routes.command(lookup="routes get {index}")
@click.argument("index", type=opt.index)
@draft_options(_ROUTE, is_partial=True)
@opt.past
@opt.yes
async def update(exchange: FreightExchange, /, index: int, past: bool, out: Out, **typed: Any) -> None:
    """Change the fields of a route that options or file give.

    A new --timezone keeps the local times of cut-offs and departure: 17:00 in Hong Kong becomes 17:00 in Hamburg, seven
    hours later. The question lists every date that changes.

    $ routes update 2 --vessel "Ever Patient"
    $ routes update 2 --timezone Europe/Berlin
    """
    changes = {name: value for name, value in typed.items() if value is not None}
    if not changes:
        raise click.UsageError("there is nothing to change: give an option or --file; nothing was sent")
    check_arrival(changes.get("arrival"), past=past)
    before = await exchange.routes.get(index)
    after = _changed(before, changes)
    names = [*changes, *(name for name in _ZONED if getattr(before, name) != getattr(after, name))]
    pairs = [(name, text_of(getattr(before, name)), text_of(getattr(after, name))) for name in dict.fromkeys(names)]
    await out.confirm(f"Change route {index}: {', '.join(f'{name} {old} to {new}' for name, old, new in pairs)}?")
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


def _list_of(name: str, record: type, help: str) -> click.Command:
    @click.command(name, cls=Command, help=f"{help}\n\n$ {name} --json")
    @opt.as_csv
    async def command(exchange: FreightExchange, /, out: Out) -> None:
        await out.listing(getattr(exchange, name).list(), f"There are no {name}.", csv_columns(record))

    return command


carriers = _list_of("carriers", models.Carrier, "List the carriers of routes.")
currencies = _list_of("currencies", models.Currency, "List the currencies of offers.")


@click.group(cls=Group)
def tariff() -> None:
    """Check a tariff in a CSV file."""


@tariff.command
@click.argument("file", type=opt.readable)
@opt.weight(required=True)
@click.option("--requests", "reads_requests", is_flag=True, help="Show the quotes for the open requests.")
@opt.limit
@click.pass_obj
def check(options: opt.Options, /, file: str, reads_requests: bool, limit: int | None, out: Out) -> None:
    """Read the tariff in FILE, and name every invalid cell. Nothing is sent.

    $ tariff check tariff.csv --weight unit
    $ tariff check tariff.csv --weight unit --requests
    """
    from freight_exchange.tariff import Quote, Tariff

    prices = Tariff.read(file, weight_per=out.per)
    if not reads_requests:
        count = len(prices.rules)
        out.result(f"{file}: {count} rows, all valid.", {"file": file, "rows": count})
        return

    def show(request: RateRequest) -> None:
        quote = prices.quote(request)
        if out.format:
            out.json({"request": request.index, "ref_id": request.ref_id, **out.plain(quote)})
            return
        answer = f"no quote: {getattr(quote, 'reason', '')}"
        if isinstance(quote, Quote):
            charges = ", ".join(f"{name} {amount}" for name, amount in quote.rates.items())
            answer = f"{quote.amount} {quote.currency}  {charges}"
        click.echo(text_of(f"{request.index}  {request.type}  {request.origin} to {request.destination}  {answer}"))

    connect(options, lambda exchange: collect(exchange.requests.search(type="pending"), limit=limit, on_record=show))
