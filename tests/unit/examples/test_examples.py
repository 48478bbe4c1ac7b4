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
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from tools.pages import ROOT, environment_of

from freight_exchange import FreightExchange
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Cargo, Sandbox
from freight_sandbox import Exchange
from freight_sandbox.server import serve

EXAMPLES = ROOT / "examples"
FILE = EXAMPLES / "requests.csv"
PUBLISH = "quote/submitrequest"


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
            with anyio.fail_after(60):
                while len(exchange.audit_log.calls_to("POST", PUBLISH)) < 3:  # noqa: ASYNC110  # of another process
                    await anyio.sleep(0.02)
            process.kill()
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        )
        account = exchange.shipper
        async with FreightExchange(face.url, email=account.email, password=account.password) as client:
            assert await published(client) == WANTED
    assert (done.returncode, done.stderr) == (0, "")
    assert "line 4, Lithium batteries: an earlier run may have published it: looking for it" in done.stdout
    assert done.stdout.splitlines()[-1] == "5 published"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("bot.py", "name the file of the bot"),
        ("bot.py bot.db other.db", "name the file of the bot"),
        ("tender.py", "name the file of the bot"),
        ("shipper.py", "name one file of requests: python examples/shipper.py examples/requests.csv"),
        ("watcher.py", "name a file for the watcher"),
        ("watcher.py watcher.db", "give "),
        ("notices.py", "name the file of the bot"),
        ("notices.py bot.db", "set NOTICE_WEBHOOK, NOTICE_SECRET, NOTICE_FROM, NOTICE_TO: where notices go"),
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
async def test_bot_in_a_service_quotes_by_its_tariff_and_reports_when_it_is_deaf() -> None:
    sandbox = Sandbox()
    from examples import service

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
        sandbox.strike(*FAULTS["unavailable"](path="quote/getrequests", times=None))
        await anyio.sleep(600)
        assert (await people.get("/livez")).status_code == 503
    (record,) = sandbox.audit_log.offers_on(request)
    assert record.offer.amount == Decimal("812.50")
    assert reported == {"state": "running", "live": True, "offers": {"confirmed": 1}, "dead": 0, "parked": 0}


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


def test_every_example_is_on_the_page_about_them() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    assert all(f"examples/{file.name}" in page for file in EXAMPLES.iterdir() if file.suffix in (".py", ".csv"))
    code = (EXAMPLES / "service.py").read_text()
    assert all("pip install fastapi uvicorn" in text for text in (page, code))
