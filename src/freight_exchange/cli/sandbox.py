"""Commands `sandbox`, an exchange on this machine with a web board, and `demo`, a trade on one."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, closing, nullcontext
from datetime import timedelta
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from freight_exchange.cli.client import Command
from freight_exchange.cli.run import Failure, Status, run, warn
from freight_exchange.cli.show import Out

if TYPE_CHECKING:
    from freight_exchange import Bid, Context, RateRequest
    from freight_sandbox.board import Board

_PORTS: Final = click.IntRange(0, 65535)
_EXAMPLES: Final = click.IntRange(0, 1000)
_ROLES: Final = {
    "shipper": "publishes requests and approves offers",
    "forwarder": "makes offers: your bot",
    "rival": "makes offers too",
}


@click.command(cls=Command)
@click.option("--port", default=8765, show_default=True, help="Port; 0 takes a free one.", type=_PORTS)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--name", "names", multiple=True, metavar="NAME", help="Further name of this host. May be repeated.")
@click.option("--state", metavar="FILE", help="File that keeps the exchange across restarts.")
@click.option("--seed", type=int, help="Seed for random orders and tokens; equal seeds give equal ones.")
@click.option("--requests", default=0, show_default=True, help="Example requests in a new exchange.", type=_EXAMPLES)
def sandbox(
    port: int, host: str, names: tuple[str, ...], state: str | None, seed: int | None, requests: int, out: Out
) -> None:
    """Serve a sandbox exchange with a web board.

    Ctrl-C ends it. On the board you are the shipper: publish requests, watch the offers of your bot arrive, approve
    one, and switch on faults to test the bot. The sandbox needs no network and no account, and never contacts a real
    exchange.

    $ sandbox --state exchange.journal
    """
    from freight_sandbox import Exchange
    from freight_sandbox.board import Board
    from freight_sandbox.journal import JournaledExchange, JournalError
    from freight_sandbox.samples import samples

    try:
        # A client may keep a token across a restart: without a seed, it must not become that of another account.
        drawn = randbits(64) if seed is None else seed
        exchange = Exchange(seed=drawn) if state is None else JournaledExchange(Path(state), seed=seed)
        with closing(exchange) if isinstance(exchange, JournaledExchange) else nullcontext():
            for cargo in samples(requests if getattr(exchange, "is_new", True) else 0, now := time.time()):
                exchange.act(exchange.shipper, "POST", "quote/submitrequest", cargo, now)
            _serve(Board(exchange, names={*names, host}), host, port, state, out)
    except JournalError as error:
        raise Failure(str(error), Status.STORE) from None


def _serve(board: Board, host: str, port: int, state: str | None, out: Out) -> None:
    import anyio

    from freight_sandbox.server import serve

    async def main() -> None:
        async with AsyncExitStack() as stack:
            try:
                server = await stack.enter_async_context(serve(board, host=host, port=port, site=board))
            except OSError as error:
                reason = f"cannot listen on {host}: {error.strerror}; give another --host or --port"
                raise Failure(reason, Status.USAGE) from None
            board.url = announce(board, server.url, state, out)
            await anyio.sleep_forever()

    try:
        run(main)
    except KeyboardInterrupt:
        # Ctrl-C is the regular end of the server.
        if not out.format:
            click.echo("\nStopped." if state is None else f"\nStopped. The exchange is saved in {state}.")


def announce(board: Board, url: str, state: str | None, out: Out) -> str:
    """Print the addresses and accounts of a served exchange, and return its URL on this machine."""
    from freight_sandbox.board import PATH

    address = urlsplit(url).hostname or ""
    if not (address in ("localhost", "::1") or address.startswith("127.")):
        warn("Everyone who reaches this address can use the board: it has no password.")
        warn("From other machines the SDK accepts only https: use a TLS proxy or a tunnel (`ssh -L`).")
    url = url.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")
    site = url.removesuffix("api") + PATH
    accounts = {name: getattr(board.exchange, name) for name in _ROLES}
    if out.format:
        logins = {name: {"email": account.email, "password": account.password} for name, account in accounts.items()}
        out.json({"url": url, "board": site, "accounts": logins})
        return url
    click.echo(f"The exchange  {url}\nIts board     {site}\n\nAccounts")
    for name, account in accounts.items():
        click.echo(f"  {account.email:<23} password {account.password:<11} {_ROLES[name]}")
    variables = {"URL": url, "EMAIL": accounts["forwarder"].email, "PASSWORD": accounts["forwarder"].password}
    settings = " ".join(f"FREIGHT_EXCHANGE_{name}={value}" for name, value in variables.items())
    click.echo(f"\nTo log a program in as the forwarder, paste this line where it will run:\n  export {settings}\n")
    storage = "Nothing is saved (use --state FILE)." if state is None else f"The exchange is saved in {state}."
    click.echo(f"{storage} Ctrl-C stops it.")
    return url


@click.command(cls=Command, prints_json=False)
def demo() -> None:
    """Show a trade: a request, an offer, and its approval.

    It takes three seconds, over HTTP on a free port of this machine, and leaves no file.

    $ demo
    """
    import anyio

    from freight_exchange import Bot, FreightExchange
    from freight_sandbox import Exchange
    from freight_sandbox.server import serve

    async def trade() -> None:
        exchange, second = Exchange(), timedelta(seconds=1)
        # Handlers print nothing: one that fails because the output is closed would be called again.
        tell, told = anyio.create_memory_object_stream[str](2)
        async with serve(exchange) as server, tell, told:
            accounts = [(one.email, one.password) for one in (exchange.shipper, exchange.forwarder)]
            shipper, forwarder = [FreightExchange(server.url, email=one, password=word) for one, word in accounts]
            bot = Bot(forwarder, store=None, interval=second, selection_interval=second, allowance=second)

            @bot.on_new
            async def quote(request: RateRequest, ctx: Context) -> None:
                bid = await ctx.offer(amount="1840.50", currency="USD")
                await tell.send(f"sees {request.ref_id}, {request.commodity}, and offers {bid.amount} USD")

            @bot.on_selected
            async def selected(bid: Bid, ctx: Context) -> None:
                await tell.send(f"is selected by {bid.contact and bid.contact.name}")

            async with shipper, forwarder, bot:
                index = exchange.publish(exchange.shipper, time.time())
                click.echo(f"shipper  publishes request {index} at {server.url}")
                click.echo(f"bot      {await told.receive()}")
                listing = await shipper.offers.approve((await shipper.offers.get(index)).offers[0])
                click.echo(f"shipper  approves the offer of {listing.contact and listing.contact.name}")
                click.echo(f"bot      {await told.receive()}")

    run(trade)
