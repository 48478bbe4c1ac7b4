"""Tests of the examples against the sandbox. `test_demo.py` tests the demonstrations."""

from __future__ import annotations

import ast
import inspect
import os
import re
import runpy
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import attrs
import httpx
import pytest
from examples import lanes, service, shipper
from tests.unit.blocks import ROOT, TIMEOUT, environment_of

from freight_exchange import FreightExchange, bulk
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Cargo, Sandbox
from freight_sandbox import Exchange
from freight_sandbox.server import serve

EXAMPLES = ROOT / "examples"
FILE = EXAMPLES / "requests.csv"
PUBLISH = "quote/submitrequest"


# The shipper


async def published(exchange: FreightExchange) -> Counter[tuple[str | None, int | None]]:
    """Return the shipper's requests at the exchange."""
    return Counter([(listing.commodity, listing.quantity) async for listing in exchange.offers.list()])


WANTED = Counter(
    {
        ("Ceramic tiles", 20): 1,
        ("Bicycles", 40): 1,
        ("Lithium batteries", 150): 1,
        ("Garden lamps", 30): 2,
    }
)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_shipper_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.faults.add(*FAULTS["stall"](path=PUBLISH, skip=2))
    table = tmp_path / "requests.csv"
    table.write_text(FILE.read_text())
    async with serve(exchange) as face:
        environment = os.environ | environment_of(face.url, exchange.shipper)
        command = [sys.executable, "-W", "error", str(EXAMPLES / "shipper.py"), str(table)]
        async with await anyio.open_process(command, env=environment, stdin=None) as process:
            with anyio.fail_after(TIMEOUT):
                while len(exchange.audit_log.calls_to("POST", PUBLISH)) < 3:  # noqa: ASYNC110  # of another process
                    await anyio.sleep(0.02)
            process.kill()
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        )
        account = exchange.shipper
        async with FreightExchange(face.url, email=account.email, password=account.password) as client:
            assert await published(client) == WANTED
    assert (done.returncode, done.stderr) == (0, "")
    assert "line 4, Lithium batteries: an earlier run may have published it: looking for it" in done.stdout
    assert done.stdout.splitlines()[-1] == "5 published"


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("commodity,colour", "requests.csv: line 1 lacks column 'type', "),
        (None, "[Errno 2] No such file or directory: "),
    ],
)
def test_wrong_file_of_requests_is_reported_in_a_sentence(written: str | None, sentence: str, tmp_path: Path) -> None:
    table = tmp_path / "requests.csv"
    if written is not None:
        table.write_text(written)
    reported = shipper.run([str(table)])
    assert isinstance(reported, str)
    assert reported.startswith(sentence)
    assert "\n" not in reported
    assert not (tmp_path / "requests.csv.progress").exists()


def test_journal_of_another_account_is_reported_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment_of("http://localhost/api/", Exchange().shipper).items():
        monkeypatch.setenv(name, value)
    table = tmp_path / "requests.csv"
    table.write_text(FILE.read_text())
    bulk.Journal(f"{table}.progress", "other@demo.example at http://localhost/api").close()
    assert shipper.run([str(table)]) == (
        f"{table}.progress is the journal of other@demo.example at http://localhost/api, not of "
        "shipper@demo.example at http://localhost/api: publish there from a copy of the file with another name"
    )


@pytest.mark.parametrize("arguments", [[], ["one.csv", "two.csv"]])
def test_error_for_no_file_or_several_shows_a_usage(arguments: list[str]) -> None:
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
        ("notices.py", "name the file of the bot"),
        ("notices.py bot.db", "set NOTICE_WEBHOOK, NOTICE_SECRET, NOTICE_FROM, NOTICE_TO: where notices go"),
        ("lanes.py lanes.db", "it takes no arguments"),
        ("lanes.py", "give base_url, or set FREIGHT_EXCHANGE_URL"),
    ],
)
def test_missing_argument_ends_program_with_one_sentence(
    line: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *arguments = line.split()
    for name in [name for name in os.environ if name.startswith("FREIGHT_EXCHANGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / program), run_name="__main__")
    assert isinstance(ended.value.code, str)
    assert ended.value.code.startswith(sentence)
    assert "\n" not in ended.value.code
    assert capsys.readouterr() == ("", "")


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
        reported = (await people.get("/bot")).json()
    (record,) = sandbox.audit_log.offers_on(request)
    assert record.offer.amount == Decimal("812.50")
    assert reported == {"state": "running", "live": True, "offers": {"confirmed": 1}, "dead": 0, "parked": 0}


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
    async with serve(exchange) as face:
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
    output = capsys.readouterr().out
    assert "3 requests" in output
    assert "revenue tons by sea" in output
    assert isinstance(names["exchange"], FreightExchange)


def test_the_page_names_the_account_of_each_program_and_gives_the_line_for_it() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    exchange = Exchange()
    for account in (exchange.forwarder, exchange.shipper):
        named = environment_of("http://127.0.0.1:8765/api", account).items()
        assert f"\nexport {' '.join(f'{name}={value}' for name, value in named)}\n" in page
    rows = re.findall(r"^\| (`examples/.*) \| .* \| (.*) \|$", page, re.MULTILINE)
    accounts = {file: account for files, account in rows for file in re.findall(r"`examples/(\w+\.\w+)`", files)}
    for file in EXAMPLES.glob("*.py"):
        text = file.read_text()
        takes_one = "FREIGHT_EXCHANGE_EMAIL" in text or "from the environment" in text
        is_shipper = any(call in text for call in ("ctx.approve(", "requests.publish(", "bulk.publish("))
        wanted = "none" if file.name == "stage.py" or not takes_one else "**shipper**" if is_shipper else "forwarder"
        assert accounts[file.name] == wanted, file.name


def test_page_lists_the_packages_that_the_service_needs() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    assert all("pip install fastapi uvicorn" in text for text in (page, service.__doc__))


def test_every_example_is_on_the_page_about_them() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    assert all(f"examples/{file.name}" in page for file in EXAMPLES.iterdir() if file.suffix in (".py", ".csv"))
