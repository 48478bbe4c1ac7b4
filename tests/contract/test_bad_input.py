"""Tests of invalid input: the error names the field, and nothing is sent, not even a login."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import httpx
import pytest
from pandas import NaT, Timestamp
from tests.contract.documented import DRAFT
from tests.contract.documented import ROUTE as STORED
from tests.contract.documented import ROUTE_DRAFT as ROUTE

from freight_exchange import (
    BidsType,
    ConfigurationError,
    FreightExchange,
    Offer,
    OffersType,
    RateRequestDraft,
    Route,
    RouteDraft,
    SearchType,
    ValidationError,
)
from freight_exchange.models import RawWrite
from freight_exchange.testing import Sandbox

Call = Callable[[FreightExchange, Any], Awaitable[object] | object]

AWARE = datetime(2030, 1, 1, tzinfo=UTC)
NO_AMOUNTS = [
    *(-1, 0, "0", "-0.01", Decimal(0), "NaN", float("nan"), float("inf"), 0.1 + 0.2, 1840.1 * 3),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), True, False),
]
NO_NUMBERS: list[Any] = [
    *(None, "", "abc", "1,5", "1,840.50", "1_000", "\u0663", "0x10", "\x00", [], [5], {}, 1j, b"5"),
    # More digits, or a larger exponent, than a service can be expected to read.
    *("1e400", "1e31", "1e-31", "1e999999999", Decimal("1E+999999"), 10**5000, "9" * 100),
]
NO_INDEXES = [0, -1, True, "4", "FX000004", 4.0, Decimal(4), None, 2**63, 2**64]
NO_TIMES = [AWARE, "2030-01-01 00:00:00", date(2030, 1, 1), 0, None]
NO_TEXTS = ["", "  ", 5, "half a character \ud800"]
NO_COUNTS = [0, -1, True, "10", 1.0]
NO_FLAGS: list[Any] = ["no", "", 2, None]
NO_WINDOWS = [timedelta(0), timedelta(seconds=-1), timedelta(days=5, microseconds=1), 3600, "1h"]


def submit(name: str) -> Call:
    right: dict[str, Any] = {"request": 1, "amount": 100, "currency": 840}
    return lambda fx, value: fx.bids.submit(**right | {name: value})


def draft(name: str) -> Call:
    values: dict[str, Any] = {**attrs.asdict(DRAFT), "type": "Shipping", "packaging": "pallet"}
    return lambda fx, value: fx.requests.publish(RateRequestDraft(**values | {name: value}))


def route_draft(name: str) -> Call:
    return lambda fx, value: fx.routes.create(RouteDraft(**attrs.asdict(ROUTE) | {name: value}))


def lacking(name: str) -> Route:
    missing: dict[str, Any] = {name: None}
    return attrs.evolve(STORED, **missing)


def changed(name: str) -> Call:
    return lambda fx, value: fx.routes.update(attrs.evolve(STORED, **{name: value}))


NO_CHANGES: dict[str, list[Any]] = {
    "index": [0, -1, True, "9", None], "carrier": ["3", True, Decimal(3)], "vessel": [3, b"Ever Given"],
    "voyage_id": ["half a voyage \ud800"], "timezone": [8, "", "Mars/Olympus"], "departure": ["2027-01-04 06:00:00"],
    "arrival": [0, AWARE],
}  # fmt: skip


def filtered(name: str) -> Call:
    return lambda fx, value: fx.routes.list(**{name: value})


# fmt: off
CASES: list[tuple[str, Call, list[Any]]] = [
    ("amount", submit("amount"), NO_AMOUNTS + NO_NUMBERS),
    ("currency", submit("currency"), ["", "  ", 0, -1, True, 1.5, None]), ("request", submit("request"), NO_INDEXES),
    ("rates", submit("rates"), [{"": 1}, {"  ": 1}, {1: 1}, {"half \ud800": 1}, ["Freight"], [("Fee", 1)], "Fee", 5]),
    ("rates", submit("rates"), [{"Freight": value} for value in ("x", "Infinity", float("nan"), True, None)]),
    ("terms", submit("terms"), [5, "half a character \ud800"]),
    ("offer", lambda fx, value: fx.offers.approve(value), [*NO_INDEXES, Offer(amount=Decimal(5))]),
    ("offer", lambda fx, value: fx.offers.decline(value), NO_INDEXES),
    ("index", lambda fx, value: fx.requests.get(value), NO_INDEXES),
    ("index", lambda fx, value: fx.requests.get_open(value), NO_INDEXES),
    ("index", lambda fx, value: fx.offers.get(value), NO_INDEXES),
    ("index", lambda fx, value: fx.routes.get(value), NO_INDEXES),
    ("index", lambda fx, value: fx.carriers.get(value), NO_INDEXES),
    ("index", lambda fx, value: fx.currencies.get(value), NO_INDEXES),
    ("code", lambda fx, value: fx.currencies.by_code(value), ["", " ", 1, None]),
    ("since", lambda fx, value: fx.requests.open(since=value), NO_WINDOWS),
    ("since", lambda fx, value: fx.requests.search(since=value), NO_WINDOWS),
    ("type", lambda fx, value: fx.requests.search(type=value), ["sel", "", 5, OffersType.ALL]),
    ("type", lambda fx, value: fx.offers.search(type=value), ["accept", "", 5, SearchType.ALL]),
    ("type", lambda fx, value: fx.bids.list(type=value), ["all", "", 5, OffersType.OFFERS]),
    ("page_size", lambda fx, value: fx.requests.open(page_size=value), NO_COUNTS),
    ("page_size", lambda fx, value: fx.requests.search(page_size=value), NO_COUNTS),
    ("page_size", lambda fx, value: fx.offers.list(page_size=value), NO_COUNTS),
    ("page_size", lambda fx, value: fx.offers.search(page_size=value), NO_COUNTS),
    ("page_size", lambda fx, value: fx.bids.list(page_size=value), NO_COUNTS),
    ("page_size", lambda fx, value: fx.routes.list(page_size=value), NO_COUNTS),
    ("window", lambda fx, value: fx.requests.search(window=value), NO_COUNTS),
    ("sweep", lambda fx, value: fx.requests.open(sweep=value), NO_FLAGS),
    ("sweep", lambda fx, value: fx.requests.search(sweep=value), NO_FLAGS),
    ("sweep", lambda fx, value: fx.offers.list(sweep=value), NO_FLAGS),
    ("sweep", lambda fx, value: fx.offers.search(sweep=value), NO_FLAGS),
    ("sweep", lambda fx, value: fx.bids.list(sweep=value), NO_FLAGS),
    ("sweep", lambda fx, value: fx.routes.list(sweep=value), NO_FLAGS),
    ("repeatable", lambda fx, value: fx.request("POST", "quote/new", repeatable=value), NO_FLAGS),
    ("start", lambda fx, value: fx.requests.search().pages(start=value), [-1, True, "1", 1.0]),
    *[(name, filtered(name), NO_TEXTS) for name in ("origin", "destination", "vessel", "voyage_id", "timezone")],
    ("carrier", filtered("carrier"), [0, -1, True, "3", 3.0]),
    *[
        (name, filtered(name), NO_TIMES[:-1])
        for name in (
            *("departure", "arrival", "cy_cutoff", "cfs_cutoff", "departs_from", "departs_until"),
            *("arrives_from", "arrives_until", "cy_from", "cy_until", "cfs_from", "cfs_until"),
        )
    ],
    *[(name, draft(name), NO_TEXTS) for name in ("commodity", "origin", "destination")],
    *[(name, draft(name), NO_AMOUNTS + NO_NUMBERS) for name in ("length", "width", "height", "weight")],
    ("quantity", draft("quantity"), NO_COUNTS), ("arrival", draft("arrival"), NO_TIMES),
    ("incoterm", draft("incoterm"), ["", "FO", "FOBS", "F0B", "FÖB", " FOB", 5, None]),
    ("hazardous", draft("hazardous"), ["yes", 2, -1, None, 0.5, 1.0]),
    ("type", draft("type"), ["Rail", "", 5, BidsType.OFFERS]), ("packaging", draft("packaging"), ["drum", "", 5]),
    ("notes", draft("notes"), [5, "half a character \ud800"]),
    *[(name, route_draft(name), NO_TEXTS) for name in ("origin", "destination", "vessel", "voyage_id")],
    ("timezone", route_draft("timezone"), ["Mars/Olympus", "Asia", "../UTC", "/etc/passwd", "a\0b", "", 5]),
    ("arrival", route_draft("arrival"), NO_TIMES),
    *[(name, route_draft(name), NO_TIMES[1:]) for name in ("cy_cutoff", "cfs_cutoff", "departure")],
    ("departure", route_draft("departure"), [datetime.max.replace(tzinfo=UTC)]),
    ("carrier", route_draft("carrier"), NO_INDEXES),
    ("draft", lambda fx, value: fx.requests.publish(value), [{}, None, ROUTE]),
    ("draft", lambda fx, value: fx.routes.create(value), [{}, None, Route(index=301), DRAFT]),
    ("route", lambda fx, value: fx.routes.update(value), [{}, None, ROUTE]),
    *[(name, changed(name), values) for name, values in NO_CHANGES.items()],
    *[
        (name, lambda fx, value: fx.routes.update(value), [lacking(name)])
        for name in (
            *("origin", "destination", "cy_cutoff", "cfs_cutoff", "departure", "arrival"),
            *("carrier", "vessel", "voyage_id", "timezone"),
        )
    ],
    ("rowsperpage", lambda fx, value: fx.request("GET", "route", params=value), [{"offset": 1}]),
    ("rowsperpage", lambda fx, value: fx.request("GET", "route", body=value), [{"offset": 1}]),
    ("offset", lambda fx, value: fx.request("GET", "route", params=value), [{"rowsperpage": 10}]),
    (
        "params", lambda fx, value: fx.request("GET", "route", params=value),
        [5, "a=1", [("a", "1")], {"a": True}, {"a": None}, {"a": 1.5}, {"a": ["1"]}, {"a": b"1"}, {1: "a"}],
    ),
    (
        "params", lambda fx, value: fx.request("GET", "route", params=value),
        [{"a": "half a character \ud800"}, {"half a character \ud800": "a"}, {"a": 10**40}],
    ),
    ("write", lambda fx, value: fx.reconcile(value), [5, None, "offer", DRAFT]),
    ("settle", lambda fx, value: fx.reconcile(RawWrite("POST", "x"), settle=value), [5, timedelta(seconds=-1)]),
    ("method", lambda fx, value: fx.request(value, "carrier"), ["", "GE T", "GET\r\n", 5]),
    (
        "path", lambda fx, value: fx.request("GET", value),
        [
            "", "/", "//elsewhere.example/x", "https://elsewhere.example/x", "../x", "a/../../x", "x?y=1",
            "x#y",
            "x y", 5,
        ],
    ),
]


# fmt: on


def name_of(value: object) -> str:
    return "a long number" if isinstance(value, int) and value > 10**40 else ascii(value)[:40]


CALLS = [
    pytest.param(field, call, value, id=f"{field}-{number}-{name_of(value)}")
    for number, (field, call, values) in enumerate(CASES)
    for value in values
]

NEW_YORK = ZoneInfo("America/New_York")


CALLS += [
    pytest.param(field, call, value, id=f"{field}-{value!r}")
    for field, call, value in [
        ("arrival", draft("arrival"), NaT), ("departure", route_draft("departure"), NaT),
        ("departs_from", filtered("departs_from"), NaT),
        # The second hour of a clock change, which would be read as the first.
        *[
            ("departure",
             lambda fx, value: fx.routes.create(attrs.evolve(ROUTE, timezone="America/New_York", departure=value)),
             later)
            for later in (
                datetime(2030, 11, 3, 1, 30, fold=1, tzinfo=NEW_YORK), datetime(2030, 11, 3, 6, 30, tzinfo=UTC)
            )
        ],
    ]
]  # fmt: skip


async def run_call(call: Callable[[], Awaitable[object] | object]) -> None:
    answer = call()
    if isinstance(answer, Awaitable):
        await answer


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(("field", "call", "value"), CALLS)
async def test_invalid_argument_is_named_and_nothing_sent(field: str, call: Call, value: Any) -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange:
        with pytest.raises(ValidationError) as caught:
            await run_call(lambda: call(exchange, value))
    assert caught.value.field == field
    assert field in str(caught.value)
    assert len(str(caught.value)) < 300
    assert sandbox.audit_log.calls == []


async def test_timestamp_of_pandas_is_sent_to_the_second() -> None:
    sandbox = Sandbox()
    async with sandbox.client(sandbox.shipper) as exchange:
        await exchange.requests.publish(attrs.evolve(DRAFT, arrival=Timestamp("2030-01-01 10:00:00.123456789")))
    [sent] = [call.parameters for call in sandbox.audit_log.calls if call.path == "quote/submitrequest"]
    assert sent["arrival"] == "2030-01-01 10:00:00"


HTTPS = "https://host.example/api"
ACCOUNT: dict[str, Any] = {"email": "me@co.example", "password": "correct horse"}

CLIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "empty email": ("email", {"email": ""}), "empty password": ("password", {"password": ""}),
    "empty URL": ("base_url", {"base_url": ""}), "credentials twice": ("credentials", {"credentials": lambda: None}),
    "no callable": ("credentials", {"email": None, "password": None, "credentials": "secret"}),
    "no deadline": ("deadline", {"deadline": 0}), "endless deadline": ("deadline", {"deadline": float("inf")}),
    "true deadline": ("deadline", {"deadline": True}), "no connections": ("max_connections", {"max_connections": 0}),
    "no writes": ("max_writes", {"max_writes": 0}), "get_parameters": ("get_parameters", {"get_parameters": "header"}),
    "currency_field": ("currency_field", {"currency_field": "currency"}),
    "carrier_field": ("carrier_field", {"carrier_field": "carrierIndex"}),
    "index_type": ("index_type", {"index_type": "text"}),
    "an operation without addresses": ("addresses", {"addresses": {"login": "login"}}),
    "an address of another": ("addresses", {"addresses": {"approve": "quote/bid"}}),
    "no verification": ("verify", {"verify": False}), "timeouts": ("timeouts", {"timeouts": 5}),
    "retries": ("retries", {"retries": 5}), "falsy timeouts": ("timeouts", {"timeouts": 0}),
    "strict": ("strict", {"strict": "yes"}), "one hook alone": ("hooks", {"hooks": print}),
    "hooks that are not callable": ("hooks", {"hooks": [print, 5]}), "hooks in text": ("hooks", {"hooks": ""}),
    "one middleware alone": ("middleware", {"middleware": print}),
    "middleware that is not callable": ("middleware", {"middleware": (None,)}),
    "another HTTP client": ("http_client", {"http_client": object()}),
    "a synchronous HTTP client": ("http_client", {"http_client": httpx.Client}),
    "a proxy beside an HTTP client": (
        "proxy, verify and trust_env are its own", {"http_client": httpx.AsyncClient(verify=False), "proxy": "http://proxy.example"},
    ),
    "certificates beside an HTTP client": (
        "proxy, verify and trust_env are its own",
        {"http_client": httpx.AsyncClient(verify=False), "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)},
    ),
    "a SOCKS proxy": ("SOCKS", {"proxy": "socks5://proxy.example:1080"}),
    "a SOCKS proxy that resolves names": (r"httpx\[socks\]", {"proxy": "socks5h://proxy.example:1080"}),
}  # fmt: skip


@pytest.mark.parametrize(("word", "wrong"), CLIENTS.values(), ids=list(CLIENTS))
def test_invalid_client_option_is_rejected(word: str, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "EMAIL", "PASSWORD"):
        monkeypatch.delenv(f"FREIGHT_EXCHANGE_{name}", raising=False)
    with pytest.raises(ConfigurationError, match=word):
        FreightExchange(**{"base_url": HTTPS, **ACCOUNT, **wrong})


@pytest.mark.parametrize("name", ["email", "password", "base_url"])
def test_empty_argument_does_not_fall_back_to_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in (("URL", HTTPS), ("EMAIL", "me@co.example"), ("PASSWORD", "correct horse")):
        monkeypatch.setenv(f"FREIGHT_EXCHANGE_{variable}", value)
    FreightExchange()
    empty: dict[str, Any] = {name: ""}
    with pytest.raises(ConfigurationError, match=name):
        FreightExchange(**empty)


VIEWS: dict[str, list[Any]] = {
    "retries": [0, False, "", 5], "timeouts": [0, False, {}, 5], "deadline": [0, -1, "1 s", float("nan")],
    "strict": [0, 1, "yes"],
}  # fmt: skip
FEEDS: dict[str, list[Any]] = {
    "start": [timedelta(days=-1), timedelta(days=5, seconds=1), "then", 5, None], "interval": [timedelta(0), 30],
    "allowance": [timedelta(seconds=-1), 60], "store": [5], "where": ["Hong Kong"], "name": [""], "standby": ["yes"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [(each, name, value) for each in (VIEWS, FEEDS) for name, values in each.items() for value in values],
    ids=lambda value: "" if isinstance(value, dict) else repr(value),
)
def test_invalid_option_of_a_view_or_feed_is_rejected(options: dict[str, Any], name: str, value: Any) -> None:
    """The call raises, before a feed is entered."""
    exchange = FreightExchange(HTTPS, **ACCOUNT)
    with pytest.raises(ConfigurationError, match=name):
        (exchange.with_options if options is VIEWS else exchange.watch)(**{name: value})
