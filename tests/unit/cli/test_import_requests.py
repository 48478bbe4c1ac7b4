"""Tests of the import of requests: each row is published once, whatever is lost or killed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import click
import pytest
from tests.unit.blocks import ROOT

from freight_exchange import FreightExchange, Listing, RateRequest
from freight_exchange.cli.import_journal import ImportJournal, State
from freight_exchange.cli.import_requests import import_requests
from freight_exchange.cli.request_file import Row, read_requests
from freight_exchange.errors import ConfigurationError
from freight_exchange.sandbox import Fault
from freight_exchange.sandbox.faults import mutations
from freight_exchange.testing import FAULTS, Sandbox

FILE = ROOT / "examples" / "requests.csv"
PUBLISH = "quote/submitrequest"
OWNER = "shipper@demo.example at the sandbox"
SETTLE = timedelta(seconds=10)
WANTED = Counter(
    {("Ceramic tiles", 20): 1, ("Bicycles", 40): 1, ("Lithium batteries", 150): 1, ("Garden lamps", 30): 2}
)
HEADER, TILES, *_ = FILE.read_text().splitlines()


class Killed(BaseException):
    """End of the process."""


class MortalJournal(ImportJournal):
    """Journal whose process dies at one of its steps: before or right after it is durable."""

    def __init__(self, path: Path, *, step: int, after: bool) -> None:
        super().__init__(path, OWNER)
        self._left, self._after = step, after

    def write(self, key: str, state: State, record: RateRequest | Listing | None = None) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        super().write(key, state, record)
        if self._left == 0:
            raise Killed


async def run(sandbox: Sandbox, journal: ImportJournal, events: list[str] | None = None) -> dict[State | None, int]:
    def report(row: Row, event: str, record: RateRequest | Listing | None) -> None:
        if events is not None:
            events.append(f"line {row.line}: {event}")

    try:
        async with sandbox.client(sandbox.shipper) as exchange:
            return await import_requests(exchange, read_requests(FILE, past=True), journal, report, SETTLE)
    finally:
        journal.close()


async def published(exchange: FreightExchange) -> Counter[tuple[str | None, int | None]]:
    return Counter([(listing.commodity, listing.quantity) async for listing in exchange.offers.list()])


@pytest.mark.virtual_time
@pytest.mark.parametrize("fault", [None, "reset_after_processing", "reset_after_send"])
async def test_each_row_is_published_once_through_lost_replies(fault: str | None, tmp_path: Path) -> None:
    sandbox = Sandbox()
    if fault is not None:
        late = True in FAULTS[fault].phases
        sandbox.strike(*FAULTS[fault](path=PUBLISH, skip=1, times=2, processed=late))
    for _ in range(2):
        assert await run(sandbox, ImportJournal(tmp_path / "progress", OWNER)) == {"published": 5}
    async with sandbox.client(sandbox.shipper) as exchange:
        assert await published(exchange) == WANTED


@pytest.mark.virtual_time
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", [1, 2, 3, 9, 10])
async def test_each_row_is_published_once_after_a_kill(step: int, after: bool, tmp_path: Path) -> None:
    sandbox = Sandbox()
    with pytest.raises(Killed):
        await run(sandbox, MortalJournal(tmp_path / "progress", step=step, after=after))
    assert await run(sandbox, ImportJournal(tmp_path / "progress", OWNER)) == {"published": 5}
    async with sandbox.client(sandbox.shipper) as exchange:
        assert await published(exchange) == WANTED


@pytest.mark.virtual_time
async def test_older_equal_request_does_not_pass_for_a_lost_row(tmp_path: Path) -> None:
    sandbox = Sandbox()
    async with sandbox.client(sandbox.shipper) as exchange:
        await exchange.requests.publish(read_requests(FILE, past=True)[0].draft)
        sandbox.strike(*FAULTS["reset_after_send"](path=PUBLISH))
        assert await run(sandbox, ImportJournal(tmp_path / "progress", OWNER)) == {"published": 5}
        assert await published(exchange) == WANTED + Counter({("Ceramic tiles", 20): 1})


@pytest.mark.virtual_time
async def test_refused_row_holds_up_no_other(tmp_path: Path) -> None:
    sandbox = Sandbox()
    no = mutations.json_reply(400, {"message": "there is no such port"})
    sandbox.strike(Fault(name="refused", path=PUBLISH, processed=False, times=1, mutate=no))
    events: list[str] = []
    assert await run(sandbox, ImportJournal(tmp_path / "progress", OWNER), events) == {"refused": 1, "published": 4}
    assert events[0].startswith("line 2: refused")
    assert len(sandbox.audit_log.publications) == 4


@pytest.mark.virtual_time
async def test_journal_belongs_to_one_account_and_exchange(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    await run(Sandbox(), ImportJournal(path, OWNER))
    with pytest.raises(click.UsageError, match="is the journal of shipper@demo"):
        ImportJournal(path, "other@demo.example at the sandbox")
    anew = Sandbox()
    with pytest.raises(ConfigurationError, match=r"5 published rows, and .* has none of these requests"):
        await run(anew, ImportJournal(path, OWNER))
    assert anew.audit_log.publications == []


def test_journal_serves_one_process_at_a_time(tmp_path: Path) -> None:
    first = ImportJournal(tmp_path / "progress", OWNER)
    with pytest.raises(click.UsageError, match="database is locked"):
        ImportJournal(tmp_path / "progress", OWNER)
    first.close()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "has no rows"),
        (HEADER, "has no rows"),
        (HEADER.replace("weight,", "mass,"), "line 1: there is no column weight"),
        (HEADER.replace("weight,", "weight,mass,"), "line 1: unknown column 'mass'"),
        (HEADER.replace("notes", "weight"), "line 1: column weight is there 2 times"),
        (f"{HEADER}\n{TILES},x", "line 2: 15 cells for 14 columns"),
        (f'{HEADER}\n"Tiles', "line 2: unexpected end of data"),
        (f"{HEADER}\n{TILES.replace(',20,', ',many,')}", "line 2, column quantity: must be a whole number, not 'many'"),
        (f"{HEADER}\n{TILES.replace(',no,', ',maybe,')}", "line 2, column hazardous: must be yes or no, not 'maybe'"),
        (f"{HEADER}\n{TILES.replace('2027-03-01', 'soon')}", "line 2, column arrival: must be a date such as"),
        (f"{HEADER}\n{TILES.replace('2027-03-01', '2020-03-01')}", "line 2, column arrival: the arrival 2020-03-01"),
        (f"{HEADER}\n{TILES.replace('Shipping', 'Rail')}", "line 2, column type: type must be one of"),
        (f"{HEADER}\n{TILES.replace(',640,', ',,')}", "line 2, column weight: must not be empty"),
        (b"\xff\xfe", "is not in UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_wrong_file_is_refused_by_line_and_column(written: str | bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    if written is not None:
        path.write_bytes(written.encode() if isinstance(written, str) else written)
    with pytest.raises(click.UsageError) as caught:
        read_requests(path, past=False)
    assert message in caught.value.message
    assert "nothing was sent" in caught.value.message


def test_all_wrong_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("\n".join([HEADER, TILES, TILES.replace(",no,", ",,"), *[TILES.replace("FOB", "F")] * 21]))
    with pytest.raises(click.UsageError) as caught:
        read_requests(path, past=True)
    lines = caught.value.message.splitlines()
    assert lines[1] == "line 3, column hazardous: must not be empty"
    assert len(lines) == 22
    assert lines[-1] == "and 2 more"


def test_byte_order_mark_and_order_of_columns_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_bytes(FILE.read_text().encode("utf-8-sig"))
    assert read_requests(path, past=True) == read_requests(FILE, past=True)
