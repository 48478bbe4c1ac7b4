"""The sandbox as the contract's tests use it, in memory or over sockets: the only file that knows its names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from typing import Any, Final, Literal

import attrs
import httpx

from freight_exchange import FreightExchange
from freight_exchange.testing import Cargo, Profile, Sandbox
from freight_sandbox.server import serve

Wire = Literal["memory", "sockets"]
Side = Literal["shipper", "forwarder", "rival"]
WIRES: Final[tuple[Wire, ...]] = ("memory", "sockets")
AMOUNT: Final = Decimal("1840.5")

_TILES: Final = Cargo(
    commodityname="Ceramic tiles", requesttype="Air Freight", origin="Hong Kong", destination="Long Beach",
    arrival="2027-03-01 09:30:00", packaging="pallet", quantity=20, length=Decimal("1.2"), width=Decimal("1.05"),
    height=Decimal("0.9"), weight=Decimal("640.5"), hazardous=1,
)  # fmt: skip
_CRATES: Final = Cargo(commodityname="Machine parts", quantity=4, packaging="pallet", weight=Decimal("412.5"))
_TEA: Final = Cargo(commodityname="Green tea", requesttype="Air Freight", hazardous=1, origin="Shenzhen")


@attrs.define
class Market:
    """Sandbox with an address, and the clients and raw connections of its accounts."""

    sandbox: Sandbox
    url: str
    _wire: Wire
    _open: AsyncExitStack

    def account(self, side: Side) -> Any:
        return getattr(self.sandbox, side)

    async def client(self, side: Side, **options: Any) -> FreightExchange:
        """Enter a client of an account, which is closed with the market."""
        account = self.account(side)
        if self._wire == "memory":
            return await self._open.enter_async_context(self.sandbox.client(account, **options))
        usual = {"email": account.email, "password": account.password}
        return await self._open.enter_async_context(FreightExchange(self.url, **{**usual, **options}))

    async def connection(self) -> httpx.AsyncClient:
        """Enter a plain HTTP client, which knows nothing of the SDK."""
        transport = self.sandbox.transport() if self._wire == "memory" else httpx.AsyncHTTPTransport()
        http = httpx.AsyncClient(transport=transport, base_url=f"{self.url}/", trust_env=False)
        return await self._open.enter_async_context(http)

    async def send(self, side: Side | None, method: str, path: str, body: object, **query: str) -> httpx.Response:
        """Send a call by hand, as an account or without a token."""
        http, headers = await self.connection(), {}
        if side is not None:
            account = self.account(side)
            user = await http.post("login", json={"email": account.email, "password": account.password})
            headers["authorization"] = f"Bearer {user.json()['user']['access_token']}"
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            headers["content-type"] = "application/json"
        return await http.request(method, path, content=content, headers=headers, params=query)

    def register(self, email: str, password: str) -> None:
        self.sandbox.exchange.add_account(email, password)

    def expire_tokens(self) -> None:
        self.sandbox.exchange.expire_tokens()

    def _publish(self, age: float, cargo: Cargo) -> int:
        return self.sandbox.exchange.publish(self.sandbox.shipper, self.sandbox.now() - age, cargo)

    def _offer(self, side: Side, request: int, age: float, **terms: Any) -> int:
        return self.sandbox.exchange.offer(self.account(side), request, self.sandbox.now() - age, **terms)

    def _select(self, offer: int, age: float) -> None:
        self.sandbox.exchange.select(offer, self.sandbox.now() - age)

    def _withdraw(self, request: int, age: float) -> None:
        self.sandbox.exchange.withdraw(request, self.sandbox.now() - age)


def published(market: Market) -> None:
    """Publish the requests 4 and 5, after three that are withdrawn."""
    for _ in range(3):
        market._withdraw(market._publish(50, _CRATES), 40)
    for _ in range(2):
        market._publish(30, _TILES)


def offered(market: Market) -> None:
    """Submit two offers on request 4, the first with fees and terms."""
    published(market)
    fees = {"Ocean Freight": Decimal(1700), "Chassis Fee": Decimal("140.5")}
    market._offer("forwarder", 4, 20, amount=AMOUNT, currency=978, rates=fees, terms="valid 14 days")
    market._offer("rival", 4, 20, amount=AMOUNT, currency=840)


def selected(market: Market) -> None:
    """Approve the first of them."""
    offered(market)
    market._select(5001, 10)


def selected_and_pending(market: Market) -> None:
    selected(market)
    market._offer("forwarder", 5, 5, amount=AMOUNT, currency=840)


def only_selected(market: Market) -> None:
    selected(market)
    market._withdraw(5, 5)


def busy(market: Market) -> None:
    """Publish requests 1 to 5 (3 and 5 are awarded), and make offers 5001 to 5007 on three of them."""
    for age, cargo in ((9000, Cargo()), (3000, _CRATES), (2000, Cargo()), (1000, _TEA), (900, Cargo())):
        market._publish(age, cargo)
    market._offer("forwarder", 2, 800, amount=Decimal("1840.50"), rates={"Freight": 1800}, terms="14 days")
    market._offer("rival", 2, 790, amount=1700, currency=978)
    market._offer("rival", 2, 780, amount=1650, currency=978)
    market._offer("forwarder", 3, 770, amount=900, currency=344)
    market._offer("rival", 3, 760, amount=950)
    market._offer("forwarder", 5, 750, amount=400)
    market._offer("rival", 5, 740, amount=390)
    market._select(5004, 700)
    market._select(5007, 690)


SCENES: Final[dict[str, Callable[[Market], None]]] = {
    "empty": lambda market: None,
    "registered": lambda market: market.register("me@co.example", "correct horse"),
    "published": published,
    "offered": offered,
    "selected": selected,
    "selected and pending": selected_and_pending,
    "only selected": only_selected,
    "busy": busy,
}


@asynccontextmanager
async def opened(wire: Wire, scene: str = "empty", **quirk: Any) -> AsyncIterator[Market]:
    """Run a sandbox with a prepared market."""
    sandbox = Sandbox(Profile(**quirk), seed=3)
    async with AsyncExitStack() as stack:
        url = sandbox.url
        if wire == "sockets":
            url = (await stack.enter_async_context(serve(sandbox.exchange, clock=sandbox.now))).url
        market = Market(sandbox, url, wire, await stack.enter_async_context(AsyncExitStack()))
        SCENES[scene](market)
        yield market


def quirks() -> dict[str, tuple[str, Any]]:
    """Return every undocumented value of every quirk, as `name=value`."""
    return {f"{knob.name}={value}": (knob.name, value) for knob in Profile.knobs() for value in knob.values}
