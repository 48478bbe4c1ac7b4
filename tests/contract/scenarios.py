"""Scenario of each operation, which runs in process, over HTTP and under every quirk of a service.

A scenario returns its outcomes by name, errors included, so that two runs can be compared field by field.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import attrs
from tests.contract.coverage import ROWS, Row

from freight_exchange import (
    FreightExchange,
    FreightExchangeError,
    Packaging,
    RateRequestDraft,
    RequestType,
    RouteDraft,
    ValidationError,
)
from freight_sandbox import Account, Call, Cargo, Exchange, Profile, Reply

__all__ = [
    "NOW",
    "SCENARIOS",
    "Connect",
    "Failed",
    "Outcomes",
    "RecordingExchange",
    "Stage",
    "new_exchange",
    "run_scenario",
    "summarize",
]

NOW: Final = 1_900_000_000.0
"""Time of the exchange, which stands still, so that requests have the same age in every run."""

_PLAIN: Final = Profile()

Outcomes = Mapping[str, object]
Connect = Callable[..., FreightExchange]


@attrs.frozen
class Failed:
    """Error of a call: its class, and the field that a `ValidationError` names."""

    error: type[FreightExchangeError]
    field: str = ""


async def outcome(call: Awaitable[object]) -> object:
    try:
        return await call
    except ValidationError as error:
        return Failed(ValidationError, error.field)
    except FreightExchangeError as error:
        return Failed(type(error))


class RecordingExchange(Exchange):
    """Exchange that records what a scenario does to it."""

    def __init__(self, profile: Profile, *, seed: int) -> None:
        self._steps: list[tuple[Callable[..., object], tuple[object, ...], object]] = []
        super().__init__(profile, seed=seed)
        self._steps.clear()

    def handle(self, call: Call, now: float) -> Reply:
        reply = super().handle(call, now)
        self._steps.append((Exchange.handle, (call, now), reply))
        return reply

    def expire_tokens(self, account: Account | None = None) -> None:
        self._steps.append((Exchange.expire_tokens, (account,), None))
        super().expire_tokens(account)

    def add_account(self, email: str, password: str, **other: Any) -> Account:
        account = super().add_account(email, password, **other)
        self._steps.append((partial(Exchange.add_account, **other), (email, password), account))
        return account

    def answers_alike(self, other: Exchange) -> bool:
        """Repeat the steps at another exchange; return whether it gave the same replies, so that no client differs."""
        return all(method(other, *arguments) == result for method, arguments, result in self._steps)


def new_exchange(profile: Profile = _PLAIN) -> RecordingExchange:
    """Create an exchange with requests 1 to 5 (3 and 5 are awarded), and offers 5001 to 5007 on three of them."""
    exchange = RecordingExchange(profile, seed=3)
    shipper, forwarder, rival = exchange.shipper, exchange.forwarder, exchange.rival
    for age, cargo in ((9000, Cargo()), (3000, CRATES), (2000, Cargo()), (1000, TEA), (900, Cargo())):
        exchange.publish(shipper, NOW - age, cargo)
    exchange.offer(forwarder, 2, NOW - 800, amount=Decimal("1840.50"), rates={"Freight": 1800}, terms="14 days")
    exchange.offer(rival, 2, NOW - 790, amount=1700, currency=978)
    exchange.offer(rival, 2, NOW - 780, amount=1650, currency=978)
    exchange.offer(forwarder, 3, NOW - 770, amount=900, currency=344)
    exchange.offer(rival, 3, NOW - 760, amount=950)
    exchange.offer(forwarder, 5, NOW - 750, amount=400)
    exchange.offer(rival, 5, NOW - 740, amount=390)
    exchange.select(5004, NOW - 700)
    exchange.select(5007, NOW - 690)
    return exchange


CRATES: Final = Cargo(commodityname="Machine parts", quantity=4, packaging="pallet", weight=Decimal("412.5"))
TEA: Final = Cargo(commodityname="Green tea", requesttype="Air Freight", hazardous=1, origin="Shenzhen")
DRAFT: Final = RateRequestDraft(
    commodity="Ceramic tiles",
    type=RequestType.SHIPPING,
    origin="Hong Kong",
    destination="Long Beach",
    arrival=datetime(2030, 3, 1, 9, 30),
    packaging=Packaging.PALLET,
    quantity=20,
    length="1.2",
    width=1,
    height="0.9",
    weight="640.5",
    incoterm="FOB",
    hazardous=False,
    notes="Keep dry.",
)
ROUTE: Final = RouteDraft(
    origin="Ningbo",
    destination="Felixstowe",
    cy_cutoff=datetime(2030, 4, 2, 17),
    cfs_cutoff=datetime(2030, 4, 1, 12),
    departure=datetime(2030, 4, 4, 6),
    arrival=datetime(2030, 5, 6, 14),
    carrier=2,
    vessel="Anchor Prudence",
    voyage_id="202W",
    timezone="Asia/Shanghai",
)
SECOND: Final = timedelta(seconds=1)


@attrs.frozen
class Stage:
    """Exchange and clients of its accounts, which are made when a scenario asks for them."""

    exchange: Exchange
    connect: Connect
    clients: dict[str, FreightExchange] = attrs.field(factory=dict)

    @property
    def shipper(self) -> FreightExchange:
        return self._client(self.exchange.shipper)

    @property
    def forwarder(self) -> FreightExchange:
        return self._client(self.exchange.forwarder)

    @property
    def idle_shipper(self) -> FreightExchange:
        return self._client(self.exchange.add_account("idle.shipper@demo.example", "idle", role="shipper"))

    @property
    def idle_forwarder(self) -> FreightExchange:
        return self._client(self.exchange.add_account("idle.forwarder@demo.example", "idle", role="forwarder"))

    def _client(self, account: Account) -> FreightExchange:
        if account.email not in self.clients:
            self.clients[account.email] = self.connect(account)
        return self.clients[account.email]


async def run_scenario(row: Row, exchange: Exchange, connect: Connect, **options: Any) -> Outcomes:
    """Run the scenario of a row; `connect(account, **options)` creates a client."""

    def create_client(account: Account, **other: Any) -> FreightExchange:
        return connect(account, **{"addresses": row.addresses, **options, **other})

    stage = Stage(exchange, create_client)
    calls = SCENARIOS[row.name](stage)
    async with AsyncExitStack() as open_clients:
        for client in stage.clients.values():
            await open_clients.enter_async_context(client)
        if row.path != "login":
            # The calls renew the tokens, however the service rejects them.
            for client in stage.clients.values():
                await client.login()
            exchange.expire_tokens()
        return {name: await outcome(call) for name, call in calls.items()}


Calls = Mapping[str, Awaitable[object]]
Scenario = Callable[[Stage], Calls]


def login(stage: Stage) -> Calls:
    async def wrong() -> object:
        async with stage.connect(stage.exchange.forwarder, password="wrong") as stranger:
            return await stranger.login()

    async def known() -> object:
        return stage.forwarder.user

    return {"user": stage.forwarder.login(), "again": stage.forwarder.login(), "known": known(), "wrong": wrong()}


def open_requests(stage: Stage) -> Calls:
    requests = stage.forwarder.requests
    return {
        "all": requests.open().collect(),
        "paged": requests.open(page_size=2).collect(),
        "recent": requests.open(since=timedelta(seconds=1500)).collect(),
        "none": requests.open(since=SECOND).collect(),
        "one": requests.get_open(4),
        "old": requests.get_open(1),
        "missing": requests.get_open(99),
    }


def search(stage: Stage) -> Calls:
    requests = stage.forwarder.requests
    return {
        "all": requests.search().collect(),
        "paged": requests.search(page_size=2).collect(),
        "accept": requests.search(type="accept").collect(),
        "pending": requests.search(type="pending").collect(),
        "recent": requests.search(since=timedelta(seconds=1500)).collect(),
        "none": requests.search(since=SECOND).collect(),
        "one": requests.get(4),
        "old": requests.get(1),
        "settled": requests.get(3),
        "missing": requests.get(99),
    }


def publish(stage: Stage) -> Calls:
    requests = stage.shipper.requests
    bare = attrs.evolve(DRAFT, notes=None, hazardous=True, type="warehousing")
    return {"full": requests.publish(DRAFT), "bare": requests.publish(bare)}


def submit(stage: Stage) -> Calls:
    bids = stage.forwarder.bids
    rates = {"Freight": Decimal("1800.067"), "Chassis": Decimal("40.5")}
    return {
        "full": bids.submit(4, amount=Decimal("1840.567"), currency="USD", rates=rates, terms="14 days"),
        "bare": bids.submit(1, amount=99, currency=978),
        "second": bids.submit(4, amount="1700.25", currency="eur"),
        "late": bids.submit(3, amount=850, currency=840),
        "unknown": bids.submit(99, amount=850, currency=840),
    }


def offer_listing(stage: Stage) -> Calls:
    offers = stage.shipper.offers
    return {
        "all": offers.list().collect(),
        "paged": offers.list(page_size=2).collect(),
        "none": stage.idle_shipper.offers.list().collect(),
        "one": offers.get(2),
        "bare": offers.get(4),
        "settled": offers.get(3),
        "missing": offers.get(99),
    }


def offer_search(stage: Stage) -> Calls:
    offers = stage.shipper.offers
    return {
        "all": offers.search().collect(),
        "paged": offers.search(page_size=2).collect(),
        "offers": offers.search(type="offers").collect(),
        "sel": offers.search(type="sel").collect(),
        "nsel": offers.search(type="nsel").collect(),
        "none": stage.idle_shipper.offers.search().collect(),
    }


def respond(stage: Stage) -> Calls:
    offers = stage.shipper.offers
    return {
        "declined": offers.decline(5002),
        "approved": offers.approve(5001),
        "again": offers.approve(5001),
        "another": offers.approve(5003),
        "unknown": offers.approve(9999),
    }


def bid_listing(stage: Stage) -> Calls:
    bids = stage.forwarder.bids
    kinds = {kind: bids.list(type=kind).collect() for kind in ("active", "sel", "nsel", "offers")}
    return {
        "all": bids.list().collect(),
        "paged": bids.list(page_size=2).collect(),
        "none": stage.idle_forwarder.bids.list().collect(),
        **kinds,
    }


def route_listing(stage: Stage) -> Calls:
    routes = stage.forwarder.routes
    return {
        "all": routes.list().collect(),
        "paged": routes.list(page_size=2).collect(),
        "named": routes.list(origin="Hong Kong").collect(),
        "part": routes.list(origin="Hong").collect(),
        "carrier": routes.list(carrier=2).collect(),
        "sailing": routes.list(departs_from=datetime(2030, 1, 5), departs_until=datetime(2030, 1, 8)).collect(),
        "none": routes.list(origin="Nowhere").collect(),
        "one": routes.get(302),
        "missing": routes.get(999),
    }


def route_creation(stage: Stage) -> Calls:
    routes = stage.forwarder.routes
    return {"full": routes.create(ROUTE), "wrong": routes.create(attrs.evolve(ROUTE, carrier=99))}


def route_update(stage: Stage) -> Calls:
    routes = stage.forwarder.routes

    async def renamed(**changes: Any) -> object:
        return await routes.update(attrs.evolve(await routes.get(301), **changes))

    return {"full": renamed(vessel="Pacific Star Dawn"), "unknown": renamed(index=999)}


def carriers(stage: Stage) -> Calls:
    resource = stage.forwarder.carriers
    return {"all": resource.list().collect(), "one": resource.get(7), "missing": resource.get(99)}


def currencies(stage: Stage) -> Calls:
    resource = stage.forwarder.currencies
    return {
        "all": resource.list().collect(),
        "one": resource.get(826),
        "missing": resource.get(99),
        "code": resource.by_code("gbp"),
        "unknown": resource.by_code("XXX"),
    }


_BY_CALL: Final[Mapping[str, Scenario]] = {
    "POST login": login,
    "GET quote/request": open_requests,
    "POST quote/getrequests": search,
    "GET route": route_listing,
    "POST route": route_creation,
    "PUT route": route_update,
    "GET quote/offer": offer_listing,
    "POST quote/getoffers": offer_search,
    "GET quote/bid": bid_listing,
    "GET carrier": carriers,
    "GET currency": currencies,
    "requests.publish()": publish,
    "bids.submit()": submit,
    "offers.approve(), .decline()": respond,
}

SCENARIOS: Final[Mapping[str, Scenario]] = {row.name: _BY_CALL.get(row.name) or _BY_CALL[row.call] for row in ROWS}


def summarize(outcomes: Outcomes) -> Mapping[str, object]:
    """Return the indexes of the records of each outcome, or the name of its error."""
    return {name: _summarize(value) for name, value in outcomes.items()}


def _summarize(value: object) -> object:
    if isinstance(value, Failed):
        return f"{value.error.__name__}({value.field})" if value.field else value.error.__name__
    if isinstance(value, list):
        return [_summarize(item) for item in value]
    return getattr(value, "index", None)
