"""Every block of the README runs, as it stands, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit import blocks
from tests.unit.blocks import ROOT, blocks_of, run_against_a_server, run_program

from freight_exchange import FreightExchange

README = ROOT / "README.md"
BLOCKS = blocks_of(README)


def compiled(code: str) -> Callable[[Callable[..., None]], Any]:
    """The block as an async function that prints through its argument."""
    return blocks.compiled(code, README)


def test_every_python_block_is_marked_to_run_in_a_way_that_there_is() -> None:
    assert len(BLOCKS) > 5
    ways = [how[:2] for how, _ in BLOCKS]
    known = [["asyncio"], ["asyncio", "environment"], ["asyncio", "uvicorn"], ["application"], ["pytest"], ["process"]]
    assert all(way in known for way in ways)
    # A way without a block would be a test that is skipped.
    assert all(way in ways for way in known)


@pytest.mark.parametrize("code", [code for how, code in BLOCKS if how == ["asyncio"]])
async def test_a_block_on_its_own(code: str) -> None:
    printed: list[tuple[object, ...]] = []
    await compiled(code)(lambda *values: printed.append(values))
    assert printed


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("code", [code for how, code in BLOCKS if how == ["asyncio", "uvicorn"]])
async def test_a_block_under_uvicorn(code: str) -> None:
    printed: list[tuple[object, ...]] = []
    await compiled(code)(lambda *values: printed.append(values))
    (_, url, _), (references,) = printed
    assert str(url).startswith("http://127.0.0.1:")
    assert references


@pytest.mark.parametrize("code", [code for how, code in BLOCKS if how == ["application"]])
async def test_a_block_that_makes_an_application(code: str) -> None:
    printed: list[tuple[object, ...]] = []
    namespace: dict[str, Any] = {"print": lambda *values: printed.append(values)}
    exec(compile(code, str(README), "exec"), namespace)  # the README is ours
    ((_, email, _, password),) = printed
    carrier = httpx.ASGITransport(namespace["application"])
    async with httpx.AsyncClient(transport=carrier) as http_client:
        url = "http://127.0.0.1:8000/api"
        client = FreightExchange(url, email=str(email), password=str(password), http_client=http_client)
        async with client as exchange:
            assert len(await exchange.requests.search()) == 1


SERVED = [code for how, code in BLOCKS if how[:2] == ["asyncio", "environment"]]


@pytest.mark.parametrize("code", SERVED)
async def test_a_block_against_a_server(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    await against_a_server(code, monkeypatch)


async def against_a_server(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, printed = await run_against_a_server(code, README, monkeypatch)
    assert printed
    if "OutcomeUnknownError" in code:
        assert printed[0][0] == "the offer stands:"
        assert not exchange.audit_log.duplicate_offers()


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("code", [code for how, code in BLOCKS if how == ["process"]])
async def test_a_block_that_is_a_program(code: str, tmp_path: Path) -> None:
    offers, said = await run_program(code, tmp_path)
    assert offers == 1
    assert "Traceback" not in said


@pytest.mark.parametrize("code", [code for how, code in BLOCKS if how == ["pytest"]])
async def test_a_block_that_is_a_test(code: str) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(code, str(README), "exec"), namespace)  # the README is ours
    tests = [value for name, value in namespace.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        await test()
