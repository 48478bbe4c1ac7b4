"""Files: drafts in JSON or TOML, import of requests, export and comparison of offers, and tariffs."""

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
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from freight_exchange import cargo
from freight_exchange.cli import options as opt
from freight_exchange.cli.client import Command, Group, connect, resolve
from freight_exchange.cli.run import Failure, Status
from freight_exchange.cli.show import Out, collect, text_of, warn_of_doubts
from freight_exchange.errors import NotFoundError, ValidationError
from freight_exchange.models import RateRequestDraft

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Listing, RateRequest
    from freight_exchange.bulk import Row, State

# Drafts


def draft_options(fields: opt.Fields, *, is_partial: bool = False) -> Callable[[opt.AnyCommand], opt.AnyCommand]:
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
            values: Any = tomllib.loads(content.decode("utf-8-sig"), parse_float=Decimal)
        else:
            values = json.loads(content, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{source} cannot be read: {error}; nothing was sent") from None
    if not isinstance(values, dict):
        raise click.UsageError(f"{source} must hold one object with the fields; nothing was sent")
    return values


def check_arrival(arrival: object, *, past: bool, place: str = "") -> None:
    """Reject an arrival that is in the past in every time zone, unless `past` is true."""
    if not past and isinstance(arrival, datetime) and (warning := cargo.arrival_warning(arrival)) is not None:
        raise click.UsageError(f"{place}{warning.message}: correct it, or give --past; nothing was sent")


# Import of requests

_EXAMPLES: Final = (
    ("Ceramic tiles,Shipping,Hong Kong,Long Beach", 45, "pallet,20,1.2,1.0,0.9,640,FOB,no,"),
    ("Lithium batteries,Air Freight,Shenzhen,Frankfurt", 30, "carton,150,0.4,0.3,0.25,12.5,DAP,yes,UN 3480"),
)
"""Rows of the template: cells, days until the arrival, further cells."""


@click.command("import", cls=Command)
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
        out.csv_header([*opt.fields_of(RateRequestDraft)])
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
        warn_of_doubts(row.draft, "unit", f"line {row.line}: ")
    if check:
        out.result(f"{file}: {len(rows)} rows, all valid. Nothing was sent.", {"file": file, "rows": len(rows)})
        return
    credentials = resolve(options)
    owner = f"{credentials.email} at {credentials.url.strip().rstrip('/')}"
    with bulk.Journal(path.with_name(f"{path.name}.progress"), owner) as journal:

        async def work(exchange: FreightExchange) -> Counter[State]:
            if count := sum(journal.state(row) not in ("published", "refused") for row in rows):
                await out.confirm(f"Publish {count} of {len(rows)} requests in {file}?")
            return await bulk.publish(exchange, rows, journal, on_row=report)

        def report(row: Row, event: str, record: RateRequest | Listing | None) -> None:
            if out.format:
                out.json({"line": row.line, "event": event, "request": None if record is None else record.index})
                return
            name = "" if record is None else f" as {record.ref_id or record.index}"
            click.echo(text_of(f"line {row.line}, {row.draft.commodity}: {event}{name}"))

        states = connect(options, work, credentials=credentials, lookup=f"requests import {file}")
    if not out.format:
        click.echo(f"{states['published']} of {len(rows)} rows are published.")
    if states["sending"]:
        message = f"{states['sending']} rows are in doubt: run the command again in a minute"
        raise Failure(message, Status.OUTCOME_UNKNOWN)
    if states["refused"]:
        raise Failure(f"{states['refused']} rows were refused by the service", Status.REFUSED)


# Export and comparison of offers


@click.command(cls=Command, prints_json=False)
@click.argument("requests", type=opt.index, nargs=-1, metavar="[REQUEST]...")
@click.option("--csv/--json", "as_csv", default=True, help="Rows of CSV, with a header (default), or lines of JSON.")
async def export(exchange: FreightExchange, /, requests: Sequence[int], as_csv: bool) -> None:
    """Export the offers on your requests for a spreadsheet.

    There is a row for each offer, and a column for each fee. Without a REQUEST, all requests are exported.

    $ offers export > offers.csv
    $ offers export 4 7 --csv
    """
    out = Out("csv" if as_csv else "json")
    await out.read_codes(exchange)
    listings = await collect(exchange.offers.search(sweep=True))
    if absent := sorted({*requests} - {listing.index for listing in listings}):
        raise NotFoundError(f"you have no request {', '.join(map(str, absent))}")
    rows: list[dict[str, Any]] = []
    for listing in listings:
        for offer in listing.offers if not requests or listing.index in requests else ():
            row = {name: getattr(listing, name) for name in ("ref_id", "commodity", "origin", "destination")}
            row = {"request": listing.index, **row, "offer": offer.id, "status": offer.status, "amount": offer.amount}
            row["currency"] = out.codes.get(offer.currency or 0, offer.currency)
            rows.append({**row, "terms": offer.terms, "fees": offer.rates or {}})
    fees = sorted({name for row in rows for name in row["fees"]})
    names = [name for name in (rows[0] if rows else ()) if name != "fees"]
    if as_csv:
        out.csv_header([*names, *fees])
    for row in rows:
        if as_csv:
            out.csv_row([*(row[name] for name in names), *(row["fees"].get(fee) for fee in fees)])
        else:
            out.json(row)


@click.command(cls=Command)
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


# Tariffs


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
