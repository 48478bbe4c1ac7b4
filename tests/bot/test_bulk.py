"""Tests of publishing a file of requests: each row once, through lost replies and kills."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from freight_exchange import FreightExchange, Listing, RateRequest, Request, Response
from freight_exchange.bulk import Journal, Row, State, publish, read_requests
from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.testing import FAULTS, Cargo, Sandbox
from freight_sandbox import Fault, Profile
from freight_sandbox.faults import json_reply

FILE = Path(__file__).parents[2] / "examples" / "requests.csv"
PUBLISH = "quote/submitrequest"
OWNER = "shipper@demo.example at the sandbox"
SETTLE = timedelta(seconds=10)
WANTED = Counter(
    {("Ceramic tiles", 20): 1, ("Bicycles", 40): 1, ("Lithium batteries", 150): 1, ("Garden lamps", 30): 2}
)
HEADER, TILES, *_ = FILE.read_text().splitlines()


class Killed(BaseException):
    """Simulated end of the process."""


def kill(at: int, *, after: bool) -> dict[str, Any]:
    """Return options of a client whose process ends at its n-th publication, before or after the exchange has it."""
    count = itertools.count(1)

    async def middleware(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.path != PUBLISH or next(count) != at:
            return await call_next(request)
        if after:
            await call_next(request)
        raise Killed

    return {"middleware": (middleware,)}


async def run(sandbox: Sandbox, journal: Journal, events: list[str] | None = None, **client: Any) -> dict[State, int]:
    def report(row: Row, event: str, record: RateRequest | Listing | None) -> None:
        if events is not None:
            events.append(f"line {row.line}: {event}")

    with journal:
        async with sandbox.client(sandbox.shipper, **client) as exchange:
            return await publish(exchange, read_requests(FILE), journal, on_row=report, settle=SETTLE)


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
        assert await run(sandbox, Journal(tmp_path / "progress", OWNER)) == {"published": 5}
    async with sandbox.client(sandbox.shipper) as exchange:
        assert await published(exchange) == WANTED


@pytest.mark.virtual_time
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", [1, 2, 5])
async def test_each_row_is_published_once_after_a_kill(step: int, after: bool, tmp_path: Path) -> None:
    sandbox = Sandbox()
    with pytest.raises(Killed):
        await run(sandbox, Journal(tmp_path / "progress", OWNER), **kill(step, after=after))
    assert await run(sandbox, Journal(tmp_path / "progress", OWNER)) == {"published": 5}
    async with sandbox.client(sandbox.shipper) as exchange:
        assert await published(exchange) == WANTED


@pytest.mark.virtual_time
async def test_older_equal_request_does_not_pass_for_a_lost_row(tmp_path: Path) -> None:
    sandbox = Sandbox()
    async with sandbox.client(sandbox.shipper) as exchange:
        await exchange.requests.publish(read_requests(FILE)[0].draft)
        sandbox.strike(*FAULTS["reset_after_send"](path=PUBLISH))
        assert await run(sandbox, Journal(tmp_path / "progress", OWNER)) == {"published": 5}
        assert await published(exchange) == WANTED + Counter({("Ceramic tiles", 20): 1})


@pytest.mark.virtual_time
async def test_refused_row_holds_up_no_other(tmp_path: Path) -> None:
    sandbox = Sandbox()
    no = json_reply(400, {"message": "there is no such port"})
    sandbox.strike(Fault(name="refused", path=PUBLISH, processed=False, times=1, mutate=no))
    events: list[str] = []
    assert await run(sandbox, Journal(tmp_path / "progress", OWNER), events) == {"refused": 1, "published": 4}
    assert events[0].startswith("line 2: refused")
    assert len(sandbox.audit_log.publications) == 4


@pytest.mark.virtual_time
async def test_journal_belongs_to_one_account_and_exchange(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    await run(Sandbox(), Journal(path, OWNER))
    with pytest.raises(ConfigurationError, match=r"belongs to .* of shipper@demo"):
        Journal(path, "other@demo.example at the sandbox")
    anew = Sandbox()
    with pytest.raises(ConfigurationError, match=r"5 published rows, and .* has none of these requests"):
        await run(anew, Journal(path, OWNER))
    assert anew.audit_log.publications == []


@pytest.mark.virtual_time
async def test_journal_of_a_killed_run_has_no_requests_of_a_new_exchange(tmp_path: Path) -> None:
    """A run that ends before its first row records old requests, and a new exchange uses their numbers again."""
    sandbox = Sandbox()
    sandbox.publish(Cargo(commodityname="Marble"))
    with pytest.raises(Killed):
        await run(sandbox, Journal(tmp_path / "progress", OWNER), **kill(1, after=False))
    anew = Sandbox()
    anew.strike(*FAULTS["reset_after_processing"](path=PUBLISH))
    assert await run(anew, Journal(tmp_path / "progress", OWNER)) == {"published": 5}
    assert len(anew.audit_log.publications) == 5


@pytest.mark.virtual_time
async def test_request_that_is_not_listed_yet_is_waited_for(tmp_path: Path) -> None:
    sandbox = Sandbox(Profile(late_visibility=5))
    with pytest.raises(Killed):
        await run(sandbox, Journal(tmp_path / "progress", OWNER), **kill(1, after=True))
    assert await run(sandbox, Journal(tmp_path / "progress", OWNER)) == {"published": 5}
    assert len(sandbox.audit_log.publications) == 5


def test_journal_serves_one_process_at_a_time(tmp_path: Path) -> None:
    for _ in range(2):  # a new file, and one that exists
        with Journal(tmp_path / "progress", OWNER), pytest.raises(ConfigurationError, match="cannot be used"):
            Journal(tmp_path / "progress", OWNER)


def test_other_file_is_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    path.write_text("no database" * 100)
    with pytest.raises(ConfigurationError, match=r"progress cannot be used: .* is not a database"):
        Journal(path, OWNER)


def test_file_of_another_version_is_no_journal(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "progress", isolation_level=None)) as old:
        old.execute("CREATE TABLE row (key TEXT PRIMARY KEY, state TEXT, request INTEGER, commodity TEXT)")
        old.execute("INSERT INTO row VALUES ('tiles', 'published', 1, 'Tiles')")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        Journal(tmp_path / "progress", OWNER)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "line 1 lacks column 'commodity', 'type', "),
        (HEADER, "has no rows"),
        (f"{HEADER}\n,,,\n\n", "has no rows"),
        (HEADER.replace("weight,", "mass,"), "line 1 lacks column 'weight'; the columns are commodity, type, "),
        (HEADER.replace("weight,", "weight,mass,"), "line 1 has unknown column 'mass'"),
        (HEADER.replace("notes", "weight"), "line 1 repeats column 'weight'"),
        (f"{HEADER}\n{TILES},x", "line 2 has 15 cells for 14 columns: a text with a comma needs quotes"),
        (f'{HEADER}\n"Tiles', "line 2 is not CSV: unexpected end of data"),
        (f"{HEADER}\n{TILES.replace(',20,', ',many,')}", "line 2, column quantity: must be a whole number, not 'many'"),
        (f"{HEADER}\n{TILES.replace(',20,', ',-20,')}", "line 2, column quantity: must be a positive integer, not -20"),
        (f"{HEADER}\n{TILES.replace(',no,', ',maybe,')}", "line 2, column hazardous: must be yes or no, not 'maybe'"),
        (f"{HEADER}\n{TILES.replace('2036-03-01', 'soon')}", "line 2, column arrival: must be a date such as"),
        (f"{HEADER}\n{TILES.replace('Shipping', 'Rail')}", "line 2, column type: must be one of"),
        (f"{HEADER}\n{TILES.replace(',640,', ',,')}", "line 2, column weight: is empty"),
        (f'{HEADER}\n\n{TILES}"two\nlines"\nTiles', "line 5, column type: is empty"),
        (b"\xff\xfe", "is not UTF-8 at byte 1: save it as CSV in UTF-8"),
    ],
)
def test_wrong_file_is_refused_by_line_and_column(written: str | bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_bytes(written.encode() if isinstance(written, str) else written)
    with pytest.raises(ValidationError, match=r"requests\.csv") as caught:
        read_requests(path)
    assert message in caught.value.message


def test_all_wrong_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("\n".join([HEADER, TILES, TILES.replace(",no,", ",,"), *[TILES.replace("FOB", "F")] * 21]))
    with pytest.raises(ValidationError) as caught:
        read_requests(path)
    problems = caught.value.message.split("; ")
    assert problems[0] == "requests.csv: line 3, column hazardous: is empty"
    assert len(problems) == 21
    assert problems[-1] == "and 2 more"


def test_byte_order_mark_and_order_of_columns_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_bytes(FILE.read_text().encode("utf-8-sig"))
    assert read_requests(path) == read_requests(FILE)


def test_semicolons_and_a_comment_make_no_other_rows(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(f"{HEADER},comment\n{TILES},ours\n".replace(",", ";"))
    assert read_requests(path) == read_requests(FILE)[:1]


def test_column_for_notes_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(f"{HEADER.removesuffix(',notes')}\n{TILES.removesuffix(',')}\n")
    assert read_requests(path) == read_requests(FILE)[:1]
