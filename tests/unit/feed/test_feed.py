"""Tests of the feed: the events it delivers, the failures it survives, and the errors it raises."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from freight_exchange import (
    BadRequestError,
    ConfigurationError,
    FreightExchange,
    LoginRejectedError,
    NotFoundError,
    RequestEvent,
    RequestFilter,
    TransportError,
    ValidationError,
)
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.feed.feed import Feed
from freight_exchange.hooks import Degraded, Recovered
from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

MINUTE = timedelta(minutes=1)


async def pulled(feed: Feed) -> RequestEvent:
    event = await anext(feed)
    assert isinstance(event, RequestEvent)
    return event


async def take(exchange: FreightExchange, count: int, *, backfill: bool = False) -> list[RequestEvent]:
    async with exchange.watch(interval=MINUTE, start="backfill" if backfill else "now") as feed:
        return [await pulled(feed) for _ in range(count)]


async def test_requests_listed_at_the_start_are_delivered_only_with_backfill() -> None:
    sandbox = Sandbox()
    first = sandbox.publish()
    async with sandbox.client() as exchange:
        assert [event.request.index for event in await take(exchange, 1, backfill=True)] == [first]
        async with exchange.watch(interval=MINUTE) as feed:
            second = sandbox.publish()
            event = await pulled(feed)
    assert (event.kind, event.request.index, event.previous, event.changed) == ("new", second, None, ())
    earliest, latest = event.observed_between
    assert earliest is not None
    assert earliest <= latest


async def test_update_names_the_changed_fields() -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        sandbox.exchange.update(index, sandbox.now(), Cargo(destination="Oakland"))
        event = await pulled(feed)
    assert event.kind == "updated"
    assert "destination" in event.changed
    assert event.previous is not None
    assert event.previous.destination != "Oakland"


async def test_failure_that_passes_does_not_end_the_feed_at_the_start_and_later() -> None:
    sandbox = Sandbox()
    sandbox.strike(*FAULTS["unavailable"](path="quote/getrequests", times=7))
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        sandbox.strike(*FAULTS["unavailable"](path="quote/getrequests", times=7))
        index = sandbox.publish()
        assert (await pulled(feed)).request.index == index


@pytest.mark.parametrize(("status", "error"), [(404, NotFoundError), (400, BadRequestError)])
async def test_permanent_error_of_the_first_scan_is_raised(status: int, error: type[Exception]) -> None:
    import httpx

    def refuse(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("login"):
            return httpx.Response(200, json={"user": {"access_token": "t"}})
        return httpx.Response(status, text="no")

    client = httpx.AsyncClient(transport=httpx.MockTransport(refuse))
    exchange = FreightExchange(Sandbox.url, email="me@co.example", password="p", http_client=client)
    async with exchange:
        with pytest.raises(error):
            await take(exchange, 1)


async def test_rejected_login_ends_a_running_feed() -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        sandbox.exchange.expire_tokens()
        sandbox.strike(*FAULTS["login_message_200"](times=None))
        with pytest.raises(LoginRejectedError):
            await pulled(feed)


async def test_feed_polls_no_more_often_than_its_interval() -> None:
    sandbox = Sandbox(Profile(order="oldest"))
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        with anyio.move_on_after(20 * 60):
            await pulled(feed)
    polls = sandbox.audit_log.calls_to("POST", "quote/getrequests")
    assert 19 <= len(polls) <= 24


async def test_a_server_that_ignores_the_offset_is_watched_as_far_as_it_shows(caplog: pytest.LogCaptureFixture) -> None:
    sandbox = Sandbox(Profile(offset_ignored=True))
    for _ in range(3):
        sandbox.publish()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        index = sandbox.publish()
        assert (await pulled(feed)).request.index == index
    assert caplog.text.count("offset") == 1


async def test_log_of_an_outage_names_the_service_and_the_next_step(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "freight_exchange.feed")
    sandbox = Sandbox()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        sandbox.strike(*FAULTS["server_error"](path="quote/getrequests", times=30))
        with anyio.move_on_after(3600):
            await pulled(feed)
    outage, recovery = (record.getMessage() for record in caplog.records if "'requests'" in record.getMessage())
    assert outage.startswith("the feed 'requests' cannot read http://127.0.0.1/api: ")
    assert "status 500" in outage
    assert "; retrying in " in outage
    assert recovery.startswith("the feed 'requests' recovered: http://127.0.0.1/api can be read again, after ")


def windows(sandbox: Sandbox) -> list[int]:
    polls = sandbox.audit_log.calls_to("POST", "quote/getrequests")
    return [int(json.loads(call.body)["secondsSinceUpdate"]) for call in polls]


async def test_each_window_reaches_back_over_the_allowance_and_over_failed_scans() -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        assert windows(sandbox) == [WIDEST]
        with anyio.move_on_after(150):
            await pulled(feed)
        calm = windows(sandbox)[1:]
        assert calm
        assert all(60 < window <= 66 + 60 + 6 for window in calm)
        sandbox.strike(*FAULTS["unavailable"](path="quote/getrequests", times=10))
        with anyio.move_on_after(2400):
            await pulled(feed)
        failed = windows(sandbox)[1 + len(calm) :]
    assert any(180 < window < 1800 for window in failed)
    assert min(failed[-5:]) <= 66 + 60 + 6


async def test_an_update_that_shows_late_is_not_missed() -> None:
    sandbox = Sandbox(Profile(late_visibility=50.0))
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        index = sandbox.publish()
        with anyio.fail_after(150):
            assert (await pulled(feed)).request.index == index


async def test_slow_service_is_covered_without_more_requests() -> None:
    sandbox = Sandbox(Profile(latency=20.0))
    sandbox.publish()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE, start="backfill") as feed:
        await pulled(feed)
        with anyio.move_on_after(30 * 60):
            await pulled(feed)
        index = sandbox.publish()
        assert (await pulled(feed)).request.index == index
    assert max(window for window in windows(sandbox) if window < 1800) < 400
    assert len(windows(sandbox)) < 110


async def test_start_in_the_past_delivers_requests_updated_since() -> None:
    sandbox = Sandbox()
    sandbox.publish()
    await anyio.sleep(7200)
    recent = sandbox.publish()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE, start=timedelta(hours=1)) as feed:
        assert (await pulled(feed)).request.index == recent


async def test_retry_after_is_honoured() -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        view = len(windows(sandbox))
        sandbox.strike(*FAULTS["throttled_seconds"](path="quote/getrequests", times=3, seconds=500))
        index = sandbox.publish()
        started = anyio.current_time()
        assert (await pulled(feed)).request.index == index
        assert anyio.current_time() - started >= 20
        assert len(windows(sandbox)) - view < 12


async def test_credentials_that_are_away_for_a_while_are_waited_for_at_the_start() -> None:
    """A process that starts together with its secret manager must not end."""
    sandbox, reported, attempts = Sandbox(), list[object](), 0

    async def vault() -> tuple[str, str]:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            raise TransportError("the vault is away")
        return "forwarder@demo.example", "forwarder"

    async with (
        FreightExchange(
            sandbox.url, credentials=vault, http_client=sandbox.http_client(), hooks=[reported.append]
        ) as exchange,
        exchange.watch(interval=MINUTE) as feed,
    ):
        index = sandbox.publish()
        assert (await pulled(feed)).request.index == index
    assert [type(event) for event in reported if isinstance(event, Degraded | Recovered)] == [Degraded, Recovered]


@pytest.mark.parametrize("error", [ValueError("no such secret"), TransportError("bad certificate", permanent=True)])
async def test_permanent_error_of_the_credentials_is_raised_at_the_start(error: Exception) -> None:
    async def vault() -> tuple[str, str]:
        raise error

    sandbox = Sandbox()
    async with FreightExchange(sandbox.url, credentials=vault, http_client=sandbox.http_client()) as exchange:
        with pytest.raises(type(error), match=str(error)):
            await exchange.watch(interval=MINUTE).__aenter__()


async def test_filtered_requests_delay_no_reader() -> None:
    """A memory store works in the loop itself, and yields to other tasks after each hundred requests."""
    sandbox = Sandbox()
    for _ in range(1000):
        sandbox.publish(Cargo(origin="Oslo"))
    where = RequestFilter(origin="Bergen")
    async with (
        sandbox.client() as exchange,
        exchange.watch(interval=MINUTE, start="backfill", where=where) as feed,
        anyio.create_task_group() as group,
    ):
        with anyio.CancelScope() as scope:

            async def leave() -> None:
                for _ in range(3):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

            group.start_soon(leave)
            await anext(feed)
        assert scope.cancelled_caught
        assert len(feed.lease.state().pending(limit=1000)) > 400


@pytest.mark.parametrize("index", ["1", None, True, 1.0])
async def test_explain_refuses_an_index_that_is_not_an_integer(index: Any) -> None:
    sandbox = Sandbox()
    sandbox.publish()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        with pytest.raises(ValidationError, match="index must be an integer"):
            await feed.explain(index)
        assert "1" in (await feed.explain(1)).sentence


async def test_a_pull_that_is_cancelled_loses_nothing() -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        index = sandbox.publish()
        while True:
            with anyio.move_on_after(7):
                event = await pulled(feed)
                break
    assert event.request.index == index


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval": timedelta(0)},
        {"allowance": 5},
        {"start": "later"},
        {"store": 7},
        {"name": ""},
        {"name": "\ud800"},
        {"start": timedelta(days=6)},
        {"standby": 1},
        {"where": "Oslo"},
        {"allowance": timedelta(days=6)},
    ],
)
async def test_wrong_arguments_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        Sandbox().client().watch(**wrong)  # type: ignore[arg-type]  # wrong on purpose
