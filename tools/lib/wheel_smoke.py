"""Check the installed wheel in a fresh environment; the arguments name its extras."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.resources
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

import freight_exchange
from freight_exchange.wire import parse
from freight_sandbox.memory import transport
from freight_sandbox.server import serve
from freight_sandbox.service import Exchange

if TYPE_CHECKING:
    from types import ModuleType


async def log_in_and_list(library: ModuleType) -> int:
    """Log in to the sandbox in process, and list once."""
    async with (
        library.AsyncClient(transport=transport(Exchange(), library=library)) as http_client,
        freight_exchange.FreightExchange(
            "https://sandbox.example/api",
            email="forwarder@demo.example",
            password="forwarder",
            http_client=http_client,
        ) as exchange,
    ):
        await exchange.login()
        return len(await exchange.currencies.list())


def decoded_by() -> str:
    """Return the library that decodes a long reply."""
    parse(b'["%s",1.50]' % (b"-" * 10_000))
    return "msgspec" if "msgspec" in sys.modules else "json"


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return the output of the installed program `freight-exchange`, without a terminal."""
    return subprocess.run(
        [Path(sys.executable).parent / "freight-exchange", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def try_every_help() -> int:
    """Check the help of each command, and return the number of commands.

    The commands run in this process, since separate processes would take longer than all other checks.
    """
    from click import Context, Group
    from click.testing import CliRunner

    from freight_exchange.cli.program import program as whole

    waiting: list[tuple[tuple[str, ...], Group]] = [((), whole)]
    tried = 0
    for path, group in waiting:
        for name in group.list_commands(Context(group)):
            command = group.get_command(Context(group), name)
            done = CliRunner().invoke(whole, [*path, name, "--help"], prog_name="freight-exchange")
            if done.exit_code or not done.output.startswith("Usage: freight-exchange"):
                sys.exit(f"freight-exchange {' '.join(path)} {name} --help: {done.output}{done.exception}")
            if isinstance(command, Group):
                waiting.append(((*path, name), command))
            tried += 1
    return tried


async def list_and_offer() -> None:
    """Check that the program lists a request and offers on it, against a sandbox over HTTP."""
    exchange = Exchange()
    exchange.publish(exchange.shipper, 0.0)
    async with serve(exchange, clock=lambda: 0.0) as face:
        account = {
            "FREIGHT_EXCHANGE_URL": face.url,
            "FREIGHT_EXCHANGE_EMAIL": exchange.forwarder.email,
            "FREIGHT_EXCHANGE_PASSWORD": exchange.forwarder.password,
        }
        for arguments in (
            ("requests", "list", "--json"),
            ("bids", "submit", "1", "--amount", "12", "--currency", "USD", "--yes", "--json"),
        ):
            done = await anyio.to_thread.run_sync(partial(program, *arguments, **account))
            if done.returncode or done.stderr or json.loads(done.stdout)["index"] != 1:
                sys.exit(f"freight-exchange {' '.join(arguments)}: {done.stdout}{done.stderr}")
        done = await anyio.to_thread.run_sync(partial(program, "--url", f"{face.url}/v2/api", "currencies", **account))
        if done.returncode != 76 or "there is no exchange at this URL" not in done.stderr:
            sys.exit(f"a wrong URL: {done.returncode} {done.stdout}{done.stderr}")


def try_the_program() -> str:
    """Check the command line as it is installed."""
    done = program("--help")
    if done.returncode or done.stderr or not done.stdout.startswith("Usage: freight-exchange"):
        sys.exit(f"freight-exchange --help: {done.stdout}{done.stderr}")
    commands = try_every_help()
    anyio.run(list_and_offer)
    return f", {commands} commands"


def main(extras: list[str]) -> None:
    version = importlib.metadata.version("freight-exchange")
    if not importlib.resources.files(freight_exchange).joinpath("py.typed").is_file():
        sys.exit("py.typed is missing from the wheel: the types would be invisible to users")
    if not importlib.resources.files("freight_sandbox").joinpath("page", "board.html").is_file():
        sys.exit("the board's page is missing from the wheel")
    for name in freight_exchange.__all__:
        getattr(freight_exchange, name)
    for library in ["httpx", *(extra for extra in extras if extra == "httpx2")]:
        if anyio.run(log_in_and_list, importlib.import_module(library)) == 0:
            sys.exit(f"the sandbox listed no currency over {library}")
    if "speedups" in extras and decoded_by() != "msgspec":
        sys.exit("with its extra, msgspec does not decode long replies")
    tried = ""
    if "cli" in extras:
        tried = try_the_program()
    elif (done := program("--help")).returncode != 2 or "pip install" not in done.stderr:
        sys.exit(f"without its extra the program does not say what to install: {done.stdout}{done.stderr}")
    print(f"freight-exchange {version}{tried} on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(sys.argv[1:])
