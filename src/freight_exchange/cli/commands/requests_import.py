"""Command `requests import`: publish the requests of a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from freight_exchange.cli.client.credentials import resolve_credentials
from freight_exchange.cli.client.session import run_with_client
from freight_exchange.cli.drafts import past_option, reject_past_arrival
from freight_exchange.cli.exit_status import InterruptedWriteError, Status
from freight_exchange.cli.options import FILE, json_option, yes_option
from freight_exchange.cli.render.record import format_value, print_json
from freight_exchange.cli.terminal import confirm, require_confirmation
from freight_exchange.errors import ValidationError

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Listing, RateRequest
    from freight_exchange.bulk import Row, State
    from freight_exchange.cli.options import GlobalOptions

__all__ = ["import_"]


@click.command("import")
@click.argument("file", type=FILE)
@past_option
@yes_option
@json_option
@click.pass_obj
def import_(options: GlobalOptions, /, file: str, past: bool, yes: bool, as_json: bool) -> None:
    """Publish the requests of a CSV file, each row once.

    The first line names the columns: commodity, type, origin, destination, arrival, packaging, quantity, length, width,
    height, weight, incoterm, hazardous (yes or no) and, if you like, notes. All rows are checked before the first is
    sent.

    FILE.progress beside the file records each step. Run the command again after an interruption: it continues, and
    publishes no row twice. If a reply was lost, it looks for the row before it sends anything again.

    \b
    Example:
      freight-exchange requests import requests.csv
    """
    require_confirmation(yes=yes)
    # Loads the client, which help does not need.
    from freight_exchange import bulk

    path = Path(file)
    rows = _read(path, past=past)
    credentials = resolve_credentials(options)
    owner = f"{credentials.email} at {credentials.url.strip().rstrip('/')}"
    with bulk.Journal(path.with_name(f"{path.name}.progress"), owner) as journal:
        count = sum(journal.state(row) not in ("published", "refused") for row in rows)
        if count:
            confirm(f"Publish {count} of {len(rows)} requests in {file}?", yes=yes)

        async def work(exchange: FreightExchange) -> Counter[State]:
            return await bulk.publish(exchange, rows, journal, on_row=partial(_report_row, as_json=as_json))

        try:
            states = run_with_client(options, work, credentials=credentials)
        except InterruptedWriteError as error:
            error.add_note("Run the command again: it looks for the row before anything is sent.")
            raise
    if not as_json:
        click.echo(f"{states['published']} of {len(rows)} rows are published.")
    if states["sending"]:
        raise _RowsInDoubtError(f"{states['sending']} rows are in doubt: run the command again in a minute")
    if states["refused"]:
        raise _RowsRefusedError(f"{states['refused']} rows were refused by the service")


def _read(path: Path, *, past: bool) -> Sequence[Row]:
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
            reject_past_arrival(row.draft.arrival, past=past)
        except click.UsageError as error:
            raise click.UsageError(f"line {row.line} of {path.name}: {error.message}") from None
    return rows


class _RowsInDoubtError(click.ClickException):
    exit_code = Status.OUTCOME_UNKNOWN


class _RowsRefusedError(click.ClickException):
    exit_code = Status.REFUSED


def _report_row(row: Row, event: str, record: RateRequest | Listing | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"line": row.line, "event": event, "request": None if record is None else record.index})
        return
    name = "" if record is None else f" as {format_value(record.ref_id or record.index)}"
    click.echo(f"line {row.line}, {format_value(row.draft.commodity)}: {format_value(event)}{name}")
