"""The examples do what they say, against the sandbox. Those that are demonstrations are in `test_demo.py`."""

from __future__ import annotations

import ast
import inspect
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import attrs
import httpx
import pytest
from examples import lanes, service, shipper
from tests.unit.blocks import PATIENCE, ROOT, environment_of

from freight_exchange import FreightExchange, Listing, RateRequest
from freight_exchange.sandbox import Account, Exchange, Fault, Profile
from freight_exchange.sandbox.faces.tcp import serve_tcp
from freight_exchange.sandbox.faults import mutations
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Cargo, Sandbox

EXAMPLES = ROOT / "examples"
FILE = EXAMPLES / "requests.csv"
PUBLISH = "quote/submitrequest"
SETTLE = timedelta(seconds=10)
WHOSE = "shipper@demo.example at the sandbox"


# The shipper


class Killed(BaseException):
    """The process is gone."""


class Mortal(shipper.Progress):
    """Dies at one of its steps: before it lasts, or right after."""

    def __init__(self, path: Path, *, step: int, after: bool) -> None:
        super().__init__(path, WHOSE)
        self._left, self._after = step, after

    def note(self, row: shipper.Row, state: shipper.State, record: RateRequest | Listing | None = None) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        super().note(row, state, record)
        if self._left == 0:
            raise Killed


async def published(exchange: FreightExchange) -> Counter[tuple[str | None, int | None]]:
    """What the shipper has at the exchange."""
    return Counter([(listing.commodity, listing.quantity) async for listing in exchange.offers.list()])


WANTED = Counter(
    {
        ("Ceramic tiles", 20): 1,
        ("Bicycles", 40): 1,
        ("Lithium batteries", 150): 1,
        ("Garden lamps", 30): 2,
    }
)


async def run(sandbox: Sandbox, progress: shipper.Progress) -> Counter[str]:
    try:
        async with sandbox.client(sandbox.shipper) as exchange:
            return await shipper.publish_all(exchange, shipper.read(FILE), progress, SETTLE)
    finally:
        progress.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize("fault", [None, "reset_after_processing", "reset_after_send", "unavailable"])
async def test_each_row_is_published_once_whatever_becomes_of_the_answers(fault: str | None, tmp_path: Path) -> None:
    sandbox = Sandbox()
    if fault is not None:
        # The exchange takes it and fails to say so, where the fault can come that late.
        late = True in FAULTS[fault].phases
        sandbox.strike(*FAULTS[fault](path=PUBLISH, skip=1, times=2, processed=late))
    for _ in range(2):
        assert await run(sandbox, shipper.Progress(tmp_path / "progress", WHOSE)) == {"published": 5}
    async with sandbox.client(sandbox.shipper) as exchange:
        assert await published(exchange) == WANTED


@pytest.mark.virtual_time
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("after", [False, True], ids=["before it lasts", "right after"])
@pytest.mark.parametrize("step", range(1, 11))
async def test_it_publishes_once_wherever_it_is_killed(step: int, after: bool, tmp_path: Path) -> None:
    sandbox = Sandbox()
    with pytest.raises(Killed):
        await run(sandbox, Mortal(tmp_path / "progress", step=step, after=after))
    assert await run(sandbox, shipper.Progress(tmp_path / "progress", WHOSE)) == {"published": 5}
    async with sandbox.client(sandbox.shipper) as exchange:
        assert await published(exchange) == WANTED


@pytest.mark.virtual_time
async def test_a_request_of_old_does_not_pass_for_a_row_that_got_lost(tmp_path: Path) -> None:
    sandbox = Sandbox()
    async with sandbox.client(sandbox.shipper) as exchange:
        await exchange.requests.publish(shipper.read(FILE)[0].draft)
        sandbox.strike(*FAULTS["reset_after_send"](path=PUBLISH))
        assert await run(sandbox, shipper.Progress(tmp_path / "progress", WHOSE)) == {"published": 5}
        assert await published(exchange) == WANTED + Counter({("Ceramic tiles", 20): 1})


@pytest.mark.virtual_time
async def test_a_row_that_the_service_refuses_is_told_and_holds_up_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox = Sandbox()
    no = mutations.json_reply(400, {"message": "there is no such port"})
    sandbox.strike(Fault(name="refused", path=PUBLISH, processed=False, times=1, mutate=no))
    assert await run(sandbox, shipper.Progress(tmp_path / "progress", WHOSE)) == {"refused": 1, "published": 4}
    assert "line 2, Ceramic tiles: was refused" in capsys.readouterr().out
    assert len(sandbox.audit_log.publications) == 4


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_shipper_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.faults.add(*FAULTS["stall"](path=PUBLISH, skip=2))
    table = tmp_path / "requests.csv"
    table.write_text(FILE.read_text())
    async with serve_tcp(exchange) as face:
        environment = os.environ | environment_of(face.url, exchange.shipper)
        command = [sys.executable, "-W", "error", str(EXAMPLES / "shipper.py"), str(table)]
        async with await anyio.open_process(command, env=environment, stdin=None) as process:
            with anyio.fail_after(PATIENCE):
                while len(exchange.audit_log.calls_to("POST", PUBLISH)) < 3:  # noqa: ASYNC110  # of another process
                    await anyio.sleep(0.02)
            process.kill()
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        )
        account = exchange.shipper
        async with FreightExchange(face.url, email=account.email, password=account.password) as client:
            assert await published(client) == WANTED
    assert (done.returncode, done.stderr) == (0, "")
    assert "line 4, Lithium batteries: may have been sent before" in done.stdout
    assert done.stdout.splitlines()[-1] == "5 published"


HEADER, TILES, *_ = FILE.read_text().splitlines()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "has no rows: there is nothing to publish"),
        (HEADER, "has no rows: there is nothing to publish"),
        (f"{HEADER}\n,,,\n\n", "has no rows: there is nothing to publish"),
        (f"{HEADER}\n{TILES}extra,cells", "line 2: it has 15 cells, and there are 14 columns: is a text with a comma"),
        (f"{HEADER}\n{TILES}\nTiles,Shipping", "line 3: it has 2 cells, and there are 14 columns"),
        (f"{HEADER},colour\n{TILES},red", "line 1: unknown column 'colour'; the columns are commodity, "),
        (f"{HEADER},notes\n{TILES},", "line 1: there are 2 columns notes"),
        (HEADER.replace("incoterm,", ""), "line 1: there is no column incoterm"),
        (HEADER.replace(",", ";"), "line 1: there is no column commodity, type, "),
        (HEADER.replace(",", ";"), "hazardous: are its cells separated by commas?"),
        (f"{HEADER}\n{TILES}\n{TILES.replace(',0.9,', ',0,')}", "line 3: height must be greater than zero, not '0'"),
        (f"{HEADER}\n{TILES.replace(',no,', ',No,')}", "line 2: hazardous must be yes or no, not 'No'"),
        (f"{HEADER}\n{TILES.replace(',20,', ',20.0,')}", "line 2: quantity must be a whole number, not '20.0'"),
        (f"{HEADER}\n{TILES.replace(',20,', ',-20,')}", "line 2: quantity must be a positive integer, not -20"),
        (f"{HEADER}\n{TILES.replace('2027-03-01', '1.3.2027')}", "line 2: arrival must be a date such as 2027-03-01"),
        (f"{HEADER}\n{TILES.replace('Shipping', 'Pigeon')}", "line 2: type must be one of 'Shipping', "),
        (f'{HEADER}\n\n{TILES}"two\nlines"\nTiles', "line 5: it has 1 cells, and there are 14 columns"),
        (f'{HEADER}\n"{TILES}', "line 2: unexpected end of data"),
        (f"{HEADER}\n{TILES}f\xfcr zwei".encode("latin-1"), "is not in UTF-8: save it as"),
        (f"{HEADER}\n{TILES}".encode("utf-16"), "is not in UTF-8: save it as CSV in UTF-8"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_right_is_told_in_a_sentence_before_anything_is_sent(
    written: str | bytes | None, said: str, tmp_path: Path
) -> None:
    table = tmp_path / "requests.csv"
    if written is not None:
        table.write_bytes(written.encode() if isinstance(written, str) else written)
    told = shipper.run([str(table)])
    assert isinstance(told, str)
    assert told.startswith(f"{table}")
    assert said in told
    assert "\n" not in told
    assert not (tmp_path / "requests.csv.progress").exists()


def test_a_spreadsheets_mark_at_the_beginning_is_no_part_of_a_name(tmp_path: Path) -> None:
    table = tmp_path / "requests.csv"
    table.write_bytes(FILE.read_text().encode("utf-8-sig"))
    assert shipper.read(table) == shipper.read(FILE)


def test_a_column_for_notes_that_is_empty_makes_no_other_rows(tmp_path: Path) -> None:
    table = tmp_path / "requests.csv"
    table.write_text(f"{HEADER.removesuffix(',notes')}\n{TILES.removesuffix(',')}\n")
    assert shipper.read(table) == shipper.read(FILE)[:1]


@pytest.mark.parametrize("arguments", [[], ["one.csv", "two.csv"]])
def test_without_one_file_it_says_what_to_give(arguments: list[str]) -> None:
    assert shipper.run(arguments) == "name one file of requests: python examples/shipper.py examples/requests.csv"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("bot.py", "name the file of the bot"),
        ("bot.py bot.db other.db", "name the file of the bot"),
        ("watcher.py", "name a file, and the seconds between scans"),
        ("watcher.py watcher.db soon", "name a file, and the seconds between scans"),
        ("watcher.py watcher.db nan", "name a file, and the seconds between scans"),
        ("watcher.py watcher.db", "give base_url, or set FREIGHT_EXCHANGE_URL"),
        ("lanes.py lanes.db", "it takes no arguments"),
        ("lanes.py", "give base_url, or set FREIGHT_EXCHANGE_URL"),
    ],
)
def test_what_was_not_given_is_told_in_a_sentence(line: str, sentence: str, tmp_path: Path) -> None:
    program, *arguments = line.split()
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / program), *arguments],
        env={name: value for name, value in os.environ.items() if not name.startswith("FREIGHT_EXCHANGE_")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(sentence)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_what_was_done_for_one_exchange_and_account_says_nothing_of_another(tmp_path: Path) -> None:
    """As a person does it: tried on one exchange first, then for real on another one, with the same file."""
    table = tmp_path / "requests.csv"
    table.write_text(FILE.read_text())

    def publish(url: str, account: Account, file: Path = table) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / "shipper.py"), str(file)],
            env=os.environ | environment_of(url, account),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()[-1] if done.stdout else "", done.stderr

    run = anyio.to_thread.run_sync
    trial, real = Exchange(), Exchange()
    async with serve_tcp(trial) as first, serve_tcp(real) as second:
        for url in (first.url, f"{first.url}/"):
            assert await run(publish, url, trial.shipper) == (0, "5 published", "")
        for url, account in ((second.url, real.shipper), (first.url, trial.rival)):
            status, _, told = await run(publish, url, account)
            assert (status, told) == (
                1,
                f"{table}.progress is about the requests of shipper@demo.example at {first.url}, not of "
                f"{account.email} at {url}: publish there from a copy of the file with another name\n",
            )
        assert not real.audit_log.publications
        copy = table.with_name("real.csv")
        copy.write_text(FILE.read_text())
        assert await run(publish, second.url, real.shipper, copy) == (0, "5 published", "")
        wrong = attrs.evolve(real.shipper, password="wrong")
        status, _, told = await run(publish, second.url, wrong, copy)
        assert (status, told.count("\n")) == (1, 1)
        assert "401" in told
    assert len(trial.audit_log.publications) == len(real.audit_log.publications) == 5


@pytest.mark.virtual_time
@pytest.mark.parametrize("others", [False, True])
async def test_an_exchange_that_has_begun_anew_is_not_the_one_of_before(others: bool, tmp_path: Path) -> None:
    """Its numbers begin anew as well: a request of the one would pass for one of the other."""
    assert await run(Sandbox(), shipper.Progress(tmp_path / "progress", WHOSE)) == {"published": 5}
    anew = Sandbox()
    if others:
        for _ in range(5):
            anew.publish(Cargo(commodityname="Marble"))
    already = len(anew.audit_log.publications)
    with pytest.raises(shipper.ShipperError, match=r"says that 5 rows are published, and .* has none of these"):
        await run(anew, shipper.Progress(tmp_path / "progress", WHOSE))
    assert len(anew.audit_log.publications) == already


@pytest.mark.virtual_time
async def test_a_request_that_was_there_earlier_cannot_stand_for_a_row_that_got_lost(tmp_path: Path) -> None:
    """A first run that is killed before its first row knows the requests of then, whose numbers come again."""
    sandbox = Sandbox()
    sandbox.publish(Cargo(commodityname="Marble"))
    with pytest.raises(Killed):
        await run(sandbox, Mortal(tmp_path / "progress", step=1, after=False))
    anew = Sandbox()
    anew.strike(*FAULTS["reset_after_processing"](path=PUBLISH))
    assert await run(anew, shipper.Progress(tmp_path / "progress", WHOSE)) == {"published": 5}
    assert len(anew.audit_log.publications) == 5


@pytest.mark.virtual_time
async def test_what_was_published_a_moment_ago_need_not_be_listed_yet(tmp_path: Path) -> None:
    sandbox = Sandbox(Profile(late_visibility=5))
    with pytest.raises(Killed):
        await run(sandbox, Mortal(tmp_path / "progress", step=2, after=True))
    assert await run(sandbox, shipper.Progress(tmp_path / "progress", WHOSE)) == {"published": 5}
    assert len(sandbox.audit_log.publications) == 5


def test_progress_that_names_nobody_is_not_gone_on_with(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "progress")) as old:
        old.execute("CREATE TABLE row (key TEXT PRIMARY KEY, state TEXT, request INTEGER)")
        old.execute("INSERT INTO row VALUES ('tiles', 'published', 1)")
        old.commit()
    with pytest.raises(shipper.ShipperError, match="of an account that it does not name, not of shipper"):
        shipper.Progress(tmp_path / "progress", WHOSE)


@pytest.mark.parametrize("kept", [b"not a database at all, and longer than a header would be" * 10, None])
def test_what_is_kept_and_cannot_be_used_is_told_in_a_sentence(
    kept: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_of("http://localhost/api", Exchange().shipper).items():
        monkeypatch.setenv(name, value)
    table, progress = tmp_path / "requests.csv", tmp_path / "requests.csv.progress"
    table.write_text(FILE.read_text())
    if kept is not None:
        progress.write_bytes(kept)
    with closing(sqlite3.connect(progress)) as other:
        if kept is None:
            other.execute("BEGIN EXCLUSIVE")
        told = shipper.run([str(table)])
    assert told == f"{progress} cannot be used: {'database is locked' if kept is None else 'file is not a database'}"


def test_two_shippers_on_one_file_do_not_both_work(tmp_path: Path) -> None:
    for _ in range(2):  # a new file, and one that was there
        with closing(shipper.Progress(tmp_path / "progress", WHOSE)), pytest.raises(sqlite3.Error, match="locked"):
            shipper.Progress(tmp_path / "progress", WHOSE)


# The application with a feed


@pytest.mark.virtual_time
async def test_the_lanes_follow_the_market(capsys: pytest.CaptureFixture[str]) -> None:
    sandbox, table = Sandbox(), lanes.Lanes()
    stays = sandbox.publish(
        Cargo(origin="Hong Kong", destination="Rotterdam", quantity=10, length=1, width=1, height=1)
    )
    goes = sandbox.publish(Cargo(origin="Shenzhen", destination="Hamburg", quantity=5, length=1, width=1, height=1))
    async with sandbox.client() as exchange, anyio.create_task_group() as tasks:
        tasks.start_soon(lanes.run, exchange, table, timedelta(seconds=30), timedelta(minutes=1))
        await anyio.sleep(90)
        assert [lane for lane, _ in table.busiest()] == [("Hong Kong", "Rotterdam"), ("Shenzhen", "Hamburg")]
        larger = attrs.evolve(
            Cargo(), origin="Hong Kong", destination="Rotterdam", quantity=12, length=1, width=1, height=1
        )
        sandbox.exchange.update(stays, sandbox.now(), larger)
        sandbox.exchange.withdraw(goes, sandbox.now())
        await anyio.sleep(7200)
        tasks.cancel_scope.cancel()
    assert table.busiest() == [(("Hong Kong", "Rotterdam"), lanes.Demand(1, Decimal(12)))]
    out = capsys.readouterr().out
    assert out.startswith("reading the listed requests\n2 open requests, as of 0 s ago\n")
    assert "Shenzhen -> Hamburg: 1 request, 5 m3" in out


# The bot in a service


@pytest.mark.virtual_time
async def test_a_bot_in_a_service_quotes_by_the_services_tariff() -> None:
    sandbox = Sandbox()
    app = service.make_app(sandbox.client(), store=MemoryStore())
    carrier = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=carrier, base_url="http://service") as people,
    ):
        request = sandbox.publish(Cargo(destination="Narvik", quantity=10, length=1, width=1, height=1))
        await anyio.sleep(300)
        assert not sandbox.audit_log.offers_on(request)
        assert (await people.put("/rates/Narvik", params={"dollars": "0"})).status_code == 422
        assert (await people.put("/rates/Narvik", params={"dollars": "81.25"})).status_code == 200
        assert (await people.get("/rates")).json() == {"Long Beach": "62.40", "Narvik": "81.25"}
        await anyio.sleep(700)
        assert (await people.get("/livez")).status_code == 200
        told = (await people.get("/bot")).json()
    (record,) = sandbox.audit_log.offers_on(request)
    assert record.offer.amount == Decimal("812.50")
    assert told == {"state": "running", "live": True, "offers": {"confirmed": 1}, "dead": 0, "parked": 0}


@pytest.mark.virtual_time
async def test_a_service_whose_bot_is_deaf_is_not_alive() -> None:
    sandbox = Sandbox()
    app = service.make_app(sandbox.client(), store=MemoryStore())
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as people,
    ):
        await anyio.sleep(60)
        assert (await people.get("/livez")).status_code == 200
        sandbox.strike(*FAULTS["unavailable"](path="quote/getrequests", times=None))
        await anyio.sleep(600)
        assert (await people.get("/livez")).status_code == 503


# The notebook


async def test_the_cells_of_the_notebook_run_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exchange = Exchange()
    for cargo in (Cargo(weight=1), Cargo(requesttype="Air Freight"), Cargo(destination="Rotterdam", weight=100)):
        exchange.publish(exchange.shipper, time.time(), cargo)
    path = EXAMPLES / "notebook.py"
    cells = re.split("^# %%", path.read_text(), flags=re.MULTILINE)[1:]
    names: dict[str, Any] = {}
    async with serve_tcp(exchange) as face:
        for name, value in environment_of(face.url, exchange.forwarder).items():
            monkeypatch.setenv(name, value)
        for cell in cells:
            if cell.startswith(" [markdown]"):
                assert all(not line or line.startswith("#") for line in cell.splitlines()[1:])
                continue
            # As a notebook does it.
            compiled = compile(cell, str(path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            outcome = eval(compiled, names)  # the notebook is ours
            if inspect.isawaitable(outcome):
                await outcome
    said = capsys.readouterr().out
    assert "3 requests" in said
    assert "revenue tons by sea" in said
    assert isinstance(names["exchange"], FreightExchange)


def test_the_page_says_whose_program_each_is_and_gives_the_line_for_it() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    exchange = Exchange()
    for account in (exchange.forwarder, exchange.shipper):
        named = environment_of("http://127.0.0.1:8765/api", account).items()
        assert f"\nexport {' '.join(f'{name}={value}' for name, value in named)}\n" in page
    rows = re.findall(r"^\| (`examples/.*) \| .* \| (.*) \|$", page, re.MULTILINE)
    accounts = {file: account for files, account in rows for file in re.findall(r"`examples/(\w+\.\w+)`", files)}
    for file in EXAMPLES.glob("*.py"):
        text = file.read_text()
        takes_one = "FREIGHT_EXCHANGE_EMAIL" in text or "from the environment" in text
        publishes = "requests.publish(" in text
        wanted = "none" if file.name == "stage.py" or not takes_one else "**shipper**" if publishes else "forwarder"
        assert accounts[file.name] == wanted, file.name


def test_the_page_says_what_the_service_needs() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    assert all("pip install fastapi uvicorn" in text for text in (page, service.__doc__))


def test_every_example_is_on_the_page_about_them() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    assert all(f"examples/{file.name}" in page for file in EXAMPLES.iterdir() if file.suffix in (".py", ".csv"))
