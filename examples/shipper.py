"""Shipper that publishes requests from a CSV file, and no row twice: `python examples/shipper.py requests.csv`.

After a stop, a kill or a power cut, run it again: it continues with the row that it had reached. It records its
progress beside the file, in `requests.csv.progress`, before it sends a row. A row that may have been sent is looked up
among the account's own requests, and sent again only if it is provably absent. One case is indistinguishable: an equal
request that another program publishes for the same account at the same moment.

The exchange and the account, which must be a shipper's, come from the environment: FREIGHT_EXCHANGE_URL,
FREIGHT_EXCHANGE_EMAIL, FREIGHT_EXCHANGE_PASSWORD. The progress belongs to one account at one exchange: for another,
copy the file to a new name. The exit status is 0 when every row is published, else 1.
"""

from __future__ import annotations

import csv
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, TypeVar

import anyio
import attrs

from freight_exchange import (
    Applied,
    BadRequestError,
    FreightExchange,
    FreightExchangeError,
    Listing,
    NotApplied,
    OutcomeUnknownError,
    RateRequest,
    RateRequestDraft,
    ValidationError,
)
from freight_exchange.models import Publish, Reconciliation

State = Literal["sending", "published", "refused"]
T = TypeVar("T")

SETTLE = timedelta(seconds=30)
COLUMNS = (
    "commodity",
    "type",
    "origin",
    "destination",
    "arrival",
    "packaging",
    "quantity",
    "length",
    "width",
    "height",
    "weight",
    "incoterm",
    "hazardous",
)
OPTIONAL = ("notes",)
YES_OR_NO = {"yes": True, "no": False}


class ShipperError(Exception):
    """Problem with the file or its progress, as a sentence for the user."""


# The file


@attrs.frozen
class Row:
    """Row of the file. Two equal rows are two requests: the `key` counts them."""

    line: int
    key: str
    draft: RateRequestDraft


def read(file: Path) -> list[Row]:
    """Read and check all rows before the first is sent; `ShipperError` names the line."""
    try:
        # Spreadsheets begin UTF-8 files with a byte order mark.
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = rows_of(lines)
    except OSError as error:
        raise ShipperError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ShipperError(f"{file} is not in UTF-8: save it as CSV in UTF-8") from error
    except ShipperError as error:
        raise ShipperError(f"{file}, {error}") from error
    if not rows:
        raise ShipperError(f"{file} has no rows: there is nothing to publish")
    return rows


def rows_of(lines: Iterable[str]) -> list[Row]:
    table = csv.reader(lines, strict=True)
    rows: list[Row] = []
    seen: Counter[str] = Counter()
    columns: list[str] = []
    try:
        for cells in table:
            if not any(cells):
                continue
            if not columns:
                columns = checked(cells)
                continue
            if len(cells) != len(columns):
                hint = ": is a text with a comma in it without its quotes?" if len(cells) > len(columns) else ""
                raise ShipperError(f"it has {len(cells)} cells, and there are {len(columns)} columns{hint}")
            filled = {column: cell for column, cell in zip(columns, cells, strict=True) if cell}
            text = repr(sorted(filled.items()))
            seen[text] += 1
            rows.append(Row(table.line_num, f"{text} #{seen[text]}", draft_of(filled)))
    except (ShipperError, ValidationError, csv.Error) as error:
        raise ShipperError(f"line {table.line_num}: {error}") from error
    return rows


def checked(columns: list[str]) -> list[str]:
    """Check the column names of the first line; their order is free."""
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        hint = ": are its cells separated by commas?" if len(columns) == 1 else ""
        raise ShipperError(f"there is no column {', '.join(missing)}{hint}")
    for name, count in Counter(columns).items():
        if name not in COLUMNS + OPTIONAL:
            raise ShipperError(f"unknown column {name!r}; the columns are {', '.join(COLUMNS + OPTIONAL)}")
        if count > 1:
            raise ShipperError(f"there are {count} columns {name}")
    return columns


def draft_of(cells: Mapping[str, str]) -> RateRequestDraft:
    def text(column: str) -> str:
        return cells.get(column, "")

    def read_as(what: str, reader: Callable[[str], T], column: str) -> T:
        try:
            return reader(text(column))
        except (KeyError, ValueError):
            raise ShipperError(f"{column} must be {what}, not {text(column)!r}") from None

    return RateRequestDraft(
        commodity=text("commodity"),
        type=text("type"),
        origin=text("origin"),
        destination=text("destination"),
        arrival=read_as("a date such as 2027-03-01", datetime.fromisoformat, "arrival"),
        packaging=text("packaging"),
        quantity=read_as("a whole number", int, "quantity"),
        length=text("length"),
        width=text("width"),
        height=text("height"),
        weight=text("weight"),
        incoterm=text("incoterm"),
        hazardous=read_as("yes or no", YES_OR_NO.__getitem__, "hazardous"),
        notes=text("notes") or None,
    )


# The progress


class Progress:
    """Progress in an SQLite file, synced at each step: the state of each row, and the account's earlier requests.

    One program at a time: for a second one on the same file the database is locked.

    Args:
        path: The file.
        whose: The account and the exchange. The file is refused for others, whose requests it would take for
            published.
    """

    def __init__(self, path: Path, whose: str) -> None:
        self._path = path
        self._whose = whose
        self._file = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            self._open()
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> None:
        run = self._file.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        run("CREATE TABLE IF NOT EXISTS row (key TEXT PRIMARY KEY, state TEXT, request INTEGER, commodity TEXT)")
        run("CREATE TABLE IF NOT EXISTS own (request INTEGER PRIMARY KEY)")
        run("CREATE TABLE IF NOT EXISTS whose (whose TEXT)")
        (rows,) = run("SELECT count(*) FROM row").fetchone()
        kept = run("SELECT whose FROM whose").fetchone()
        if kept is None and not rows:
            run("INSERT INTO whose VALUES (?)", (self._whose,))
        elif kept != (self._whose,):
            raise ShipperError(
                f"{self._path} is about the requests of {kept[0] if kept else 'an account that it does not name'}, not "
                f"of {self._whose}: publish there from a copy of the file with another name"
            )
        run("COMMIT")

    def close(self) -> None:
        self._file.close()

    def state(self, row: Row) -> State | None:
        found = self._file.execute("SELECT state FROM row WHERE key = ?", (row.key,)).fetchone()
        return None if found is None else found[0]

    def note(self, row: Row, state: State, record: RateRequest | Listing | None = None) -> None:
        request, commodity = (None, None) if record is None else (record.index, record.commodity)
        self._file.execute("INSERT OR REPLACE INTO row VALUES (?, ?, ?, ?)", (row.key, state, request, commodity))

    def forget(self, row: Row) -> None:
        self._file.execute("DELETE FROM row WHERE key = ?", (row.key,))

    def remember(self, own: Iterable[Listing]) -> None:
        """Replace the known requests of the account by these."""
        self._file.execute("BEGIN")
        self._file.execute("DELETE FROM own")
        self._file.executemany("INSERT OR IGNORE INTO own VALUES (?)", [(listing.index,) for listing in own])
        self._file.execute("COMMIT")

    def before(self) -> Sequence[Listing]:
        """Return the account's requests that cannot be the one in doubt."""
        known = self._file.execute("SELECT request FROM own UNION SELECT request FROM row WHERE request IS NOT NULL")
        return [Listing(index=index) for (index,) in known]

    def published(self) -> set[tuple[int, str | None]]:
        """Return index and commodity of each published request."""
        return {*self._file.execute("SELECT request, commodity FROM row WHERE state = 'published'")}

    def lost(self) -> ShipperError:
        return ShipperError(
            f"{self._path} says that {len(self.published())} rows are published, and {self._whose} has none of these "
            "requests: the exchange has begun anew, or all of them are gone. Put the rows that are still to be "
            "published into a file with another name"
        )


# Publishing


async def publish_all(
    exchange: FreightExchange, rows: Sequence[Row], progress: Progress, settle: timedelta = SETTLE
) -> Counter[str]:
    """Publish the open rows, and return the number of rows in each state."""
    await recognize(exchange, progress, settle)
    for row in rows:
        if progress.state(row) == "sending":
            # An earlier run ended before the reply.
            say(row, "may have been sent before: looking for it")
            resolve(row, progress, await look_for(exchange, row, progress, settle))
    if not any(progress.state(row) == "sending" for row in rows):
        # While a row is in doubt, a request that looks like it must not pass for an old one.
        progress.remember(await exchange.offers.list(sweep=True).collect())
    for row in rows:
        while progress.state(row) is None:
            await publish(exchange, row, progress, settle)
    return Counter(progress.state(row) or "open" for row in rows)


async def recognize(exchange: FreightExchange, progress: Progress, settle: timedelta) -> None:
    """Check that the exchange still has a published request: a new one may have the same address."""
    published = progress.published()
    patience = anyio.current_time() + settle.total_seconds()
    while published:
        own = await exchange.offers.list(sweep=True).collect()
        if published & {(listing.index, listing.commodity) for listing in own}:
            return
        # A new request may not be listed yet.
        if anyio.current_time() >= patience:
            raise progress.lost()
        await anyio.sleep(min(5, settle.total_seconds()))


async def publish(exchange: FreightExchange, row: Row, progress: Progress, settle: timedelta) -> None:
    progress.note(row, "sending")
    try:
        published = await exchange.requests.publish(row.draft)
    except OutcomeUnknownError as error:
        say(row, f"may have been taken: {error}")
        resolve(row, progress, await error.reconcile(settle=settle, baseline=progress.before()))
    except BadRequestError as error:
        progress.note(row, "refused")
        say(row, f"was refused: {error}")
    except FreightExchangeError:
        # Any other error means that it was not taken. The next run sends it.
        progress.forget(row)
        raise
    else:
        progress.note(row, "published", published)
        say(row, f"is published as {published.ref_id}")


async def look_for(exchange: FreightExchange, row: Row, progress: Progress, settle: timedelta) -> Reconciliation:
    return await exchange.reconcile(Publish(row.draft), settle=settle, baseline=progress.before())


def resolve(row: Row, progress: Progress, found: Reconciliation) -> None:
    match found:
        case Applied(RateRequest() | Listing() as record):
            progress.note(row, "published", record)
            say(row, f"was taken: it is {record.index}")
        case NotApplied():
            progress.forget(row)
            say(row, "was provably not taken: it will be sent")
        case _:
            say(row, "stays in doubt: the next run looks it up again before it sends anything")


def say(row: Row, what: str) -> None:
    print(f"line {row.line}, {row.draft.commodity}: {what}", flush=True)


def beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.progress")


async def main(file: Path) -> int:
    rows = read(file)
    exchange = FreightExchange()
    account, url = os.environ["FREIGHT_EXCHANGE_EMAIL"], os.environ["FREIGHT_EXCHANGE_URL"].strip().rstrip("/")
    progress = Progress(beside(file), f"{account} at {url}")
    try:
        async with exchange:
            states = await publish_all(exchange, rows, progress)
    finally:
        progress.close()
    print(", ".join(f"{count} {state}" for state, count in sorted(states.items())))
    return int(states["published"] < len(rows))


def run(arguments: Sequence[str]) -> int | str:
    """Run the program; return the exit status, or the sentence that ends it with status 1."""
    if len(arguments) != 1:
        return "name one file of requests: python examples/shipper.py examples/requests.csv"
    file = Path(arguments[0])
    try:
        return anyio.run(main, file)
    except (ShipperError, FreightExchangeError) as error:
        return str(error)
    except sqlite3.Error as error:
        return f"{beside(file)} cannot be used: {error}"
    except KeyboardInterrupt:
        return "stopped: run it again to continue"


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
