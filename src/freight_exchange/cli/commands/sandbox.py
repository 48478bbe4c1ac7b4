"""`freight-exchange sandbox`: a whole exchange on this machine, with a board to look at."""

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

from freight_exchange.cli.exit_status import Status
from freight_exchange.cli.options import FILE
from freight_exchange.cli.runner import run
from freight_exchange.cli.warn import aside
from freight_exchange.sandbox import Exchange
from freight_exchange.sandbox.board import PATH, Board, BoardController, samples
from freight_exchange.sandbox.core.state_file import StateError, StateFile
from freight_exchange.sandbox.faces.tcp import serve_tcp

__all__ = ["sandbox"]

_PORT: Final = 8765
_PROXIED: Final = "https://PROXY/api"
_ROLES: Final = {
    "shipper": "publishes requests and approves offers",
    "forwarder": "makes offers: your bot",
    "rival": "makes offers too",
}


def _address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise click.BadParameter(f"{value!r} is no address: 0.0.0.0 is all that this machine has", context, parameter)
    return value


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, callback=_address, help="The address to listen on.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A name under which the server is called, apart from localhost and addresses. May be given again.",
)
@click.option("--state", type=FILE, metavar="FILE", help="A file that keeps it over restarts.")
@click.option("--seed", type=int, help="What random orders and tokens are drawn from: the same ones at each start.")
@click.option("--requests", type=click.IntRange(0, 1000), default=0, help="Publish so many examples to begin with.")
@click.option("--json", "as_json", is_flag=True, help="Say where it is as one line of JSON.")
def sandbox(
    port: int, host: str, names: tuple[str, ...], state: str | None, seed: int | None, requests: int, as_json: bool
) -> None:
    """Serve a freight exchange of your own, with a board to look at, until Ctrl-C.

    On the board you are the shipper: publish requests, watch the offers of your bot arrive, approve one, and switch
    faults on to see how the bot copes. It needs no network and no account, and knows nothing of a real exchange.

    \b
    Example:
      freight-exchange sandbox --state exchange.db
    """
    try:
        with closing(StateFile(Path(state))) if state is not None else nullcontext() as file:
            exchange = Exchange(seed=seed or 0)
            if seed is None:
                # A login that a client keeps over a restart must not become another account's.
                exchange.database.random = Random()
            known = file is not None and file.restore(exchange, seed)
            desk = BoardController(exchange, file=file, names={*names, host})
            if not known:
                _begin(exchange, file, requests)
            _until_stopped(desk, host, port, as_json=as_json, state=state)
    except StateError as error:
        raise _FileFailedError(str(error)) from error


def _begin(exchange: Exchange, file: StateFile | None, requests: int) -> None:
    """Publishes the examples, all or none: whoever interrupts a start finds the next one as if it were the first."""
    for cargo in samples(requests, now := time.time()):
        exchange.act(exchange.shipper, "POST", "quote/submitrequest", cargo, now)
    if requests and file is not None:
        file.save(exchange)


def _until_stopped(desk: BoardController, host: str, port: int, *, as_json: bool, state: str | None) -> None:
    async def serve() -> None:
        async with AsyncExitStack() as stack:
            board = Board(desk)
            try:
                face = await stack.enter_async_context(serve_tcp(desk, host=host, port=port, site=board))
            except OSError as error:
                raise _NotListeningError(_why_not(error, host, port)) from error
            url = _from_here(face.url, address)
            board.url = url if _is_loopback(url) else _PROXIED
            _announce(desk, url, address, as_json=as_json, state=state)
            await anyio.sleep_forever()

    try:
        # Looked up here: the numbers of a look-up that failed mean something else among those of a server.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = str(socket.getaddrinfo(host, port, family)[0][4][0])
    except socket.gaierror as error:
        raise _NotListeningError(f"It cannot listen on {host}: no address is known by this name.") from error
    try:
        run(serve)
    except KeyboardInterrupt:
        # It has no other end: this one is no failure.
        if not as_json:
            click.echo("\nStopped." if state is None else f"\nStopped. The exchange is kept in {state}.")
    except BaseExceptionGroup as group:
        # What a connection's task meets comes wrapped.
        broken: BaseException | None = group.subgroup(StateError)
        while isinstance(broken, BaseExceptionGroup):
            broken = broken.exceptions[0]
        raise broken if broken is not None else group from group


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken: give another one, or --port 0 for any that is free."
    return f"It cannot listen on {host}: {os.strerror(error.errno or 0)}."


def _from_here(url: str, address: str) -> str:
    """The URL of what listens on the address, for programs on this machine: by a loopback address, if it can be."""
    heard = ipaddress.ip_address(address)
    if _is_loopback(url) or not (heard.is_unspecified or heard.is_loopback):
        return url
    if heard.is_unspecified:
        address = "127.0.0.1" if heard.version == 4 else "::1"
    name = f"[{address}]" if ":" in address else address
    return f"http://{name}:{urlsplit(url).port}/api"


def _announce(desk: BoardController, url: str, address: str, *, as_json: bool, state: str | None) -> None:
    exchange = desk.exchange
    board = url.removesuffix("api") + PATH
    is_here, is_open = _is_loopback(url), not ipaddress.ip_address(address).is_loopback
    accounts = {"shipper": exchange.shipper, "forwarder": exchange.forwarder, "rival": exchange.rival}
    if is_open:
        aside("Whoever reaches this address may use the board: it asks for no password.")
        aside("From other machines the SDK takes https alone: have a proxy speak TLS, or make a tunnel (`ssh -L`).")
    if as_json:
        told = {name: {"email": account.email, "password": account.password} for name, account in accounts.items()}
        click.echo(json.dumps({"url": url, "board": board, "accounts": told}))
        return
    where = " (on this machine)" if is_open and is_here else ""
    click.echo(f"The exchange  {url}{where}")
    click.echo(f"Its board     {board}{where}\n")
    click.echo("Accounts")
    for name, account in accounts.items():
        click.echo(f"  {account.email:<23} password {account.password:<11} {_ROLES[name]}")
    forwarder = accounts["forwarder"]
    given = where if is_here else ", with the name of your proxy"
    click.echo(f"\nTo let a program in as the forwarder, paste this line where it will run{given}:")
    click.echo(
        f"  export FREIGHT_EXCHANGE_URL={url if is_here else _PROXIED} FREIGHT_EXCHANGE_EMAIL={forwarder.email}"
        f" FREIGHT_EXCHANGE_PASSWORD={forwarder.password}\n"
    )
    kept = "Nothing is kept: --state FILE would." if state is None else f"Everything is kept in {state}."
    click.echo(f"{kept} Ctrl-C stops it.")


def _is_loopback(url: str) -> bool:
    """Whether the SDK takes this URL for one of its own machine, and so http there."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _FileFailedError(click.ClickException):
    exit_code = Status.STORE


class _NotListeningError(click.ClickException):
    exit_code = Status.USAGE
