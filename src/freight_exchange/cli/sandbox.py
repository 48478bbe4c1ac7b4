"""Commands `sandbox`, an exchange on this machine with a web board, and `demo`, a trade on one in this process."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import socket
import time
from contextlib import AsyncExitStack, closing, nullcontext
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
import click

import freight_exchange
from freight_exchange.cli import options as opt
from freight_exchange.cli.run import Failure, Interrupted, Status, run, warn
from freight_exchange.cli.show import text_of
from freight_sandbox import Cargo, Exchange
from freight_sandbox.board import PATH, Board
from freight_sandbox.journal import JournaledExchange, JournalError
from freight_sandbox.samples import samples
from freight_sandbox.server import serve

if TYPE_CHECKING:
    from freight_exchange import Bid, Context, RateRequest

__all__ = ["announce", "demo", "local_url", "sandbox"]

_PROXY_URL: Final = "https://PROXY/api"
_ROLES: Final = {
    "shipper": "publishes requests and approves offers",
    "forwarder": "makes offers: your bot",
    "rival": "makes offers too",
}
_RATE: Final = Decimal("62.40")
_DEMO_TIMEOUT: Final = 30.0


def _check_address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable():
        message = f"{value!r} is not an address: to listen on all addresses, use 0.0.0.0"
        raise click.BadParameter(message, context, parameter)
    return value


@click.command(cls=opt.Command)
@click.option(
    "--port", default=8765, show_default=True, help="Port; 0 takes a free one.", type=click.IntRange(0, 65535)
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.", callback=_check_address)
@click.option("--name", "names", multiple=True, metavar="NAME", help="Further name of this host. May be repeated.")
@click.option("--state", type=opt.file_path, metavar="FILE", help="File that keeps the exchange across restarts.")
@click.option("--seed", type=int, help="Seed for random orders and tokens; equal seeds give equal ones.")
@click.option(
    "--requests",
    default=0,
    show_default=True,
    help="Number of example requests in a new exchange.",
    type=click.IntRange(0, 1000),
)
@click.option("--json", "as_json", is_flag=True, help="Print the addresses and accounts as one line of JSON.")
def sandbox(
    port: int, host: str, names: tuple[str, ...], state: str | None, seed: int | None, requests: int, as_json: bool
) -> None:
    """Serve a sandbox exchange with a web board, until Ctrl-C.

    On the board you are the shipper: publish requests, watch the offers of your bot arrive, approve one, and switch on
    faults to test the bot. The sandbox needs no network and no account, and never contacts a real exchange.

    $ sandbox --state exchange.journal
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
            _serve(Board(exchange, names={*names, host}), host, port, as_json=as_json, state=state)
    except JournalError as error:
        raise Failure(str(error), Status.STORE) from error


def _serve(board: Board, host: str, port: int, *, as_json: bool, state: str | None) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            try:
                server = await stack.enter_async_context(serve(board, host=host, port=port, site=board))
            except OSError as error:
                reason = f"cannot listen on {host}: {os.strerror(error.errno or 0)}"
                if error.errno == errno.EADDRINUSE:
                    reason = f"port {port} of {host} is taken: choose another, or --port 0 for a free one"
                raise Failure(reason, Status.USAGE) from error
            url = local_url(server.url, address)
            board.url = url if _is_loopback(url) else _PROXY_URL
            announce(board.exchange, url, address, as_json=as_json, state=state)
            await anyio.sleep_forever()

    try:
        # Resolved before serving: the error numbers of a failed lookup overlap with those of a server.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = str(socket.getaddrinfo(host, port, family)[0][4][0])
    except socket.gaierror as error:
        raise Failure(f"cannot listen on {host}: no address is known by this name", Status.USAGE) from error
    try:
        run(main)
    except Interrupted:
        # Ctrl-C is the regular end of the server.
        if not as_json:
            click.echo("\nStopped." if state is None else f"\nStopped. The exchange is saved in {state}.")
    except BaseExceptionGroup as group:
        # The tasks of connections wrap their errors.
        cause: BaseException | None = group.subgroup(JournalError)
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        raise cause if cause is not None else group from group


def local_url(url: str, address: str) -> str:
    """Return the URL for programs on this machine, with a loopback address if possible."""
    listening = ipaddress.ip_address(address)
    if _is_loopback(url) or not (listening.is_unspecified or listening.is_loopback):
        return url
    if listening.is_unspecified:
        address = "127.0.0.1" if listening.version == 4 else "::1"
    return f"http://{f'[{address}]' if ':' in address else address}:{urlsplit(url).port}/api"


def announce(exchange: Exchange, url: str, address: str, *, as_json: bool, state: str | None) -> None:
    """Print the addresses and accounts of a served exchange."""
    board = url.removesuffix("api") + PATH
    is_here, is_open = _is_loopback(url), not ipaddress.ip_address(address).is_loopback
    accounts = {name: getattr(exchange, name) for name in _ROLES}
    if is_open:
        warn("Everyone who reaches this address can use the board: it has no password.")
        warn("From other machines the SDK accepts only https: use a TLS proxy or a tunnel (`ssh -L`).")
    if as_json:
        logins = {name: {"email": account.email, "password": account.password} for name, account in accounts.items()}
        click.echo(json.dumps({"url": url, "board": board, "accounts": logins}))
        return
    suffix = " (on this machine)" if is_open and is_here else ""
    place = suffix if is_here else ", with the name of your proxy"
    click.echo(f"The exchange  {url}{suffix}\nIts board     {board}{suffix}\n\nAccounts")
    for name, account in accounts.items():
        click.echo(f"  {account.email:<23} password {account.password:<11} {_ROLES[name]}")
    click.echo(
        f"\nTo log a program in as the forwarder, paste this line where it will run{place}:\n  export"
        f" FREIGHT_EXCHANGE_URL={url if is_here else _PROXY_URL} FREIGHT_EXCHANGE_EMAIL={exchange.forwarder.email}"
        f" FREIGHT_EXCHANGE_PASSWORD={exchange.forwarder.password}\n"
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


# Demo


@click.command(cls=opt.Command)
def demo() -> None:
    """Show the exchange at work: a sandbox in this process, a shipper, and a forwarder's bot that makes an offer.

    The demo uses real HTTP on a local port and leaves no files.

    $ demo
    """
    run(_demo)


async def _demo() -> None:
    exchange = Exchange()
    won = anyio.Event()
    errors: list[OSError] = []

    def show(role: str, text: str) -> None:
        # The bot would retry a handler that raises, although the output is closed for good.
        try:
            click.echo(f"{role:>9} | {text_of(text)}")
        except OSError as error:
            errors.append(error)
            won.set()

    async with serve(exchange) as server:
        show("exchange", f"a sandbox listens at {server.url}")
        shipper, forwarder = (
            freight_exchange.FreightExchange(server.url, email=account.email, password=account.password)
            for account in (exchange.shipper, exchange.forwarder)
        )
        second = timedelta(seconds=1)
        bot = freight_exchange.Bot(forwarder, store=None, interval=second, selection_interval=second, allowance=second)

        @bot.on_new
        async def quote(request: RateRequest, ctx: Context) -> None:
            assert request.volume is not None
            show("bot", f"receives {request.ref_id}: {request.volume:f} m3 of {request.commodity}")
            bid = await ctx.offer(amount=round(_RATE * request.volume, 2), currency="USD", terms="valid 14 days")
            show("bot", f"offers USD {bid.amount}")

        @bot.on_selected
        async def selected(bid: Bid, ctx: Context) -> None:
            assert bid.contact is not None
            show("bot", f"receives the selection of its offer: call {bid.contact.name} <{bid.contact.email}>")
            won.set()

        with anyio.fail_after(_DEMO_TIMEOUT):
            async with shipper, forwarder, bot:
                user = await shipper.login()
                show("shipper", f"logged in as {user.first_name} {user.last_name}")
                tiles = Cargo(commodityname="Ceramic tiles", destination="Long Beach", quantity=20, packaging="pallet")
                index = exchange.publish(exchange.shipper, time.time(), tiles)
                show("shipper", f"publishes request {index}: 20 pallets of ceramic tiles, Hong Kong to Long Beach")
                # The service has no notifications.
                while not (offers := (await shipper.offers.get(index)).offers):  # noqa: ASYNC110
                    await anyio.sleep(0.1)
                show("shipper", f"reads offer {offers[0].id} of {offers[0].amount}, {offers[0].terms}, and approves it")
                approved = await shipper.offers.approve(offers[0])
                assert approved.contact is not None
                show("shipper", f"sees who made it: {approved.contact.name} <{approved.contact.email}>")
                await won.wait()
    show("exchange", f"has 1 request and {len(exchange.audit_log.offers)} offer")
    click.echo('\nNow try it yourself: "freight-exchange sandbox" serves such an exchange to you and your programs.')
    if errors:
        raise errors[0]
