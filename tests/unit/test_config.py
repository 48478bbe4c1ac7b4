"""Tests of a client's options and their environment variables: an error names the remedy before anything is sent."""

from __future__ import annotations

import math
import os
import ssl
import traceback
import warnings
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
import trustme
from tests.calls.support import patient, served, stocked

from freight_exchange import (
    ConfigurationError,
    FreightExchange,
    RateRequestDraft,
    Request,
    Response,
    RetryPolicy,
    RouteDraft,
    Timeouts,
    TransportError,
)
from freight_exchange.testing import FAULTS, Sandbox

CANARY = "c4nary-pa55"
SERVICE = "https://exchange.example/api"
FREIGHT = RateRequestDraft(
    commodity="Widgets", type="shipping", origin="Hong Kong", destination="Oslo", arrival=datetime(2030, 3, 1),
    packaging="pallet", quantity=1, length=1, width=1, height=1, weight=1, incoterm="fob", hazardous=False,
)  # fmt: skip
SAILING = RouteDraft(
    origin="Hong Kong", destination="Oslo", cy_cutoff=datetime(2030, 3, 1), cfs_cutoff=datetime(2030, 3, 1),
    departure=datetime(2030, 3, 2), arrival=datetime(2030, 3, 20), carrier=1, vessel="Ever Forward", voyage_id="E12",
    timezone="Asia/Hong_Kong",
)  # fmt: skip


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return an environment without variables of the package."""
    for name in os.environ:
        if name.startswith(("FREIGHT_EXCHANGE_", "SSL_CERT_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def made(base_url: Any = SERVICE, **options: Any) -> FreightExchange:
    return FreightExchange(base_url, **{"email": "me@co.example", "password": "pw", **options})


# The URL


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("https://host.example/api/", "https://host.example/api"), ("https://host.example/api//", "https://host.example/api"),
        ("https://host.example:8443/v1/api", "https://host.example:8443/v1/api"),
        (" https://host.example/api\n", "https://host.example/api"), ("HTTPS://host.example/api", "https://host.example/api"),
        ("https://bücher.example/api", "https://bücher.example/api"),
        *((url, url) for url in (
            "http://localhost:8000/api", "http://a.localhost/api", "http://127.8.9.1/api", "http://[::1]:8000/api",
        )),
    ],
)  # fmt: skip
def test_root_has_no_slash_at_its_end(value: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(made(value)) == f"<FreightExchange {url}>"
    monkeypatch.setenv("FREIGHT_EXCHANGE_URL", value)
    assert repr(made(None)) == f"<FreightExchange {url}>"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((url, "base_url must be an http or https URL") for url in (
            "host.example/api", "//host.example/api", "ftp://host.example/api", "https:///api",
            "https:host.example/api", "https://:443/api", "https://host.example:0/api", "https://host.example:port/api",
            "https://[::1/api",
            "https://ho st/api", "https://ho\\st/api", "https://ho%20st/api", "https://.../api",
            "https://host.example\x00/api", "https://host.example/a\nb/api", "not a url",
        )),
        (b"https://host/api", "base_url must be an http or https URL"), (None, "FREIGHT_EXCHANGE_URL"),
        (f"https://u:{CANARY}@host/api", "user name or password"), ("https://@host/api", "user name or password"),
        ("https://host/api?", "query or fragment"), ("https://host/api#x", "query or fragment"),
        *((f"http://{host}/api", "must use https") for host in (
            "host.example", "localhost.example", "10.0.0.1", "[::2]", "128.0.0.1", "localhost.", "127.1", "0",
        )),
    ],
)  # fmt: skip
def test_value_that_is_no_root_is_refused_without_its_password(value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        made(value)
    assert CANARY not in _shown(caught.value)


@pytest.mark.parametrize("value", ["https://host.example", "https://host.example/v1", "https://host.example/apis"])
def test_missing_api_is_worth_a_warning_at_the_callers_line(value: str) -> None:
    with pytest.warns(UserWarning, match="usually ends in /api") as caught:
        exchange = made(value)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exchange.with_options(deadline=5)


# Credentials


@pytest.mark.parametrize("given", [(), ("email",), ("password",), ("email", "password")])
async def test_missing_credentials_come_from_the_environment(
    given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox()
    account = {"email": sandbox.shipper.email, "password": sandbox.shipper.password}
    for name, value in account.items():
        monkeypatch.setenv(f"FREIGHT_EXCHANGE_{name.upper()}", "other" if name in given else value)
    options: dict[str, Any] = {name: account[name] for name in given}
    async with FreightExchange(sandbox.url, http_client=sandbox.http_client(), **options) as exchange:
        assert (await exchange.login()).email == account["email"]


@pytest.mark.parametrize(
    ("email", "password", "named"),
    [
        (None, "x", "EMAIL"), (None, None, "EMAIL and FREIGHT_EXCHANGE_PASSWORD"), (5, "x", "EMAIL"),
        ("me", None, "PASSWORD"), ("me", 12345, "PASSWORD"), ("me", b"x", "PASSWORD"),
    ],
)  # fmt: skip
def test_error_names_the_missing_credential(email: Any, password: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"FREIGHT_EXCHANGE_{named}") as caught:
        made(email=email, password=password)
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize("options", [{"password": None}, {"email": None}, {}])
def test_provider_of_credentials_stands_alone(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="either credentials, or"):
        made(credentials=lambda: None, **options)


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("value", [None, CANARY, ("me", CANARY, "x"), ["me", CANARY], ("me", 5), ("", CANARY)])
async def test_credentials_of_a_provider_are_checked_and_not_shown(value: Any, is_async: bool) -> None:
    async def provider() -> Any:
        return value

    def sync() -> Any:
        return ("me", CANARY)

    async with made(email=None, password=None, credentials=provider if is_async else sync) as exchange:
        with pytest.raises(ConfigurationError, match="credentials must") as caught:
            await exchange.login()
    assert CANARY not in _shown(caught.value)


# Choices of the service's form, and their variables


ADDRESSES = "publish=quote/request, submit = quote/bid"


async def publish(exchange: FreightExchange) -> None:
    await exchange.requests.publish(FREIGHT)


async def submit(exchange: FreightExchange) -> None:
    await exchange.bids.submit(2, amount=5, currency=840)


async def sail(exchange: FreightExchange) -> None:
    await exchange.routes.create(SAILING)


async def look_up(exchange: FreightExchange) -> None:
    await exchange.carriers.get(1)


@pytest.mark.parametrize(
    ("variable", "call", "option", "default", "of_variable"),
    [
        ("GET_PARAMETERS=query", look_up, {"get_parameters": "body"}, {}, {"index": "1"}),
        (f"ADDRESSES={ADDRESSES}", publish, {"addresses": {"approve": "quote/offer"}}, "quote/submitrequest",
         "quote/request"),
        (f"ADDRESSES={ADDRESSES}", submit, {"addresses": {}}, "quote/submitoffer", "quote/bid"),
        ("CURRENCY_FIELD=currencyId", submit, {"currency_field": "currencyIndex"}, "currencyIndex", "currencyId"),
        ("CARRIER_FIELD=carrierId", sail, {"carrier_field": "carrier"}, "carrier", "carrierId"),
    ],
)  # fmt: skip
async def test_variable_counts_unless_an_argument_is_given(
    variable: str,
    call: Callable[[FreightExchange], Awaitable[None]],
    option: Any,
    default: Any,
    of_variable: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[Request] = []

    async def spy(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        sent.extend([request] * (request.path != "login"))
        return await call_next(request)

    def seen(request: Request) -> Any:
        if isinstance(default, dict):
            return {name: str(value) for name, value in dict(request.params).items()}
        body = (request.content or b"").decode()
        return request.path if "/" in default else next(name for name in (of_variable, default) if f'"{name}"' in body)

    sandbox = stocked()
    account = sandbox.shipper if call is publish else sandbox.forwarder
    name, _, value = variable.partition("=")
    for is_set, options, expected in ((False, {}, default), (True, {}, of_variable), (True, option, default)):
        if is_set:
            monkeypatch.setenv(f"FREIGHT_EXCHANGE_{name}", value)
        async with sandbox.client(account, middleware=[spy], **options) as exchange:
            await call(exchange)
        assert seen(sent[-1]) == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GET_PARAMETERS", "header", "FREIGHT_EXCHANGE_GET_PARAMETERS must be one of 'body', 'query'"),
        ("CURRENCY_FIELD", "currency", "FREIGHT_EXCHANGE_CURRENCY_FIELD must be one of"),
        ("CARRIER_FIELD", "x", "FREIGHT_EXCHANGE_CARRIER_FIELD must be one of"),
        (
            "ADDRESSES",
            "publish",
            "FREIGHT_EXCHANGE_ADDRESSES must have one of .* for publish, such as publish=",
        ),
        ("ADDRESSES", "offer=quote/bid", "has no operation 'offer'"),
        ("TRUST_ENV", "maybe", "FREIGHT_EXCHANGE_TRUST_ENV must be 1 or 0, not 'maybe'"),
    ],
)
def test_wrong_variable_is_named(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"FREIGHT_EXCHANGE_{name}", value)
    with pytest.raises(ConfigurationError, match=message):
        made()


# Proxy and certificates of the environment


@pytest.mark.parametrize(
    ("variable", "argument", "trusted"),
    [("", None, False), ("1", None, True), ("1", False, False), ("No", None, False), ("No", True, True)],
)
def test_proxy_variables_count_only_if_trusted(
    variable: str, argument: bool | None, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FREIGHT_EXCHANGE_TRUST_ENV", variable)
    monkeypatch.setenv("ALL_PROXY", f"socks5://me:{CANARY}@proxy.example")
    made("http://127.0.0.1:8765/api", trust_env=argument)  # plain http never has a proxy: it would see the password
    if not trusted:
        made(trust_env=argument)
        return
    with pytest.raises(ConfigurationError, match="ALL_PROXY in the environment: proxy must be an http or") as caught:
        made(trust_env=argument)
    assert CANARY not in _shown(caught.value)


@pytest.mark.parametrize("trusted", [True, False])
async def test_certificates_come_from_a_file_if_trusted(
    trusted: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, server_side = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server_side)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    sandbox = Sandbox()
    async with served(sandbox, server_side) as face, patient(sandbox, url=face.url, trust_env=trusted) as exchange:
        if trusted:
            await exchange.login()
        else:
            with pytest.raises(TransportError, match="certificate"):
                await exchange.login()


@pytest.mark.parametrize(("text", "reason"), [(None, "No such file"), ("nothing", ".*no certificate")])
def test_certificates_that_cannot_be_read_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, reason: str
) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    made()
    with pytest.raises(ConfigurationError, match=f"SSL_CERT_FILE .*ca.pem, which cannot be read: .*{reason}"):
        made(trust_env=True)


# Timeouts and retries

NO_DURATIONS: list[Any] = [
    0, -1, 0.0, math.nan, math.inf, timedelta(0), timedelta(seconds=-1), 10**400, True, None, "5", Decimal(5), [5],
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "exact"),
    [(5, 5.0), (0.25, 0.25), (timedelta(minutes=2), 120.0), (timedelta(milliseconds=50), 0.05), (1e300, 1e300)],
)
def test_duration_is_seconds_or_a_timedelta(value: Any, exact: float) -> None:
    made(deadline=value, keepalive=value).with_options(deadline=value)
    assert (Timeouts(read=value).read, RetryPolicy(cap=value).cap) == (exact, exact)


@pytest.mark.parametrize("value", NO_DURATIONS, ids=lambda value: repr(value)[:20])
def test_other_durations_are_refused_by_name(value: Any) -> None:
    for name in ("deadline", "keepalive"):
        with pytest.raises(ConfigurationError, match=f"^{name} must be") as caught:
            made(**{name: value})
        assert len(str(caught.value)) < 120
    for kind, names in ((Timeouts, ("connect", "read", "write")), (RetryPolicy, ("base", "cap"))):
        for name in names:
            with pytest.raises(ConfigurationError, match=rf"^{kind.__name__}\.{name} must be"):
                kind(**{name: value})


@pytest.mark.parametrize("value", [-1, 1.5, True, "3", None, math.nan])
@pytest.mark.parametrize(("field", "least"), [("attempts", 1), ("budget", 0)])
def test_counts_of_retries_are_integers(field: str, least: int, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^RetryPolicy\.{field} must be an integer of at least {least}"):
        RetryPolicy(**{field: value})
    options: dict[str, Any] = {field: least}
    assert RetryPolicy(**options) == RetryPolicy(**options) != RetryPolicy()


@pytest.mark.parametrize("url", ["HTTPS://Exchange.EXAMPLE:443/api", "https://exchange.example/api//"])
def test_api_root_has_one_spelling(url: str) -> None:
    assert FreightExchange(url, email="a@b.example", password="x")._base_url == "https://exchange.example/api"


def test_options_are_frozen_with_the_documented_defaults() -> None:
    assert attrs.asdict(Timeouts()) == {"connect": 5, "read": 30, "write": 10}
    retries = {"attempts": 3, "base": 0.05, "cap": 20, "budget": 500, "trust_refusals": True}
    assert attrs.asdict(RetryPolicy()) == retries
    option: Any
    for option in (Timeouts(), RetryPolicy()):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            option.read = option.cap = 1
        with pytest.raises(TypeError):
            type(option)(1)


@pytest.mark.virtual_time
async def test_feed_repeats_a_page_itself_and_not_by_retries_of_its_calls() -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange:
        await exchange.login()
        sandbox.strike(*FAULTS["unavailable"](path="quote/getrequests", times=None))
        with anyio.move_on_after(10):
            async with exchange.watch() as feed:
                await anext(feed)
    # A call with retries would send three requests each time.
    assert 1 <= len(sandbox.audit_log.calls_to("POST", "quote/getrequests")) <= 2


def _shown(error: BaseException) -> str:
    """Return what a traceback with the locals of the package's frames shows."""
    formatted = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in formatted.stack if f"{os.sep}freight_exchange{os.sep}" in frame.filename]
    return f"{error}{[frame.locals for frame in frames]}"
