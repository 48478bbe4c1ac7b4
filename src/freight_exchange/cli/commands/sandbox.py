"""Command `sandbox`: a sandbox exchange on this machine, with a web board."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import socket
import time
from contextlib import AsyncExitStack, closing, nullcontext
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

import anyio
import click

from freight_exchange.cli.client.runner import run
from freight_exchange.cli.exit_status import Status
from freight_exchange.cli.options import FILE
from freight_exchange.cli.terminal import warn
from freight_sandbox import Exchange
from freight_sandbox.board import PATH, Board, BoardController
from freight_sandbox.journal import JournaledExchange, JournalError
from freight_sandbox.samples import samples
from freight_sandbox.server import serve

__all__ = ["sandbox"]

_DEFAULT_PORT: Final = 8765
_PROXY_URL: Final = "https://PROXY/api"
_ROLES: Final = {
    "shipper": "publishes requests and approves offers",
    "forwarder": "makes offers: your bot",
    "rival": "makes offers too",
}


def _check_address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise click.BadParameter(
            f"{value!r} is not an address: to listen on all addresses, use 0.0.0.0", context, parameter
        )
    return value


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_DEFAULT_PORT,
    show_default=True,
    help="The port; 0 takes a free one.",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, callback=_check_address, help="The address to listen on."
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Host name that clients use, besides localhost and addresses; may be repeated.",
)
@click.option("--state", type=FILE, metavar="FILE", help="File that keeps the exchange across restarts.")
@click.option("--seed", type=int, help="Seed for random orders and tokens; equal seeds give equal ones.")
@click.option(
    "--requests", type=click.IntRange(0, 1000), default=0, help="Number of example requests in a new exchange."
)
@click.option("--json", "as_json", is_flag=True, help="Print the addresses and accounts as one line of JSON.")
def sandbox(
    port: int, host: str, names: tuple[str, ...], state: str | None, seed: int | None, requests: int, as_json: bool
) -> None:
    """Serve a sandbox exchange with a web board, until Ctrl-C.

    On the board you are the shipper: publish requests, watch the offers of your bot arrive, approve one, and switch on
    faults to test the bot. The sandbox needs no network and no account, and never contacts a real exchange.

    \b
    Example:
      freight-exchange sandbox --state exchange.journal
    """
    try:
        with (
            nullcontext(Exchange(seed=seed or 0))
            if state is None
            else closing(JournaledExchange(Path(state), seed=seed)) as exchange
        ):
            if state is None and seed is None:
                # A client may keep a token across a restart: the token must not become that of another account.
                exchange.random = Random()
            is_new = not isinstance(exchange, JournaledExchange) or exchange.is_new
            for cargo in samples(requests if is_new else 0, now := time.time()):
                exchange.act(exchange.shipper, "POST", "quote/submitrequest", cargo, now)
            _serve(BoardController(exchange, names={*names, host}), host, port, as_json=as_json, state=state)
    except JournalError as error:
        raise _FileFailedError(str(error)) from error


def _serve(controller: BoardController, host: str, port: int, *, as_json: bool, state: str | None) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            board = Board(controller)
            try:
                server = await stack.enter_async_context(serve(controller, host=host, port=port, site=board))
            except OSError as error:
                raise _NotListeningError(_explain(error, host, port)) from error
            url = _local_url(server.url, address)
            board.url = url if _is_loopback(url) else _PROXY_URL
            _announce(controller, url, address, as_json=as_json, state=state)
            await anyio.sleep_forever()

    try:
        # Resolved before serving: the error numbers of a failed lookup overlap with those of a server.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = str(socket.getaddrinfo(host, port, family)[0][4][0])
    except socket.gaierror as error:
        raise _NotListeningError(f"cannot listen on {host}: no address is known by this name") from error
    try:
        run(main)
    except KeyboardInterrupt:
        # Ctrl-C is the regular end of the server.
        if not as_json:
            click.echo("\nStopped." if state is None else f"\nStopped. The exchange is saved in {state}.")
    except BaseExceptionGroup as group:
        # The tasks of connections wrap their errors.
        cause: BaseException | None = group.subgroup(JournalError)
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        raise cause if cause is not None else group from group


def _explain(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken: choose another, or --port 0 for a free one"
    return f"cannot listen on {host}: {os.strerror(error.errno or 0)}"


def _local_url(url: str, address: str) -> str:
    """Return the URL for programs on this machine, with a loopback address if possible."""
    listening = ipaddress.ip_address(address)
    if _is_loopback(url) or not (listening.is_unspecified or listening.is_loopback):
        return url
    if listening.is_unspecified:
        address = "127.0.0.1" if listening.version == 4 else "::1"
    name = f"[{address}]" if ":" in address else address
    return f"http://{name}:{urlsplit(url).port}/api"


def _announce(controller: BoardController, url: str, address: str, *, as_json: bool, state: str | None) -> None:
    exchange = controller.exchange
    board = url.removesuffix("api") + PATH
    is_here, is_open = _is_loopback(url), not ipaddress.ip_address(address).is_loopback
    accounts = {"shipper": exchange.shipper, "forwarder": exchange.forwarder, "rival": exchange.rival}
    if is_open:
        warn("Everyone who reaches this address can use the board: it has no password.")
        warn("From other machines the SDK accepts only https: use a TLS proxy or a tunnel (`ssh -L`).")
    if as_json:
        logins = {name: {"email": account.email, "password": account.password} for name, account in accounts.items()}
        click.echo(json.dumps({"url": url, "board": board, "accounts": logins}))
        return
    suffix = " (on this machine)" if is_open and is_here else ""
    click.echo(f"The exchange  {url}{suffix}")
    click.echo(f"Its board     {board}{suffix}\n")
    click.echo("Accounts")
    for name, account in accounts.items():
        click.echo(f"  {account.email:<23} password {account.password:<11} {_ROLES[name]}")
    forwarder = accounts["forwarder"]
    place = suffix if is_here else ", with the name of your proxy"
    click.echo(f"\nTo log a program in as the forwarder, paste this line where it will run{place}:")
    click.echo(
        f"  export FREIGHT_EXCHANGE_URL={url if is_here else _PROXY_URL} FREIGHT_EXCHANGE_EMAIL={forwarder.email}"
        f" FREIGHT_EXCHANGE_PASSWORD={forwarder.password}\n"
    )
    storage = "Nothing is saved (use --state FILE)." if state is None else f"The exchange is saved in {state}."
    click.echo(f"{storage} Ctrl-C stops it.")


def _is_loopback(url: str) -> bool:
    """Return whether the SDK accepts plain HTTP at this URL, as it does on the local machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _FileFailedError(click.ClickException):
    exit_code = Status.STORE


class _NotListeningError(click.ClickException):
    exit_code = Status.USAGE
