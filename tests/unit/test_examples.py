"""The examples do what they say, against the sandbox. Those that are demonstrations are in `test_demo.py`."""

from __future__ import annotations

import ast
import csv
import inspect
import os
import re
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
from tests.unit.blocks import PATIENCE, ROOT, environment_of

from freight_exchange import FreightExchange, ValidationError
from freight_exchange.sandbox import Exchange, Fault, mutations
from freight_exchange.sandbox.tcp import serve_tcp
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Cargo, Sandbox

EXAMPLES = ROOT / "examples"
FILE = EXAMPLES / "requests.csv"
PUBLISH = "quote/submitrequest"
SETTLE = timedelta(seconds=10)


# The shipper


class Killed(BaseException):
    """The process is gone."""


class Mortal(shipper.Progress):
    """Dies at one of its steps: before it lasts, or right after."""

    def __init__(self, path: Path, *, step: int, after: bool) -> None:
        super().__init__(path)
        self._left, self._after = step, after

    def note(self, row: shipper.Row, state: shipper.State, request: int | None = None) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        super().note(row, state, request)
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
        assert await run(sandbox, shipper.Progress(tmp_path / "progress")) == {"published": 5}
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
    assert await run(sandbox, shipper.Progress(tmp_path / "progress")) == {"published": 5}
    async with sandbox.client(sandbox.shipper) as exchange:
        assert await published(exchange) == WANTED


@pytest.mark.virtual_time
async def test_a_request_of_old_does_not_pass_for_a_row_that_got_lost(tmp_path: Path) -> None:
    sandbox = Sandbox()
    async with sandbox.client(sandbox.shipper) as exchange:
        await exchange.requests.publish(shipper.read(FILE)[0].draft)
        sandbox.strike(*FAULTS["reset_after_send"](path=PUBLISH))
        assert await run(sandbox, shipper.Progress(tmp_path / "progress")) == {"published": 5}
        assert await published(exchange) == WANTED + Counter({("Ceramic tiles", 20): 1})


@pytest.mark.virtual_time
async def test_a_row_that_the_service_refuses_is_told_and_holds_up_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox = Sandbox()
    no = mutations.answer(400, {"message": "there is no such port"})
    sandbox.strike(Fault(name="refused", path=PUBLISH, processed=False, times=1, mutate=no))
    assert await run(sandbox, shipper.Progress(tmp_path / "progress")) == {"refused": 1, "published": 4}
    assert "line 2, Ceramic tiles: was refused" in capsys.readouterr().out
    assert len(sandbox.truth.publications) == 4


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
                while len(exchange.truth.calls_to("POST", PUBLISH)) < 3:  # noqa: ASYNC110  # of another process
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"length": "0"}, "line 3: length"),
        ({"hazardous": "perhaps"}, "line 3: 'perhaps'"),
        ({"type": "Pigeon"}, "line 3: type"),
    ],
)
def test_a_row_that_cannot_be_right_is_named_before_anything_is_sent(
    wrong: dict[str, str], said: str, tmp_path: Path
) -> None:
    with FILE.open(newline="") as lines:
        rows = [*csv.DictReader(lines)]
    rows[1] |= wrong
    table = tmp_path / "requests.csv"
    with table.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(ValidationError, match=said):
        shipper.read(table)


def test_two_shippers_on_one_file_do_not_both_work(tmp_path: Path) -> None:
    first = shipper.Progress(tmp_path / "progress")
    with pytest.raises(Exception, match="locked"):
        shipper.Progress(tmp_path / "progress")
    first.close()


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
    assert "Shenzhen -> Hamburg: 1 requests, 5 m3" in capsys.readouterr().out


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
        assert not sandbox.truth.offers_on(request)
        assert (await people.put("/rates/Narvik", params={"dollars": "0"})).status_code == 422
        assert (await people.put("/rates/Narvik", params={"dollars": "81.25"})).status_code == 200
        assert (await people.get("/rates")).json() == {"Long Beach": "62.40", "Narvik": "81.25"}
        await anyio.sleep(700)
        assert (await people.get("/livez")).status_code == 200
        told = (await people.get("/bot")).json()
    (record,) = sandbox.truth.offers_on(request)
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


def test_every_example_is_on_the_page_about_them() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    assert all(f"examples/{file.name}" in page for file in EXAMPLES.iterdir() if file.suffix in (".py", ".csv"))
