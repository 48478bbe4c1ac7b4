"""Command `requests import`: publish the requests of a file."""

from __future__ import annotations

import contextlib
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from freight_exchange.cli.credentials import resolve_credentials
from freight_exchange.cli.drafts import past_option
from freight_exchange.cli.exit_status import InterruptedWriteError, Status
from freight_exchange.cli.import_journal import ImportJournal
from freight_exchange.cli.options import FILE, json_option, yes_option
from freight_exchange.cli.render.record import format_value, print_json
from freight_exchange.cli.request_file import read_requests
from freight_exchange.cli.session import run_with_client
from freight_exchange.cli.terminal import confirm, require_confirmation

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Listing, RateRequest
    from freight_exchange.cli.import_journal import State
    from freight_exchange.cli.options import GlobalOptions
    from freight_exchange.cli.request_file import Row

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
    publishes no row twice. A row whose reply was lost is looked for before anything is sent again.

    \b
    Example:
      freight-exchange requests import requests.csv
    """
    require_confirmation(yes=yes)
    path = Path(file)
    rows = read_requests(path, past=past)
    credentials = resolve_credentials(options)
    journal = ImportJournal(
        path.with_name(f"{path.name}.progress"), f"{credentials.email} at {credentials.url.strip().rstrip('/')}"
    )
    # Loads the client, which help does not need.
    from freight_exchange.cli.import_requests import import_requests

    with contextlib.closing(journal):
        count = sum(journal.state(row.key) not in ("published", "refused") for row in rows)
        if count:
            confirm(f"Publish {count} of {len(rows)} requests in {file}?", yes=yes)

        async def work(exchange: FreightExchange) -> Counter[State | None]:
            return await import_requests(exchange, rows, journal, partial(_report_row, as_json=as_json))

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
