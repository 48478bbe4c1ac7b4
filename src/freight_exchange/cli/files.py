"""Files: drafts in JSON or TOML, import of requests, export and comparison of offers, and tariffs."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_args

import click

from freight_exchange import cargo
from freight_exchange.cli import options as opt
from freight_exchange.cli.login import connect, resolve, with_client
from freight_exchange.cli.run import Failure, Status, confirm, warn, yes_option
from freight_exchange.cli.show import Column, Out, collect, text_of, warnings_of
from freight_exchange.errors import NotFoundError, ValidationError
from freight_exchange.models import RateRequestDraft

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Listing, RateRequest
    from freight_exchange.bulk import Row, State
    from freight_exchange.quotes import Comparison
    from freight_exchange.tariff import NoQuote, Quote

__all__ = [
    "check_arrival", "collect_fields", "compare", "decimal_of", "draft_of", "draft_options", "export", "get_listing",
    "import_", "require_fields", "tariff",
]  # fmt: skip

Draft = TypeVar("Draft")

# Drafts


def draft_options(fields: opt.Fields) -> Callable[[opt.AnyCommand], opt.AnyCommand]:
    """Add the options of a draft, and `--file`."""

    def decorate(command: opt.AnyCommand) -> opt.AnyCommand:
        return click.option(
            "--file",
            type=click.Path(exists=True, dir_okay=False, allow_dash=True),
            metavar="FILE",
            help="File with the fields: TOML (*.toml) or JSON; - reads JSON from standard input.",
        )(opt.made_from(fields)(command))

    return decorate


def draft_of(cls: type[Draft], typed: Mapping[str, Any], *, past: bool) -> Draft:
    """Build a draft from options and file.

    Raises:
        UsageError: A field is missing or unknown.
        ValidationError: A value is invalid; the error names the field.
    """
    draft = cls(**require_fields(opt.fields_of(cls), typed))
    check_arrival(getattr(draft, "arrival"), past=past)  # noqa: B009 - drafts of either kind have it
    return draft


def require_fields(fields: opt.Fields, typed: Mapping[str, Any], *, also: Collection[str] = ()) -> dict[str, Any]:
    """Collect the fields as `collect_fields` does, and check that all required ones are set."""
    values = collect_fields(fields, typed, also=also)
    required = [name for name, kind in fields.items() if NoneType not in get_args(kind)]
    if missing := [name for name in required if name not in values]:
        names = ", ".join(f"{name} ({_options(name, fields[name])})" for name in missing)
        raise click.UsageError(f"still missing: {names}; nothing was sent")
    return values


def _options(name: str, kind: Any) -> str:
    # One of the two alone would suggest its value.
    return f"{opt.name_of(name)} or --not-{name}" if kind is bool else opt.name_of(name)


def collect_fields(fields: opt.Fields, typed: Mapping[str, Any], *, also: Collection[str] = ()) -> dict[str, Any]:
    """Collect the fields that options and file set; options take precedence.

    Args:
        fields: The fields and their types.
        typed: The values of the options, `file` included.
        also: Further names that the file may have.

    Raises:
        UsageError: The file cannot be read, or has an unknown field.
    """
    values: dict[str, Any] = {}
    for name, value in _read(typed.get("file")).items():
        if name not in fields and name not in also:
            names = ", ".join([*fields, *also])
            raise click.UsageError(f"the file has an unknown field {name!r}; the fields are {names}; nothing was sent")
        if value is None:
            raise click.UsageError(f"the file has null for {name}: leave it out, or give a value; nothing was sent")
        values[name] = value
    values |= {name: typed[name] for name in fields if typed.get(name) is not None}
    for name in values.keys() & fields.keys():
        if datetime in (fields[name], *get_args(fields[name])):
            try:
                values[name] = opt.moment(values[name])
            except click.BadParameter as error:
                raise click.UsageError(f"{name}: {error.message}; nothing was sent") from None
    return values


def check_arrival(arrival: object, *, past: bool) -> None:
    """Reject an arrival in the past, unless `past` is true.

    Raises:
        UsageError: The day is over in every time zone.
    """
    if not past and isinstance(arrival, datetime) and (warning := cargo.arrival_warning(arrival)) is not None:
        raise click.UsageError(f"{warning.message}: correct it, or give --past; nothing was sent")


def decimal_of(value: object) -> Decimal | None:
    """Return a number of an option or a file, or `None` for another value, which the SDK refuses."""
    if isinstance(value, bool):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _read(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    source = "standard input" if file == "-" else file
    try:
        content = _parse(sys.stdin.read() if file == "-" else _decode(Path(file).read_bytes()), file)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not {error.encoding.upper()}"
    except RecursionError:
        reason = "it is nested too deeply"
    except (OSError, ValueError) as error:
        # Python's own message is advice for programmers.
        reason = "it has a number of thousands of digits" if "set_int_max_str_digits" in str(error) else str(error)
    else:
        if isinstance(content, dict):
            return content
        raise click.UsageError(f"{source} must hold one object with the fields; nothing was sent")
    raise click.UsageError(f"{source} cannot be read: {reason}; nothing was sent")


def _decode(content: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, as programs on Windows write it."""
    return content.decode("utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8")


def _parse(text: str, file: str) -> Any:
    text = text.removeprefix("\ufeff")
    if file.lower().endswith(".toml"):
        return tomllib.loads(text, parse_float=Decimal)
    if not text.strip():
        raise ValueError("it is empty")
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_reject_duplicates)


def _reject_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise ValueError(f"it gives {name!r} twice")
    return dict(pairs)


# Import of requests

_EXAMPLES: Final = (
    ("Ceramic tiles,Shipping,Hong Kong,Long Beach", 45, "pallet,20,1.2,1.0,0.9,640,FOB,no,"),
    ("Lithium batteries,Air Freight,Shenzhen,Frankfurt", 30, "carton,150,0.4,0.3,0.25,12.5,DAP,yes,UN 3480"),
)
"""Rows of the template: cells, days until the arrival, further cells."""


@click.command("import", cls=opt.Command)
@click.argument("file", type=opt.file_path, required=False)
@click.option("--check", is_flag=True, help="Check the file only. Nothing is sent, and no login is needed.")
@click.option("--template", is_flag=True, help="Print a file to begin with, whose examples arrive in a few weeks.")
@opt.past
@yes_option("sent", unless=("check", "template"))
@opt.as_json
@click.pass_obj
def import_(
    options: opt.Options, /, file: str | None, check: bool, template: bool, past: bool, yes: bool, out: Out
) -> None:
    """Publish the requests of a CSV file, each row once.

    The first line names the columns: commodity, type, origin, destination, arrival, packaging, quantity, length, width,
    height, weight, incoterm, hazardous (yes or no) and, if you like, notes. All rows are checked before the first is
    sent.

    FILE.progress beside the file records each step. Run the command again after an interruption: it continues, and
    publishes no row twice. If a reply was lost, it looks for the row before it sends anything again.

    $ requests import --template > requests.csv
    $ requests import requests.csv --check
    $ requests import requests.csv
    """
    if template:
        _print_template(out)
        return
    if file is None:
        raise click.UsageError("give the FILE to publish, or --template for one to begin with")
    # Loads the client, which help does not need.
    from freight_exchange import bulk

    path = Path(file)
    rows = _rows(path, past=past)
    for row in rows:
        for warning in warnings_of(row.draft, "unit"):
            warn(f"line {row.line}: check the {warning.field}: {text_of(warning.message)}")
    if check:
        out.result(f"{file}: {len(rows)} rows, all valid. Nothing was sent.", {"file": file, "rows": len(rows)})
        return
    credentials = resolve(options)
    owner = f"{credentials.email} at {credentials.url.strip().rstrip('/')}"
    notes = ["Run the command again: it looks for the row before anything is sent."]
    with bulk.Journal(path.with_name(f"{path.name}.progress"), owner) as journal:

        async def work(exchange: FreightExchange) -> Counter[State]:
            if count := sum(journal.state(row) not in ("published", "refused") for row in rows):
                await confirm(f"Publish {count} of {len(rows)} requests in {file}?", yes=yes)
            return await bulk.publish(exchange, rows, journal, on_row=report)

        def report(row: Row, event: str, record: RateRequest | Listing | None) -> None:
            if out.format:
                out.json({"line": row.line, "event": event, "request": None if record is None else record.index})
                return
            name = "" if record is None else f" as {record.ref_id or record.index}"
            click.echo(text_of(f"line {row.line}, {row.draft.commodity}: {event}{name}"))

        states = connect(options, work, credentials=credentials, notes=notes)
    if not out.format:
        click.echo(f"{states['published']} of {len(rows)} rows are published.")
    if states["sending"]:
        message = f"{states['sending']} rows are in doubt: run the command again in a minute"
        raise Failure(message, Status.OUTCOME_UNKNOWN)
    if states["refused"]:
        raise Failure(f"{states['refused']} rows were refused by the service", Status.REFUSED)


def _print_template(out: Out) -> None:
    out.csv_header([*opt.fields_of(RateRequestDraft)])
    for before, days, after in _EXAMPLES:
        arrival = datetime.now(UTC).date() + timedelta(days=days)
        out.csv_row([*before.split(","), arrival.isoformat(), *after.split(",")])


def _rows(path: Path, *, past: bool) -> Sequence[Row]:
    from freight_exchange import bulk

    try:
        rows = bulk.read_requests(path)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}; nothing was sent") from None
    except ValidationError as error:
        # Each problem on a line of its own.
        problems = re.sub(r"; (?=line \d|and \d+ more$)", "\n", error.message)
        raise click.UsageError(f"{problems}; nothing was sent") from None
    for row in rows:
        try:
            check_arrival(row.draft.arrival, past=past)
        except click.UsageError as error:
            raise click.UsageError(f"line {row.line} of {path.name}: {error.message}") from None
    return rows


# Export and comparison of offers


@click.command(cls=opt.Command)
@click.argument("requests", type=opt.index, nargs=-1, metavar="[REQUEST]...")
@click.option("--csv/--json", "as_csv", default=True, help="Rows of CSV, with a header (default), or lines of JSON.")
@with_client
async def export(exchange: FreightExchange, /, requests: Sequence[int], as_csv: bool) -> None:
    """Export the offers on your requests for a spreadsheet.

    There is a row for each offer, and a column for each fee. Without a REQUEST, the offers on all requests are
    exported. Amounts are exact, currencies are three-letter codes.

    $ offers export > offers.csv
    $ offers export 4 7 --csv
    """
    out = Out("csv" if as_csv else "json")
    await out.read_codes(exchange)
    listings = await collect(exchange.offers.search(sweep=True))
    if absent := sorted({*requests} - {listing.index for listing in listings}):
        raise NotFoundError(f"you have no request {', '.join(map(str, absent))}")
    rows: list[dict[str, Any]] = [
        {
            "request": listing.index, "ref_id": listing.ref_id, "commodity": listing.commodity,
            "origin": listing.origin, "destination": listing.destination, "offer": offer.id,
            "status": offer.status, "amount": offer.amount,
            "currency": None if offer.currency is None else out.codes.get(offer.currency, str(offer.currency)),
            "terms": offer.terms, "fees": offer.rates or {},
        }
        for listing in listings
        if not requests or listing.index in requests
        for offer in listing.offers
    ]  # fmt: skip
    fees = sorted({name for row in rows for name in row["fees"]})
    names = [name for name in (rows[0] if rows else ()) if name != "fees"]
    if as_csv:
        out.csv_header([*names, *fees])
    for row in rows:
        if as_csv:
            plain = out.plain(row)
            out.csv_row([*(plain[name] for name in names), *(plain["fees"].get(fee) for fee in fees)])
        else:
            out.json(row)


@click.command(cls=opt.Command)
@click.argument("request", type=opt.index)
@click.option("--to", required=True, metavar="CODE", help="The currency to compare in, such as USD.")
@opt.pairs("CODE", "Exchange rate: value of 1 CODE in the currency of --to, such as EUR=1.08. May be repeated.")
@opt.as_json
@with_client
async def compare(exchange: FreightExchange, /, request: int, to: str, rates: Mapping[str, str], out: Out) -> None:
    """Rank the offers on one of your requests in one currency.

    Offers in another currency need a rate. OWN TERMS are the clauses that not every offer has.

    $ offers compare 4 --to USD --rate EUR=1.08
    """
    from freight_exchange import quotes

    listing = await get_listing(exchange, request)
    comparison = await quotes.compare(listing, to=to, rates=rates, currencies=exchange.currencies.list())
    if out.format:
        out.json(comparison)
        return

    fees = [Column(name.upper(), True, False, 2, _fee(comparison, name)) for name in comparison.fee_names]
    out.table(comparison.offers, "There are no priced offers.", fees, TOTAL=f"TOTAL {comparison.currency}")
    if comparison.common_terms:
        click.echo(f"\nTerms of all offers: {text_of('; '.join(comparison.common_terms))}")


def _fee(comparison: Comparison, name: str) -> Callable[[Any, Out], str | None]:
    figures = {id(compared): f"{fee:.2f}" for compared, fee in comparison.by_fee(name)}
    return lambda row, _: figures.get(id(row))


async def get_listing(exchange: FreightExchange, request: int) -> Listing:
    """Return a published request with its offers. The error of an unknown request names the forwarder's command."""
    try:
        return await exchange.offers.get(request)
    except NotFoundError as error:
        error.add_note(f"For a request that another shipper published, see `freight-exchange requests get {request}`.")
        raise


# Tariffs


class Quoted(NamedTuple):
    """Request with the tariff's quote, or the reason for none."""

    request: RateRequest
    quote: Quote | NoQuote

    @property
    def total(self) -> str | None:
        amount = getattr(self.quote, "amount", None)
        return None if amount is None else f"{amount} {getattr(self.quote, 'currency', '')}"

    @property
    def charges(self) -> str:
        rates: Mapping[str, Decimal] | None = getattr(self.quote, "rates", None)
        if rates is None:
            return f"no quote: {getattr(self.quote, 'reason', '')}"
        return ", ".join(f"{name} {amount}" for name, amount in rates.items())


@click.group(cls=opt.Group)
def tariff() -> None:
    """Check a tariff in a CSV file."""


@tariff.command
@click.argument("file", type=opt.file_path)
@opt.weight(required=True)
@click.option("--requests", "reads_requests", is_flag=True, help="Show the quotes for the open requests.")
@opt.limit
@opt.as_json
@click.pass_obj
def check(options: opt.Options, /, file: str, reads_requests: bool, limit: int | None, out: Out) -> None:
    """Read the tariff in FILE, and show what it would quote. Nothing is sent.

    The command names every invalid cell by line and column.

    $ tariff check tariff.csv --weight unit
    $ tariff check tariff.csv --weight unit --requests
    """
    from freight_exchange.tariff import Tariff

    try:
        prices = Tariff.read(file, weight_per=out.per)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from None
    if not reads_requests:
        count = len(prices.rules)
        out.result(f"{file}: {count} rows, all valid.", {"file": file, "rows": count})
        return

    async def work(exchange: FreightExchange) -> None:
        def show(request: RateRequest) -> None:
            if out.format:
                quote = out.plain(prices.quote(request))
                out.json({"request": request.index, "ref_id": request.ref_id, **quote})

        requests = await collect(exchange.requests.search(type="pending"), limit=limit, on_record=show)
        if not out.format:
            rows = [Quoted(request, prices.quote(request)) for request in requests]
            out.table(rows, "There are no open requests.")

    connect(options, work)
