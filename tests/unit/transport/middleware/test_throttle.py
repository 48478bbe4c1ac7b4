"""Tests of the throttle: `Retry-After` for every call of a client."""

from __future__ import annotations

import anyio
import httpx
import pytest

from freight_exchange import FreightExchange, RateLimitedError

pytestmark = pytest.mark.virtual_time


class Service:
    """Service that answers the first read with 429 and `Retry-After`, and counts requests."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after: float | None = retry_after
        self.times: list[float] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("login"):
            return httpx.Response(200, json={"user": {"access_token": "a-token", "expires_on": 10**6}})
        self.times.append(anyio.current_time())
        wait, self.retry_after = self.retry_after, None
        if wait is not None:
            return httpx.Response(429, headers={"retry-after": f"{wait:.0f}"}, json={})
        return httpx.Response(200, json={"carriers": {}})

    def client(self) -> FreightExchange:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self.answer), trust_env=False)
        return FreightExchange("https://host/api", email="me@co.example", password="p", http_client=http)


@pytest.mark.parametrize(("retry_after", "held"), [(1000, 1000), (10**8, 3600)])
async def test_read_is_not_sent_before_the_time_that_another_read_was_asked_to_wait(
    retry_after: int, held: int
) -> None:
    service = Service(retry_after)
    async with service.client() as exchange:
        with pytest.raises(RateLimitedError):
            await exchange.carriers.list().collect()
        await anyio.sleep(held / 2)
        with pytest.raises(RateLimitedError, match="nothing was sent") as caught:
            await exchange.carriers.list().collect()
        assert caught.value.retry_after == pytest.approx(held / 2, abs=1)
        assert len(service.times) == 1
        await anyio.sleep(held / 2 + 1)
        await exchange.carriers.list().collect()
    assert len(service.times) == 2


async def test_read_waits_where_its_deadline_allows() -> None:
    service = Service(20)
    async with service.client() as exchange, anyio.create_task_group() as tasks:
        tasks.start_soon(exchange.carriers.list().collect)
        await anyio.sleep(5)
        await exchange.carriers.list().collect()
    assert min(service.times[1:]) - service.times[0] >= 20
