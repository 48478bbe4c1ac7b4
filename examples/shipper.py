"""A shipper publishes its requests from a CSV file, and no row of it twice: `python examples/shipper.py requests.csv`.

Stop it, kill it, pull the plug, and run it again: it goes on with the row that it had come to. What it has done is kept
beside the file, in `requests.csv.progress`. Before a row is sent, that is written down; a row of which it is not known
whether it was taken is looked for among the own requests, and sent again only when it is provably not there. One thing
it cannot tell apart: a request just like it that somebody else publishes for the same account in that moment.

Which exchange, and whose requests, comes from the environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL,
FREIGHT_EXCHANGE_PASSWORD. The exit status is 0 when every row is published, else 1.
"""

from __future__ import annotations

import csv
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

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
    RateRequestDraft,
    ValidationError,
)
from freight_exchange.models import Publish, Reconciliation

State = Literal["sending", "published", "refused"]
SETTLE = timedelta(seconds=30)


@attrs.frozen
class Row:
    """A row of the file. Two rows that read the same are two requests: the `key` counts them."""

    line: int
    key: str
    draft: RateRequestDraft


def read(file: Path) -> list[Row]:
    """The rows of the file, all of them checked before the first is sent: `ValidationError` names the line."""
    rows: list[Row] = []
    seen: Counter[str] = Counter()
    with file.open(newline="", encoding="utf-8") as lines:
        for line, cells in enumerate(csv.DictReader(lines), start=2):
            text = repr(sorted(cells.items()))
            seen[text] += 1
            try:
                draft = draft_of(cells)
            except (KeyError, ValueError) as error:
                raise ValidationError(f"line {line}: {error}", field=getattr(error, "field", "")) from error
            rows.append(Row(line, f"{text} #{seen[text]}", draft))
    return rows


def draft_of(cells: dict[str, str]) -> RateRequestDraft:
    return RateRequestDraft(
        commodity=cells["commodity"],
        type=cells["type"],
        origin=cells["origin"],
        destination=cells["destination"],
        arrival=datetime.fromisoformat(cells["arrival"]),
        packaging=cells["packaging"],
        quantity=int(cells["quantity"]),
        length=cells["length"],
        width=cells["width"],
        height=cells["height"],
        weight=cells["weight"],
        incoterm=cells["incoterm"],
        hazardous={"yes": True, "no": False}[cells["hazardous"]],
        notes=cells.get("notes") or None,
    )


class Progress:
    """What became of each row, and which own requests there were before: a small SQLite file, synced at each step.

    One program at a time: a second one on the same file is told that the database is locked.
    """

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None, timeout=0)
        self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._file.execute("CREATE TABLE IF NOT EXISTS row (key TEXT PRIMARY KEY, state TEXT, request INTEGER)")
        self._file.execute("CREATE TABLE IF NOT EXISTS own (request INTEGER PRIMARY KEY)")

    def close(self) -> None:
        self._file.close()

    def state(self, row: Row) -> State | None:
        found = self._file.execute("SELECT state FROM row WHERE key = ?", (row.key,)).fetchone()
        return None if found is None else found[0]

    def note(self, row: Row, state: State, request: int | None = None) -> None:
        self._file.execute("INSERT OR REPLACE INTO row VALUES (?, ?, ?)", (row.key, state, request))

    def forget(self, row: Row) -> None:
        self._file.execute("DELETE FROM row WHERE key = ?", (row.key,))

    def remember(self, own: Iterable[Listing]) -> None:
        self._file.executemany("INSERT OR IGNORE INTO own VALUES (?)", [(listing.index,) for listing in own])

    def before(self) -> Sequence[Listing]:
        """The own requests that are surely not the one in doubt."""
        known = self._file.execute("SELECT request FROM own UNION SELECT request FROM row WHERE request IS NOT NULL")
        return [Listing(index=index) for (index,) in known]


async def publish_all(
    exchange: FreightExchange, rows: Sequence[Row], progress: Progress, settle: timedelta = SETTLE
) -> Counter[str]:
    """Publish what is not published yet; how many rows are in which state at the end."""
    for row in rows:
        if progress.state(row) == "sending":
            # An earlier run ended before it knew.
            say(row, "may have been sent before: looking for it")
            resolve(row, progress, await look_for(exchange, row, progress, settle))
    if not any(progress.state(row) == "sending" for row in rows):
        # While a row is in doubt, a request that looks like it must not pass for an old one.
        progress.remember(await exchange.offers.list(sweep=True).collect())
    for row in rows:
        while progress.state(row) is None:
            await publish(exchange, row, progress, settle)
    return Counter(progress.state(row) or "open" for row in rows)


async def publish(exchange: FreightExchange, row: Row, progress: Progress, settle: timedelta) -> None:
    progress.note(row, "sending")
    try:
        published = await exchange.requests.publish(row.draft)
    except OutcomeUnknownError as error:
        say(row, f"nobody knows whether it was taken: {error}")
        resolve(row, progress, await error.reconcile(settle=settle, baseline=progress.before()))
    except BadRequestError as error:
        progress.note(row, "refused")
        say(row, f"was refused: {error}")
    except FreightExchangeError:
        # Any other error says that it was not taken. The next run sends it.
        progress.forget(row)
        raise
    else:
        progress.note(row, "published", published.index)
        say(row, f"is published as {published.ref_id}")


async def look_for(exchange: FreightExchange, row: Row, progress: Progress, settle: timedelta) -> Reconciliation:
    return await exchange.reconcile(Publish(row.draft), settle=settle, baseline=progress.before())


def resolve(row: Row, progress: Progress, found: Reconciliation) -> None:
    match found:
        case Applied(record):
            progress.note(row, "published", record.index)
            say(row, f"was taken: it is {record.index}")
        case NotApplied():
            progress.forget(row)
            say(row, "was provably not taken: it will be sent")
        case _:
            say(row, "stays in doubt: the next run looks again, and sends nothing before it knows")


def say(row: Row, what: str) -> None:
    print(f"line {row.line}, {row.draft.commodity}: {what}", flush=True)


async def main(file: Path) -> int:
    rows = read(file)
    progress = Progress(file.with_name(f"{file.name}.progress"))
    try:
        async with FreightExchange() as exchange:
            states = await publish_all(exchange, rows, progress)
    finally:
        progress.close()
    print(", ".join(f"{count} {state}" for state, count in sorted(states.items())))
    return int(states["published"] < len(rows))


if __name__ == "__main__":
    sys.exit(anyio.run(main, Path(sys.argv[1])))
