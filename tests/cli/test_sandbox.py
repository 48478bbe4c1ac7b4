"""Tests of `sandbox`: its output, access, state file and end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.harness import TIMEOUT, finish, ignore_interrupts, locate_program, restore_signals, start
from tools.pages import ROOT

from freight_exchange import FreightExchange
from freight_exchange.cli.sandbox import announce
from freight_exchange.cli.show import Out
from freight_sandbox import Exchange
from freight_sandbox.board import Board

ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@contextmanager
def running(*arguments: str, preexec: Callable[[], None] = restore_signals) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*locate_program(), "sandbox", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=preexec,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_addresses(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
    result = finish(process, number)
    return result.status, result.out, result.err


def read_state(board: str) -> Any:
    return httpx.get(f"{board}/state?after=0", trust_env=False).raise_for_status().json()


def status_for_host(url: str, name: str) -> int:
    return httpx.get(url, headers={"host": name}, trust_env=False).status_code


def post(board: str, path: str, values: object) -> None:
    page = {"origin": board.removesuffix("/board")}
    httpx.post(f"{board}/{path}", json=values, headers=page, trust_env=False).raise_for_status()


@ASYNCIO
async def test_output_lets_a_client_log_in() -> None:
    with running("--requests", "3") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip() for _ in range(12)]
        url = lines[0].split()[-1]
        port = url.removeprefix("http://127.0.0.1:").removesuffix("/api")
        assert lines == [
            f"The exchange  http://127.0.0.1:{port}/api",
            f"Its board     http://127.0.0.1:{port}/board",
            "",
            "Accounts",
            "  shipper@demo.example    password shipper     publishes requests and approves offers",
            "  forwarder@demo.example  password forwarder   makes offers: your bot",
            "  rival@demo.example      password rival       makes offers too",
            "",
            "To log a program in as the forwarder, paste this line where it will run:",
            f"  export FREIGHT_EXCHANGE_URL=http://127.0.0.1:{port}/api"
            " FREIGHT_EXCHANGE_EMAIL=forwarder@demo.example FREIGHT_EXCHANGE_PASSWORD=forwarder",
            "",
            "Nothing is saved (use --state FILE). Ctrl-C stops it.",
        ]
        page = (ROOT / "docs" / "sandbox.md").read_text(encoding="utf-8")
        assert "\n".join(lines).replace(f":{port}/", ":8765/") in page
        pasted = dict(word.split("=", 1) for word in lines[9].removeprefix("  export ").split())
        async with FreightExchange(
            pasted["FREIGHT_EXCHANGE_URL"],
            email=pasted["FREIGHT_EXCHANGE_EMAIL"],
            password=pasted["FREIGHT_EXCHANGE_PASSWORD"],
        ) as exchange:
            requests = await exchange.requests.search().collect()
            await exchange.bids.submit(requests[0], amount=100, currency="USD")
        assert read_state(f"http://127.0.0.1:{port}/board")["counts"]["waiting"] == 1
        assert stop(process) == (0, "\nStopped.\n", "")


@pytest.mark.parametrize(("seed", "alike"), [((), False), (("--seed", "0"), True)])
def test_tokens_repeat_only_with_a_seed(seed: tuple[str, ...], alike: bool) -> None:
    """A token that a client keeps across a restart must not become the token of another account."""
    tokens = []
    for _ in range(2):
        with running("--json", *seed) as process:
            addresses = read_addresses(process)
            login = httpx.post(f"{addresses['url']}/login", json=addresses["accounts"]["forwarder"], trust_env=False)
            tokens.append(login.raise_for_status().json()["user"]["access_token"])
    assert (tokens[0] == tokens[1]) == alike


@ASYNCIO
async def test_state_file_survives_restart_and_kill(tmp_path: Path) -> None:
    file = tmp_path / "exchange.journal"
    with running("--json", "--state", str(file), "--requests", "2") as process:
        addresses = read_addresses(process)
        forwarder = addresses["accounts"]["forwarder"]
        async with FreightExchange(addresses["url"], **forwarder) as exchange:
            bid = await exchange.bids.submit(1, amount=1234, currency="EUR")
            assert bid.offer is not None
        post(addresses["board"], "set_quirk", {"name": "order", "value": "oldest"})
        before = read_state(addresses["board"])
        assert stop(process, signal.SIGTERM) == (0, "", "")
    # Examples are for a new exchange only.
    with running("--json", "--state", str(file), "--requests", "2") as process:
        addresses = read_addresses(process)
        after = read_state(addresses["board"])
        assert (after["requests"], after["quirks"]) == (before["requests"], before["quirks"])
        assert len(after["requests"]) == 2
        async with FreightExchange(addresses["url"], **forwarder) as exchange:
            assert [bid.amount for bid in await exchange.bids.list().collect()] == [1234]
        with running("--json", "--state", str(file)) as second:
            _, err = second.communicate(timeout=TIMEOUT)
            assert second.returncode == 73
            assert err == f"Error: {file} is in use by another process: stop that one, or give another file.\n"
        os.kill(process.pid, signal.SIGKILL)
    with running("--json", "--state", str(file)) as process:
        assert read_state(read_addresses(process)["board"])["requests"] == before["requests"]


def test_change_that_cannot_be_saved_is_not_answered(tmp_path: Path) -> None:
    """A full disk ends the server, since an exchange that forgets its replies would mislead."""
    file = tmp_path / "exchange.journal"
    script = (
        "import sys, resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
        "from freight_exchange.cli import main\n"
        "sys.argv = ['freight-exchange', 'sandbox', '--port', '0', '--json', '--state', sys.argv[1]]\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        addresses = read_addresses(process)
        cargo = {
            **httpx.get(f"{addresses['board']}/catalogue", trust_env=False).json()["samples"][0],
            "notes": "x" * 9000,
        }
        answer_count = 0
        with contextlib.suppress(httpx.TransportError):
            for answer_count in range(100):  # noqa: B007  # calls answered before the failure
                post(addresses["board"], "requests", cargo)
        _, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 73
        assert err.startswith(f"Error: {file} cannot be used: ")
        assert err.count("\n") == 1
    with running("--json", "--state", str(file)) as again:
        assert len(read_state(read_addresses(again)["board"])["requests"]) == answer_count
        assert 0 < answer_count < 100


def test_background_server_ignores_sigint_and_obeys_sigterm() -> None:
    with running("--json", preexec=ignore_interrupts) as process:
        addresses = read_addresses(process)
        process.send_signal(signal.SIGINT)
        assert read_state(addresses["board"])["requests"] == []
        assert stop(process, signal.SIGTERM) == (0, "", "")


@ASYNCIO
async def test_open_address_is_warned_of() -> None:
    with running("--host", "0.0.0.0", "--name", "exchange.test") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip() for _ in range(12)]
        url = lines[0].split()[-1]
        assert f" FREIGHT_EXCHANGE_URL={url} " in lines[9]
        async with FreightExchange(url, email="forwarder@demo.example", password="forwarder") as exchange:
            await exchange.login()
        root = url.removesuffix("/api")
        for name, status in {"exchange.test": 200, "elsewhere.test": 421}.items():
            assert status_for_host(f"{root}/board", name) == status
        _, _, err = stop(process)
        assert err == (
            "Everyone who reaches this address can use the board: it has no password.\n"
            "From other machines the SDK accepts only https: use a TLS proxy or a tunnel (`ssh -L`).\n"
        )


@pytest.mark.parametrize(
    ("url", "shown", "is_open"),
    [
        ("http://127.0.0.1:1/api", "http://127.0.0.1:1/api", False),
        ("http://localhost:1/api", "http://localhost:1/api", False),
        ("http://0.0.0.0:1/api", "http://127.0.0.1:1/api", True),
        ("http://[::]:1/api", "http://[::1]:1/api", True),
        ("http://192.0.2.1:1/api", "http://192.0.2.1:1/api", True),
    ],
)
def test_shown_url_is_one_of_this_machine(
    capsys: pytest.CaptureFixture[str], url: str, shown: str, is_open: bool
) -> None:
    announce(Board(Exchange()), url, None, Out())
    out, err = capsys.readouterr()
    assert f"The exchange  {shown}\n" in out
    assert f"export FREIGHT_EXCHANGE_URL={shown} " in out
    assert ("From other machines the SDK accepts only https" in err) == is_open


def test_demo_shows_a_trade() -> None:
    result = finish(start("demo"))
    assert (result.status, result.err) == (0, "")
    assert [line.split()[:2] for line in result.out.splitlines()] == [
        ["shipper", "publishes"], ["bot", "sees"], ["shipper", "approves"], ["bot", "is"]
    ]  # fmt: skip
