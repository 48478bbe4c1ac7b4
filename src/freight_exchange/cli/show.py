"""Output of commands: tables and records for people, JSON lines and CSV for programs, and progress on a terminal.

`_TABLES` has the columns of each record, `_DETAILS` the lines of a single one, and `_LINES` the parts of an event.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_type_hints

import attrs
import click

from freight_exchange import cargo, to_dict
from freight_exchange.cargo import Per
from freight_exchange.cli.run import Failure, Status, is_output_full, warn
from freight_exchange.errors import ValidationError
from freight_exchange.models import Packaging, RequestType
from freight_exchange.platform.text import clean

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Paginator
    from freight_exchange.cargo import CargoWarning

__all__ = ["Column", "Out", "collect", "counted", "csv_columns", "price_of", "progress", "text_of", "units_of",
           "warnings_of"]  # fmt: skip

T = TypeVar("T")

_TABLES: Final = {
    "RateRequest": "INDEX> STATUS/3 REF/8=ref_id TYPE/5 COMMODITY~ ORIGIN~/3 DESTINATION~/2 ARRIVAL/7=day UNITS/9"
    " M3>/6=volume KG>/1=kilograms INCOTERM/4=checked_incoterm CHARGEABLE>",
    "OfferRow": "REQUEST>=listing.index COMMODITY~/1=listing.commodity ORIGIN~/3=listing.origin"
    " DESTINATION~/2=listing.destination OFFER>=offer.id AMOUNT>=offer.price STATUS TERMS~/4=offer.terms",
    "Bid": "REQUEST>=index REF/5=ref_id COMMODITY~/2 ORIGIN~/4 DESTINATION~/3 OFFER>=price STATUS"
    " CONTACT~/1=contact_line",
    "Route": "INDEX> ORIGIN~/2 DESTINATION~/1 VESSEL~/3 VOYAGE/7=voyage_id CY_CUT-OFF/5=cy_cutoff"
    " CFS_CUT-OFF/6=cfs_cutoff DEPARTURE ARRIVAL/4 CARRIER>/8",
    "Carrier": "INDEX> NAME",
    "Currency": "INDEX> CODE NAME",
    "ComparedOffer": "RANK> OFFER>=offer.id TOTAL> OFFERED>/3=own_price STATUS/4=offer.status OWN_TERMS~/1",
    "DeadLetter": "EVENT> HANDLER~ REQUEST>/2 KIND/3 ATTEMPTS>/4 SINCE/5=utc_since ERROR~/1",
    "Doubt": "REQUEST> KIND/6 OFFER>/7 REVISION>/2 AMOUNT> CURRENCY>/4 HANDLER~/5 SINCE/3=utc_since PARKED/1",
    "Gap": "SINCE=utc_since UNTIL=utc_until",
    "Quoted": "REQUEST>=request.index TYPE/2=request.type ORIGIN~/3=request.origin DESTINATION~/1=request.destination"
    " AMOUNT>=total CHARGES~",
}
"""Columns of each record, as `TITLE>~/N=path`. `>` aligns to the right, and `~` wraps. On a narrow terminal, columns
with a number are dropped, the highest first. The path is a field or a name of `_VALUES`; by default, the title."""

_FREIGHT: Final = "commodity type from=origin to=destination"
_MEASURES: Final = (
    "units each volume=cubic_metres weight=stated_weight gross_weight=gross chargeable=chargeable_by incoterm hazardous"
    " notes"
)
_ROUTE: Final = (
    "from=origin to=destination vessel voyage=voyage_id cy_cut-off=cy_cutoff cfs_cut-off=cfs_cutoff departure arrival"
    " carrier time_zone=timezone"
)
_DETAILS: Final = {
    "RateRequest": f"request=index reference=ref_id status {_FREIGHT} arrival=need_date {_MEASURES}",
    "RateRequestDraft": f"{_FREIGHT} arrival {_MEASURES}",
    "Bid": "request=index commodity from=origin to=destination offer=price rates=offer.rates terms=offer.terms"
    " status=offer_status",
    "Listing": "request=index commodity from=origin to=destination status contact=contact.name email=contact.email"
    " company=company.name city=company.city fax=company.fax",
    "Offer": "offer=id amount=price rates terms status",
    "Route": f"route=index {_ROUTE}",
    "RouteDraft": _ROUTE,
    "User": "name=full_name title email company=company.name phone=company.phone last_login",
}
"""Lines of a single record, as `name=path`."""

_LINES: Final = {
    "RequestEvent": "at kind_9 request.index request.ref_id request.type request.commodity request.places"
    " request.cubic_metres changes",
    "OfferEvent": "at kind_9 request=listing.index offer=offer.id offer.price listing.places offer.terms changes",
}
"""Parts of the line of an event, as `path` or `name=path`."""

_PART: Final = re.compile(r"([^>~/=]+)(>?)(~?)(?:/(\d+))?(?:=(\S+))?")
_GAP: Final = 2
_MIN_WRAPPED_WIDTH: Final = 16
_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # noqa: RUF001 - spreadsheets read the wide forms too
_NUMERAL: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_UNPRINTABLE: Final = re.compile(r"[^ -~]")


class Column(NamedTuple):
    """Column of a table, or line of a record."""

    title: str
    is_right: bool
    wraps: bool
    drop_order: int
    value: Callable[[Any, Out], object]


def _columns_of(spec: str) -> list[Column]:
    parts = [match.groups() for match in map(_PART.fullmatch, spec.split()) if match is not None]
    return [
        Column(title.replace("_", " "), bool(right), bool(wraps), int(order or 0), _reader(path or title.lower()))
        for title, right, wraps, order, path in parts
    ]


def _reader(path: str) -> Callable[[Any, Out], object]:
    *parents, name = path.split(".")

    def read(record: Any, out: Out) -> object:
        for parent in parents:
            record = getattr(record, parent, None)
        if record is None:
            return None
        return _VALUES[name](record, out) if name in _VALUES else getattr(record, name)

    return read


class Out:
    """Output of one command.

    Args:
        format: The format; `None` prints tables and records for people.
        per: What the weight of a request is read as.
    """

    def __init__(self, format: Literal["json", "csv"] | None = None, per: Per = "unit") -> None:
        self.format = format
        self.per: Per = per
        self.codes: Mapping[int, str] = {}

    async def read_codes(self, exchange: FreightExchange) -> None:
        """Read the codes of currencies, which amounts are shown with."""
        self.codes = {one.index: one.code async for one in exchange.currencies.list() if one.code}

    async def listing(
        self,
        listing: Paginator[T],
        empty: str = "",
        columns: Sequence[str] = (),
        *,
        limit: int | None = None,
        is_included: Callable[[T], bool] = lambda _: True,
    ) -> list[T]:
        """Print a listing, for programs as the records arrive; return the printed records.

        Args:
            listing: The listing.
            empty: The message for an empty table.
            columns: The columns of CSV.
            limit: The maximum number of records.
            is_included: The filter.
        """
        show = self._printer(columns)
        records = await collect(listing, limit=limit, is_included=is_included, on_record=show)
        if show is None:
            self.table(records, empty)
        return records

    def records(self, records: Sequence[Any], empty: str, columns: Sequence[str]) -> None:
        """Print records in the format of a listing."""
        if (show := self._printer(columns)) is None:
            self.table(records, empty)
        else:
            for record in records:
                show(record)

    def _printer(self, columns: Sequence[str]) -> Callable[[object], None] | None:
        """Print the header of CSV; return the function that prints a record, or `None` for a table."""
        if self.format == "csv":
            self.csv_header(columns)
            return lambda record: self.csv_row([_find(self.plain(record), column) for column in columns])
        return self.json if self.format == "json" else None

    def json(self, value: object) -> None:
        """Print a value as one line of JSON, safe for a terminal."""
        is_ascii = not (sys.stdout.encoding or "").lower().startswith("utf")

        def escape(match: re.Match[str]) -> str:
            character = match[0]
            if character.isprintable() and not is_ascii:
                return character
            units = character.encode("utf-16-be", "surrogatepass").hex()
            return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

        text = json.dumps(self.plain(value), ensure_ascii=False, separators=(",", ":"))
        click.echo(_UNPRINTABLE.sub(escape, text))

    def csv_header(self, columns: Sequence[str]) -> None:
        """Print the first line of CSV. A file begins with a byte order mark, by which Excel reads its umlauts."""
        with contextlib.suppress(OSError, ValueError):
            if stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode) and sys.stdout.encoding.lower().startswith("utf-8"):
                click.echo("\ufeff", nl=False)
        self.csv_row(columns)

    def csv_row(self, values: Sequence[object]) -> None:
        """Print a line of CSV. No text becomes a formula of a spreadsheet."""
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([_cell(value) for value in values])
        click.echo(line.getvalue())

    def result(self, sentence: str, result: Mapping[str, object]) -> None:
        """Print the result of a command that has taken effect, as a sentence or as JSON."""
        try:
            if self.format == "json":
                self.json(result)
            else:
                click.echo(sentence)
        except OSError as error:
            if not is_output_full(error):
                raise
            message = f"the command took effect, but its result could not be printed: {error.strerror}"
            raise Failure(message, Status.NOT_PRINTED) from None

    def record(self, record: object) -> None:
        """Print one record."""
        if self.format == "json":
            self.json(record)
        else:
            self.details(record)

    def details(self, record: object, *, err: bool = False, **further: object) -> None:
        """Print the fields of a record that have a value, one on a line, and further ones."""
        columns = _columns_of(_DETAILS[type(record).__name__])
        self.lines([*((one.title, one.value(record, self)) for one in columns), *further.items()], err=err)

    def lines(self, lines: Sequence[tuple[str, object]], *, err: bool = False) -> None:
        """Print named values, one on a line; a mapping has a line for each key."""
        from rich.cells import cell_len

        shown: list[tuple[str, str]] = []
        for name, value in lines:
            if isinstance(value, Mapping):
                shown += [(f"  {text_of(key)}", text_of(item)) for key, item in value.items()]
            elif value not in (None, ""):
                shown.append((name, text_of(value)))
        width = max((cell_len(name) for name, _ in shown), default=0)
        for name, text in shown:
            (warn if err else click.echo)(f"{name}{' ' * (width - cell_len(name))}  {text}")

    def line(self, event: Any) -> str:
        """Format an event as a line."""
        if event.kind == "gap":
            return (
                f"no watch from {text_of(event.since)} to {text_of(event.until)}: updates of that time may be missing"
            )
        if event.kind == "unreadable":
            return f"request {text_of(event.index)} cannot be read: {text_of(event.error)}"
        fields = " ".join(["kind", *(f"{field.name}={field.name}" for field in attrs.fields(type(event)))])
        parts = []
        for part in _LINES.get(type(event).__name__, fields).split():
            name, _, path = part.rpartition("=")
            if text := text_of(_reader(path)(event, self)):
                parts.append(f"{name} {text}" if name else text)
        return "  ".join(parts)

    def table(self, records: Sequence[Any], empty: str, further: Sequence[Column] = (), **titles: str) -> None:
        """Print a table of the records, or `empty` on standard error if there are none.

        `further` columns stand before the last two; `titles` replaces titles.
        """
        if not records:
            warn(empty)
            return
        from rich.cells import cell_len

        columns = _columns_of(_TABLES[type(records[0]).__name__])
        columns = [one._replace(title=titles.get(one.title, one.title)) for one in columns]
        columns[-2:-2] = further
        rows = [[text_of(column.value(record, self)) for column in columns] for record in records]
        widths = [max(map(cell_len, cells)) for cells in zip([one.title for one in columns], *rows, strict=True)]
        if sys.stdout.isatty():
            _print_to_terminal(columns, rows, widths)
            return
        for row in [[one.title for one in columns], *rows]:
            padded = []
            for cell, width, column in zip(row, widths, columns, strict=True):
                padding = " " * (width - cell_len(cell))
                padded.append(padding + cell if column.is_right else cell + padding)
            click.echo((" " * _GAP).join(padded).rstrip())

    def plain(self, value: Any) -> Any:
        """Convert a value to JSON types: a record as `freight_exchange.to_dict` does, others by the same rules."""
        match value:
            case None | bool() | int() | float():
                return value
            case str() | Decimal():
                return str(value)
            case datetime():
                return value.isoformat()
            case Mapping():
                return {str(key): self.plain(item) for key, item in value.items()}
            case list() | tuple():
                return [self.plain(item) for item in value]
        kind = type(value)
        try:
            plain: dict[str, Any] = to_dict(value)
        except ValidationError:
            return {field.name: self.plain(getattr(value, field.name)) for field in attrs.fields(kind)}
        if kind.__name__ == "RateRequest":
            return plain | self._computed(value)
        if kind.__name__ == "RequestEvent":
            requests = {name: getattr(value, name) for name in ("request", "previous")}
            return plain | self.plain({name: one for name, one in requests.items() if one is not None})
        return plain | ({"kind": value.kind} if hasattr(kind, "kind") else {})

    def _computed(self, request: Any) -> dict[str, Any]:
        """Return values computed from the fields of a request."""
        weight, quantity = _gross_weight(request, self), _quantity(request, self)
        return {
            "volume": self.plain(request.volume),
            "weight_per": self.per,
            "gross_weight": None if weight is None else self.plain(weight.kilograms),
            "chargeable": quantity and dict(zip(("amount", "unit", "by"), map(str, quantity), strict=True)),
            "doubts": [attrs.asdict(warning) for warning in warnings_of(request, self.per)],
        }


def counted(number: int, noun: str) -> str:
    """Format a number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def text_of(value: object) -> str:
    """Format a value for people, safe for a terminal."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Decimal():
            return f"{value:f}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}" + ("" if value.tzinfo is None else f" {clean(str(value.tzname()))}")
        case date():
            return value.isoformat()
        case _:
            return clean(str(value))


# Listings


async def collect(
    listing: Paginator[T],
    *,
    limit: int | None = None,
    is_included: Callable[[T], bool] = lambda _: True,
    on_record: Callable[[T], None] | None = None,
) -> list[T]:
    """Read the records of a listing, with progress; call `on_record` with each as soon as it arrives."""
    records: list[T] = []
    pages = listing.pages()
    with progress("records read:") as advance:
        try:
            async for page in pages:
                room = None if limit is None else limit - len(records)
                included = [record for record in page if is_included(record)][:room]
                records += included
                advance(len(page))
                if on_record is not None:
                    for record in included:
                        on_record(record)
                if len(records) == limit:
                    break
        finally:
            await pages.aclose()
    return records


@contextlib.contextmanager
def progress(description: str) -> Iterator[Callable[[int], None]]:
    """Show a transient counter on a terminal; yield the function that advances it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda count: bar.update(task, advance=count)


def _print_to_terminal(columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    least = [
        min(width, max(_MIN_WRAPPED_WIDTH, len(column.title))) if column.wraps else width
        for column, width in zip(columns, widths, strict=True)
    ]

    def fits(places: Collection[int]) -> bool:
        return sum(least[place] + _GAP for place in places) - _GAP <= console.width

    visible = {place for place, column in enumerate(columns) if not column.drop_order}
    for place in sorted(range(len(columns)), key=lambda place: columns[place].drop_order):
        if fits({*visible, place}):
            visible.add(place)
    shown = [(place, columns[place]) for place in sorted(visible)]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for _, column in shown:
        # Texts wrap. A number stays on its line, but is never cut: that would make another number of it.
        table.add_column(
            Text(column.title),
            justify="right" if column.is_right else "left",
            no_wrap=column.is_right and fits(visible),
            overflow="fold",
        )
    for row in rows:
        # `Text`, since a string would be read as markup: a commodity may be called [bold].
        table.add_row(*(Text(row[place]) for place, _ in shown))
    console.print(table)
    if dropped := [column.title for place, column in enumerate(columns) if place not in visible]:
        warn(f"The terminal has no room for {', '.join(dropped)}.")


# CSV


def csv_columns(cls: Any, *, exclude: Collection[str] = (), prefix: str = "") -> list[str]:
    """Return the columns of a class of records. The columns of a nested record replace that of its field."""
    columns: list[str] = []
    hints = get_type_hints(cls)
    for name in [field.name for field in attrs.fields(cls) if field.name not in exclude]:
        kinds = [part for part in get_args(hints[name]) or (hints[name],) if part is not NoneType]
        is_record = len(kinds) == 1 and attrs.has(kinds[0])
        columns += csv_columns(kinds[0], prefix=f"{prefix}{name}.") if is_record else [f"{prefix}{name}"]
    return columns


def _find(record: Any, path: str) -> object:
    for name in path.split("."):
        record = record.get(name) if isinstance(record, Mapping) else None
    return record


def _cell(value: object) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, (bool, list, Mapping)):
        return json.dumps(value)
    text = clean(str(value))
    # A text of the service must not become a formula; numbers stay as they are.
    return f"'{text}" if text.lstrip().startswith(_FORMULA) and not _NUMERAL.fullmatch(text) else text


# Values that are computed from a record


def _gross_weight(freight: Any, out: Out) -> cargo.GrossWeight | None:
    with contextlib.suppress(ValidationError):
        return cargo.gross_weight(freight, per=out.per)
    return None


def _quantity(freight: Any, out: Out) -> tuple[Decimal, str, str] | None:
    """Return the chargeable quantity, its unit and the measure that decides, or `None` if a measure is missing."""
    with contextlib.suppress(ValidationError):
        if freight.type == RequestType.SHIPPING:
            tons = cargo.revenue_tons(freight, per=out.per)
            return tons.tons, "W/M", tons.basis
        if freight.type in (RequestType.AIR_FREIGHT, RequestType.TRUCKING):
            is_air = freight.type == RequestType.AIR_FREIGHT
            weight = (cargo.air_chargeable_weight if is_air else cargo.road_chargeable_weight)(freight, per=out.per)
            return weight.kilograms, "kg", weight.basis
    return None


def warnings_of(freight: Any, per: Per) -> list[CargoWarning]:
    """Check the weight against the volume, and the Incoterm against the mode of transport."""
    weight = _gross_weight(freight, Out(per=per))
    found = [None if weight is None else weight.warning, cargo.incoterm_warning(freight.incoterm, freight.type)]
    reading = f"if it is that of {'one unit' if per == 'unit' else 'all units'}"
    return [attrs.evolve(one, message=one.message.replace(f'with per="{per}"', reading)) for one in found if one]


def units_of(freight: Any) -> str:
    """Format quantity and packaging, such as `20 pallets`."""
    if freight.packaging is None or freight.quantity is None:
        return str(freight.quantity or freight.packaging or "")
    plural = "s" if freight.quantity != 1 and isinstance(freight.packaging, Packaging) else ""
    return f"{freight.quantity} {freight.packaging}{plural}"


def price_of(offer: Any, out: Out) -> str | None:
    """Format the amount of an offer or bid with the code of its currency."""
    if offer.amount is None or offer.currency is None:
        return offer.amount and f"{offer.amount:f}"
    return f"{offer.amount:f} {out.codes.get(offer.currency, f'(currency {offer.currency})')}"


def _each(freight: Any, out: Out) -> str | None:
    sizes = [freight.length, freight.width, freight.height]
    # Drafts are in metres.
    unit = getattr(freight, "measure_unit", None) or "m"
    return None if None in sizes else f"{' x '.join(f'{size:f}' for size in sizes)} {unit}"


def _stated_weight(freight: Any, out: Out) -> str | None:
    reading = "that of one unit" if out.per == "unit" else "the total of all units"
    # Drafts are in kilograms.
    unit = getattr(freight, "mass_unit", None) or "kg"
    return freight.weight and f"{freight.weight:f} {unit}, read as {reading}"


def _weight(form: str) -> Callable[[Any, Out], str | None]:
    def read(freight: Any, out: Out) -> str | None:
        weight = _gross_weight(freight, out)
        return None if weight is None else form.format(f"{weight.kilograms:f}", mark="?" if weight.warning else "")

    return read


def _chargeable(form: str) -> Callable[[Any, Out], str | None]:
    def read(freight: Any, out: Out) -> str | None:
        quantity = _quantity(freight, out)
        return quantity and form.format(f"{quantity[0]:f}", *quantity[1:])

    return read


def _incoterm(request: Any, out: Out) -> str:
    return f"{request.incoterm or ''}{'?' if cargo.incoterm_warning(request.incoterm, request.type) else ''}"


def _contact_line(bid: Any, out: Out) -> str | None:
    parts = bid.contact and (bid.contact.name, bid.contact.email and f"<{bid.contact.email}>")
    return parts and " ".join(filter(None, parts))


def _utc(name: str) -> Callable[[Any, Out], str]:
    return lambda record, _: f"{getattr(record, name):%Y-%m-%d %H:%M:%S} UTC"


_VALUES: Final[Mapping[str, Callable[[Any, Out], object]]] = {
    "at": lambda event, _: f"{event.observed_between[1].astimezone():%H:%M:%S}",
    "changes": lambda event, _: f"changed: {', '.join(event.changed)}" if event.changed else None,
    "chargeable": _chargeable("{} {}"),
    "chargeable_by": _chargeable("{} {} by {}"),
    "checked_incoterm": _incoterm,
    "contact_line": _contact_line,
    "cubic_metres": lambda freight, _: freight.volume and f"{freight.volume:f} m3",
    "day": lambda request, _: request.need_date and request.need_date.date(),
    "each": _each,
    "full_name": lambda user, _: " ".join(filter(None, (user.first_name, user.middle_name, user.last_name))),
    "gross": _weight("{} kg"),
    "kilograms": _weight("{}{mark}"),
    "kind_9": lambda event, _: (getattr(event, "answer", None) or event.kind).ljust(9),
    "offer_status": lambda bid, _: (bid.offer or bid).status,
    "own_terms": lambda compared, _: "; ".join(compared.own_terms),
    "own_price": lambda compared, _: f"{compared.offer.amount} {compared.currency}",
    "places": lambda freight, _: f"{text_of(freight.origin)} to {text_of(freight.destination)}",
    "price": price_of,
    "stated_weight": _stated_weight,
    "total": lambda record, _: f"{record.total:.2f}" if isinstance(record.total, Decimal) else record.total,
    "units": lambda freight, _: units_of(freight),
    "utc_since": _utc("since"),
    "utc_until": _utc("until"),
}
