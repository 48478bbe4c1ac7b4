"""Output of commands: tables and records for people, JSON lines and CSV for programs.

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
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_type_hints

import attrs
import click

from freight_exchange import cargo
from freight_exchange.cargo import Per
from freight_exchange.cli.run import confirm, not_printed, warn
from freight_exchange.errors import BadRequestError, ValidationError
from freight_exchange.models import Packaging, RequestType
from freight_exchange.platform.text import clean

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Paginator

T = TypeVar("T")

_TABLES: Final = {
    "RateRequest": "INDEX> STATUS/3 REF/8=ref_id TYPE/5 COMMODITY~ ORIGIN~/3 DESTINATION~/2 ARRIVAL/7=day UNITS/9"
    " M3>/6=volume KG>/1=kilograms INCOTERM/4=checked_incoterm CHARGEABLE>",
    "OfferRow": "REQUEST>=listing.index COMMODITY~/1=listing.commodity ORIGIN~/3=listing.origin"
    " DESTINATION~/2=listing.destination OFFER>=offer.id AMOUNT>=offer.price STATUS=row_status TERMS~/4=offer.terms",
    "Bid": "REQUEST>=index REF/5=ref_id COMMODITY~/2 ORIGIN~/4 DESTINATION~/3 OFFER>=price STATUS"
    " CONTACT~/1=contact_line",
    "Route": "INDEX> ORIGIN~/2 DESTINATION~/1 VESSEL~/3 VOYAGE/7=voyage_id CY_CUT-OFF/5=cy_cutoff"
    " CFS_CUT-OFF/6=cfs_cutoff DEPARTURE ARRIVAL/4 CARRIER>/8",
    "Carrier": "INDEX> NAME",
    "Currency": "INDEX> CODE NAME",
    "ComparedOffer": "RANK> OFFER>=offer.id TOTAL> OFFERED>/3=own_price STATUS/4=offer.status FEES~/2=own_fees"
    " OWN_TERMS~/1",
    "DeadLetter": "EVENT> HANDLER~ REQUEST>/2 KIND/3 ATTEMPTS>/4 SINCE/5=seconds_since ERROR~/1",
    "Doubt": "REQUEST> KIND/6 OFFER>/7 REVISION>/2 AMOUNT> CURRENCY>/4 HANDLER~/5 SINCE/3=seconds_since PARKED/1",
    "Gap": "SINCE=seconds_since UNTIL=seconds_until",
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
    "Gap": "kind updates_may_be_missing_from=since to=until",
    "Unreadable": "kind request=index error",
}
"""Parts of the line of an event, as `path` or `name=path`."""

_PART: Final = re.compile(r"([^>~/=]+)(>?)(~?)(?:/(\d+))?(?:=(\S+))?")
_GAP: Final = 2
_MIN_WRAPPED: Final = 16
_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # noqa: RUF001 - spreadsheets read the wide forms too
_NUMERAL: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


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
    """Output of one command. `per` is how weights are read; with `yes`, no question is asked."""

    def __init__(self, format: Literal["json", "csv"] | None = None, per: Per = "unit", *, yes: bool = False) -> None:
        self.format = format
        self.per: Per = per
        self.yes = yes
        self.codes: Mapping[int, str] = {}

    async def read_codes(self, exchange: FreightExchange) -> None:
        """Read the codes of currencies, which amounts are shown with; without them, their indexes are shown."""
        try:
            self.codes = {one.index: one.code async for one in exchange.currencies.list() if one.code}
        except BadRequestError as error:
            warn(f"The codes of currencies cannot be read, so their indexes are shown: {text_of(error)}")

    async def confirm(self, question: str, draft: object = None) -> None:
        """Show what is about to be sent, and ask the user to confirm, unless `--yes` was given."""
        if not self.yes:
            if draft is not None:
                self.details(draft, err=True)
            await confirm(question)

    async def listing(self, listing: Paginator[T], empty: str, columns: Sequence[str] = (), **selection: Any) -> None:
        """Print a listing, for programs as the records arrive; `columns` are those of CSV."""
        self.table(await collect(listing, on_record=self._printer(columns), **selection), empty)

    def records(self, records: Sequence[Any], empty: str, columns: Sequence[str]) -> None:
        """Print records in the format of a listing."""
        show = self._printer(columns)
        for record in records:
            show(record)
        self.table(records, empty)

    def _printer(self, columns: Sequence[str]) -> Callable[[object], None]:
        if self.format == "csv":
            self.csv_header(columns)
            return lambda record: self.csv_row([_find(self.plain(record), column) for column in columns])
        return self.json if self.format else lambda _: None

    def json(self, value: object) -> None:
        """Print a value as one line of JSON, in ASCII, which is safe for a terminal."""
        click.echo(json.dumps(value, default=self.plain, separators=(",", ":")))

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
            raise not_printed(error) from None

    def record(self, record: object) -> None:
        """Print one record, and the offers on it."""
        if self.format == "json":
            self.json(record)
            return
        self.details(record)
        for offer in getattr(record, "offers", ()):
            click.echo()
            self.details(offer)

    def details(self, record: object, *, err: bool = False, **further: object) -> None:
        """Print the fields of a record that have a value, one on a line, and further ones."""
        lines = [(one.title, one.value(record, self)) for one in _columns_of(_DETAILS[type(record).__name__])]
        self.lines([*lines, *further.items()], err=err)

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

    def event(self, event: Any) -> None:
        """Print an event, as one line."""
        if self.format:
            self.json(event)
            return
        parts = []
        for part in _LINES[type(event).__name__].split():
            name, _, path = part.rpartition("=")
            if text := text_of(_reader(path)(event, self)):
                parts.append(f"{name.replace('_', ' ')} {text}" if name else text)
        click.echo("  ".join(parts))

    def table(self, records: Sequence[Any], empty: str) -> None:
        """Print a table of the records, or `empty` on standard error; for people only."""
        if self.format:
            return
        if not records:
            warn(empty)
            return
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        columns = _columns_of(_TABLES[type(records[0]).__name__])
        cells = {column: [text_of(column.value(record, self)) for record in records] for column in columns}
        widths = {column: max(map(cell_len, [column.title, *cells[column]])) for column in columns}
        console = Console(width=None if sys.stdout.isatty() else sum(widths.values()) + _GAP * len(columns))
        shown, droppable = [*columns], sorted(columns, key=lambda column: column.drop_order)

        def room() -> int:
            least = [min(widths[one], max(_MIN_WRAPPED, len(one.title))) if one.wraps else widths[one] for one in shown]
            return console.width - sum(least) - _GAP * (len(shown) - 1)

        while room() < 0 and droppable[-1].drop_order:
            shown.remove(droppable.pop())
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for column in shown:
            justify: Literal["right", "left"] = "right" if column.is_right else "left"
            # A number is folded rather than cut: that would make another number of it.
            no_wrap = column.is_right and room() >= 0
            table.add_column(Text(column.title), justify=justify, no_wrap=no_wrap, overflow="fold")
        for row in zip(*(cells[column] for column in shown), strict=True):
            # `Text`, since a string would be read as markup: a commodity may be called [bold].
            table.add_row(*map(Text, row))
        with console.capture() as capture:
            console.print(table)
        for line in capture.get().splitlines():
            click.echo(line.rstrip())
        if dropped := [column.title for column in columns if column not in shown]:
            warn(f"The terminal has no room for {', '.join(dropped)}.")

    def plain(self, value: Any) -> Any:
        """Return the dictionary of a record as `freight_exchange.to_dict` does, or the JSON form of another value."""
        from freight_exchange import to_dict

        match value:
            case None:
                return None
            case Decimal():
                return str(value)
            case datetime():
                return value.isoformat()
            case Mapping():
                return dict(value)
        kind = type(value).__name__
        plain = to_dict(value)
        if kind == "RateRequest":
            return plain | measured(value, self.per)
        if kind == "RequestEvent":
            plain |= {name: one for name in ("request", "previous") if (one := getattr(value, name)) is not None}
        return plain | ({"kind": value.kind} if hasattr(type(value), "kind") else {})


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
        case _:
            return clean(str(value))


async def collect(
    listing: Paginator[T],
    *,
    limit: int | None = None,
    is_included: Callable[[T], bool] = lambda _: True,
    on_record: Callable[[T], None] = lambda _: None,
) -> list[T]:
    """Read the records of a listing; call `on_record` with each as soon as it arrives."""
    records: list[T] = []
    async with contextlib.aclosing(aiter(listing)) as stream:
        async for record in stream:
            if is_included(record):
                records.append(record)
                on_record(record)
            if len(records) == limit:
                break
    return records


def csv_columns(cls: Any, *, exclude: Collection[str] = (), prefix: str = "") -> list[str]:
    """Return the columns of a class of records, with those of nested ones."""
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


def measured(freight: Any, per: Per) -> dict[str, Any]:
    """Return what JSON has besides the fields of a request; `None` for a value that a missing measure prevents."""
    gross, chargeable, doubts = None, None, [cargo.incoterm_warning(freight.incoterm, freight.type)]
    with contextlib.suppress(ValidationError):
        gross = cargo.gross_weight(freight, per=per)
        doubts.insert(0, gross.warning)
    with contextlib.suppress(ValidationError):
        if freight.type == RequestType.SHIPPING:
            tons = cargo.revenue_tons(freight, per=per)
            chargeable = {"amount": f"{tons.tons}", "unit": "W/M", "by": tons.basis}
        elif freight.type in (RequestType.AIR_FREIGHT, RequestType.TRUCKING):
            is_air = freight.type == RequestType.AIR_FREIGHT
            weight = (cargo.air_chargeable_weight if is_air else cargo.road_chargeable_weight)(freight, per=per)
            chargeable = {"amount": f"{weight.kilograms}", "unit": "kg", "by": weight.basis}
    reading = f"if it is that of {'one unit' if per == 'unit' else 'all units'}"
    messages = {one.field: one.message.replace(f'with per="{per}"', reading) for one in doubts if one}
    return {
        "volume": freight.volume,
        "weight_per": per,
        "gross_weight": gross and gross.kilograms,
        "chargeable": chargeable,
        "doubts": [{"field": field, "message": message} for field, message in messages.items()],
    }


def warn_of_doubts(freight: Any, per: Per, check: str = "Check") -> None:
    """Print the doubts about a request or draft to standard error."""
    for doubt in measured(freight, per)["doubts"]:
        warn(text_of(f"{check} the {doubt['field']}: {doubt['message']}"))


def units_of(freight: Any) -> str:
    """Format quantity and packaging, such as `20 pallets`."""
    plural = "s" if freight.quantity not in (None, 1) and isinstance(freight.packaging, Packaging) else ""
    return " ".join(str(one) for one in (freight.quantity, freight.packaging) if one is not None) + plural


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


def _measure(freight: Any, out: Out, name: str, form: str) -> str | None:
    value = measured(freight, out.per)[name]
    return value and form.format_map(value if isinstance(value, Mapping) else {"value": value})


def _marked(freight: Any, out: Out, field: str, text: str | None) -> str | None:
    is_doubtful = any(doubt["field"] == field for doubt in measured(freight, out.per)["doubts"])
    return f"{text}?" if text and is_doubtful else text


def _joined(*parts: str | None) -> str:
    return " ".join(filter(None, parts))


_VALUES: Final[Mapping[str, Callable[[Any, Out], object]]] = {
    "at": lambda event, _: f"{event.observed_between[1].astimezone():%H:%M:%S}",
    "changes": lambda event, _: f"changed: {', '.join(event.changed)}" if event.changed else None,
    "chargeable": lambda freight, out: _measure(freight, out, "chargeable", "{amount} {unit}"),
    "chargeable_by": lambda freight, out: _measure(freight, out, "chargeable", "{amount} {unit} by {by}"),
    "checked_incoterm": lambda request, out: _marked(request, out, "incoterm", request.incoterm),
    "contact_line": lambda bid, _: bid.contact and _joined(bid.contact.name, f"<{bid.contact.email}>"),
    "cubic_metres": lambda freight, _: freight.volume and f"{freight.volume:f} m3",
    "day": lambda request, _: request.need_date and request.need_date.date(),
    "each": _each,
    "full_name": lambda user, _: _joined(user.first_name, user.middle_name, user.last_name),
    "gross": lambda freight, out: _measure(freight, out, "gross_weight", "{value:f} kg"),
    "kilograms": lambda freight, out: _marked(
        freight, out, "weight", _measure(freight, out, "gross_weight", "{value:f}")
    ),
    "kind_9": lambda event, _: (getattr(event, "answer", None) or event.kind).ljust(9),
    "offer_status": lambda bid, _: (bid.offer or bid).status,
    "own_fees": lambda compared, _: ", ".join(f"{name} {fee:.2f}" for name, fee in compared.fees.items()),
    "own_terms": lambda compared, _: "; ".join(compared.own_terms),
    "own_price": lambda compared, _: f"{compared.offer.amount} {compared.currency}",
    "places": lambda freight, _: f"{text_of(freight.origin)} to {text_of(freight.destination)}",
    "price": price_of,
    "row_status": lambda row, _: row.offer.status if row.offer else "no offer yet",
    "seconds_since": lambda record, _: f"{record.since:%Y-%m-%d %H:%M:%S} UTC",
    "seconds_until": lambda record, _: f"{record.until:%Y-%m-%d %H:%M:%S} UTC",
    "stated_weight": _stated_weight,
    "total": lambda compared, _: f"{compared.total:.2f}",
    "units": lambda freight, _: units_of(freight),
}
