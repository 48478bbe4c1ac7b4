"""`freight-exchange sandbox`: what it says, whom it lets in, what it keeps, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.cli.rig import COMMAND, PATIENCE, Shell

from freight_exchange import FreightExchange
from freight_exchange.cli.commands.sandbox import _announce, _begin, _from_here
from freight_exchange.sandbox import Exchange
from freight_exchange.sandbox.board import BoardController
from freight_exchange.sandbox.core.state_file import StateFile

ROOT = Path(__file__).resolve().parents[3]
ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def _heed_interrupts() -> None:
    """A test run in the background ignores them, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _ignore_interrupts() -> None:
    """As a script starts what it runs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def running(*arguments: str, begin: Callable[[], None] = _heed_interrupts) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, "sandbox", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=begin,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def ended(process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[int, str, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def state(board: str) -> Any:
    return httpx.get(f"{board}/state?after=0", trust_env=False).raise_for_status().json()


def answered(url: str, name: str) -> int:
    """The status, for whoever calls the server by this name."""
    return httpx.get(url, headers={"host": name}, trust_env=False).status_code


def ask(board: str, what: str, values: object) -> None:
    page = {"origin": board.removesuffix("/board")}
    httpx.post(f"{board}/{what}", json=values, headers=page, trust_env=False).raise_for_status()


@ASYNCIO
async def test_what_it_says_lets_a_client_in() -> None:
    with running("--requests", "3") as process:
        assert process.stdout is not None
        said = [process.stdout.readline().rstrip() for _ in range(12)]
        url = said[0].split()[-1]
        port = url.removeprefix("http://127.0.0.1:").removesuffix("/api")
        assert said == [
            f"The exchange  http://127.0.0.1:{port}/api",
            f"Its board     http://127.0.0.1:{port}/board",
            "",
            "Accounts",
            "  shipper@demo.example    password shipper     publishes requests and approves offers",
            "  forwarder@demo.example  password forwarder   makes offers: your bot",
            "  rival@demo.example      password rival       makes offers too",
            "",
            "To let a program in as the forwarder, paste this line where it will run:",
            f"  export FREIGHT_EXCHANGE_URL=http://127.0.0.1:{port}/api"
            " FREIGHT_EXCHANGE_EMAIL=forwarder@demo.example FREIGHT_EXCHANGE_PASSWORD=forwarder",
            "",
            "Nothing is kept: --state FILE would. Ctrl-C stops it.",
        ]
        page = (ROOT / "docs" / "sandbox.md").read_text(encoding="utf-8")
        assert "\n".join(said).replace(f":{port}/", ":8765/") in page
        pasted = dict(word.split("=", 1) for word in said[9].removeprefix("  export ").split())
        async with FreightExchange(
            pasted["FREIGHT_EXCHANGE_URL"],
            email=pasted["FREIGHT_EXCHANGE_EMAIL"],
            password=pasted["FREIGHT_EXCHANGE_PASSWORD"],
        ) as exchange:
            requests = await exchange.requests.search().collect()
            await exchange.bids.submit(requests[0], amount=100, currency="USD")
        assert state(f"http://127.0.0.1:{port}/board")["counts"]["waiting"] == 1
        assert ended(process) == (0, "\nStopped.\n", "")


@pytest.mark.parametrize(("seed", "alike"), [((), False), (("--seed", "0"), True)])
def test_tokens_come_again_with_a_seed_alone(seed: tuple[str, ...], alike: bool) -> None:
    """A login that a client keeps over a restart must not become another account's."""
    tokens = []
    for _ in range(2):
        with running("--json", *seed) as process:
            where = told(process)
            login = httpx.post(f"{where['url']}/login", json=where["accounts"]["forwarder"], trust_env=False)
            tokens.append(login.raise_for_status().json()["user"]["access_token"])
    assert (tokens[0] == tokens[1]) == alike


@ASYNCIO
async def test_a_file_keeps_it_over_restarts(tmp_path: Path) -> None:
    file = tmp_path / "exchange.db"
    with running("--json", "--state", str(file), "--requests", "2") as process:
        where = told(process)
        forwarder = where["accounts"]["forwarder"]
        async with FreightExchange(where["url"], **forwarder) as exchange:
            bid = await exchange.bids.submit(1, amount=1234, currency="EUR")
            assert bid.offer is not None
        ask(where["board"], "set_quirk", {"name": "order", "value": "oldest"})
        before = state(where["board"])
        assert ended(process, signal.SIGTERM) == (0, "", "")
    # The examples are for an exchange that is new.
    with running("--json", "--state", str(file), "--requests", "2") as process:
        where = told(process)
        after = state(where["board"])
        assert (after["requests"], after["quirks"]) == (before["requests"], before["quirks"])
        assert len(after["requests"]) == 2
        async with FreightExchange(where["url"], **forwarder) as exchange:
            assert [bid.amount for bid in await exchange.bids.list().collect()] == [1234]
        with running("--json", "--state", str(file)) as second:
            _, err = second.communicate(timeout=PATIENCE)
            assert second.returncode == 73
            assert err == f"Error: {file} is in use by another process: stop that one, or give another file.\n"
        os.kill(process.pid, signal.SIGKILL)
    with running("--json", "--state", str(file)) as process:
        assert state(told(process)["board"])["requests"] == before["requests"]


def test_examples_are_kept_all_or_none(tmp_path: Path) -> None:
    """One by one a thousand take a quarter of a minute, in which somebody presses Ctrl-C."""
    written: list[str] = []
    with closing(StateFile(tmp_path / "exchange.db")) as file:
        exchange = Exchange()
        file.restore(exchange, None)
        file._connection.set_trace_callback(written.append)
        _begin(exchange, file, 50)
    assert len(exchange.database.requests) == 50
    assert written.count("COMMIT") == 1
    with closing(StateFile(tmp_path / "exchange.db")) as file:
        assert file.restore(again := Exchange(), None) is True
    assert again.database.requests.indexes() == exchange.database.requests.indexes()


def test_what_cannot_be_kept_was_not_answered(tmp_path: Path) -> None:
    """A full disk ends it: an exchange that forgets what it has said would be worse than none."""
    file = tmp_path / "exchange.db"
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
        where = told(process)
        cargo = {**httpx.get(f"{where['board']}/catalogue", trust_env=False).json()["samples"][0], "notes": "x" * 9000}
        answered = 0
        with contextlib.suppress(httpx.TransportError):
            for answered in range(100):  # noqa: B007  # how many were answered before the one that was not
                ask(where["board"], "requests", cargo)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 73
        assert err.startswith(f"Error: {file} cannot be used: ")
        assert err.count("\n") == 1
    with running("--json", "--state", str(file)) as again:
        assert len(state(told(again)["board"])["requests"]) == answered
        assert 0 < answered < 100


def test_a_port_that_is_taken(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = shell("sandbox", "--port", str(port))
    assert done.status == 2
    assert done.out == ""
    assert (
        done.err == f"Error: Port {port} of 127.0.0.1 is taken: give another one, or --port 0 for any that is free.\n"
    )


def test_an_address_that_is_not_ours(shell: Shell) -> None:
    done = shell("sandbox", "--port", "0", "--host", "192.0.2.1")
    assert done.status == 2
    assert done.err == "Error: It cannot listen on 192.0.2.1: Cannot assign requested address.\n"


def test_a_name_for_an_address(shell: Shell) -> None:
    done = shell("sandbox", "--port", "0", "--host", "no-such-host.invalid")
    assert done.status == 2
    assert done.err == "Error: It cannot listen on no-such-host.invalid: no address is known by this name.\n"


@pytest.mark.parametrize("host", ["", " ", "\udcff"])
def test_what_is_no_address(shell: Shell, host: str) -> None:
    done = shell("sandbox", "--port", "0", "--host", host)
    assert done.status == 2
    assert "is no address: 0.0.0.0 is all that this machine has" in done.err


def test_a_script_that_ran_it_in_the_background_can_end_it() -> None:
    with running("--json", begin=_ignore_interrupts) as process:
        where = told(process)
        process.send_signal(signal.SIGINT)
        assert state(where["board"])["requests"] == []
        assert ended(process, signal.SIGTERM) == (0, "", "")


def test_files_of_others(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Dear diary, " * 100)
    with closing(sqlite3.connect(tmp_path / "books.db")) as other, other:
        other.execute("CREATE TABLE invoice (number INTEGER)")
    for name, sentence in {
        "notes.txt": "notes.txt is not a file of the sandbox: give another file.",
        "books.db": "books.db is another program's database: give another file.",
        "missing/x.db": "missing/x.db cannot be used: unable to open database file.",
    }.items():
        done = shell("sandbox", "--port", "0", "--state", name)
        assert (done.status, done.out, done.err) == (73, "", f"Error: {sentence}\n")


@ASYNCIO
async def test_everybody_is_told_when_it_is_open_to_everybody() -> None:
    with running("--host", "0.0.0.0", "--name", "exchange.test") as process:
        assert process.stdout is not None
        said = [process.stdout.readline().rstrip() for _ in range(12)]
        _, _, url, *where = said[0].split()
        assert " ".join(where) == "(on this machine)"
        assert said[8] == "To let a program in as the forwarder, paste this line where it will run (on this machine):"
        assert f" FREIGHT_EXCHANGE_URL={url} " in said[9]
        # What it says is what the SDK takes.
        async with FreightExchange(url, email="forwarder@demo.example", password="forwarder") as exchange:
            await exchange.login()
        root = url.removesuffix("/api")
        for name, status in {"exchange.test": 200, "elsewhere.test": 421}.items():
            assert answered(f"{root}/board", name) == status
        _, _, err = ended(process)
        assert err == (
            "Whoever reaches this address may use the board: it asks for no password.\n"
            "From other machines the SDK takes https alone: have a proxy speak TLS, or make a tunnel (`ssh -L`).\n"
        )


@pytest.mark.parametrize(
    ("url", "address", "here"),
    [
        ("http://127.0.0.1:1/api", "127.0.0.1", "http://127.0.0.1:1/api"),
        ("http://localhost:1/api", "127.0.0.1", "http://localhost:1/api"),
        ("http://0.0.0.0:1/api", "0.0.0.0", "http://127.0.0.1:1/api"),
        ("http://[::]:1/api", "::", "http://[::1]:1/api"),
        ("http://box:1/api", "127.0.1.1", "http://127.0.1.1:1/api"),
        ("http://box:1/api", "192.0.2.1", "http://box:1/api"),
    ],
)
def test_the_url_for_programs_on_this_machine_is_one_that_the_sdk_takes(url: str, address: str, here: str) -> None:
    assert _from_here(url, address) == here


def test_at_an_address_of_the_network_alone_a_program_needs_the_proxy(capsys: pytest.CaptureFixture[str]) -> None:
    _announce(BoardController(Exchange()), "http://192.0.2.1:1/api", "192.0.2.1", as_json=False, state=None)
    out, err = capsys.readouterr()
    assert "The exchange  http://192.0.2.1:1/api\n" in out
    assert "paste this line where it will run, with the name of your proxy:\n" in out
    assert "export FREIGHT_EXCHANGE_URL=https://PROXY/api " in out
    assert "From other machines the SDK takes https alone" in err


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_on_this_machine_only(host: str) -> None:
    with running("--json", "--host", host) as process:
        where = told(process)
        assert where["url"].startswith(f"http://{host}:")
        ask(where["board"], "reset_quirks", {})
        assert ended(process) == (0, "", "")


def test_help(shell: Shell) -> None:
    done = shell("sandbox", "--help")
    assert done.status == 0
    assert "freight-exchange sandbox --state exchange.db" in done.out
    for option in ("--port", "--host", "--name", "--state", "--seed", "--requests", "--json"):
        assert option in done.out
