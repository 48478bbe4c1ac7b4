"""Tests of a gateway's replies while a client that has logged in before refreshes its token."""

from __future__ import annotations

import json

import anyio
import httpx
import pytest

from freight_exchange import AuthenticationError, FreightExchange, FreightExchangeError, LoginRejectedError

pytestmark = pytest.mark.virtual_time

HTML = b"<html><head><title>Forbidden</title></head><body>Down for maintenance: password reset at noon</body></html>"
REPLIES = {
    "403 HTML": (403, HTML),
    "403 JSON": (403, b'{"message": "Forbidden"}'),
    "401 JSON": (401, b'{"message": "Unauthorized"}'),
    "401 HTML": (401, HTML),
    "200 HTML": (200, HTML),
    "200 JSON": (200, b'{"message": "maintenance"}'),
    "200 empty": (200, b""),
    "200 list": (200, b"[]"),
    "400 HTML": (400, HTML),
    "400 JSON": (400, b'{"message": "Bad Request"}'),
    "400 JSON, no message": (400, b'{"error": {"code": 400}}'),
    "422 JSON": (422, b'{"message": "invalid request", "Unauthorized": "access denied"}'),
    "404 JSON": (404, b'{"message": "no Route matched with those values"}'),
    "407 HTML": (407, HTML),
    "503 HTML": (503, HTML),
}


class Gateway:
    """Service behind a gateway, which answers logins while the service is `down`."""

    def __init__(self, status: int, content: bytes) -> None:
        self.reply = status, content
        self.down = False
        self.logins = 0
        self.valid = ""

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            self.logins += 1
            if self.down:
                return httpx.Response(self.reply[0], content=self.reply[1])
            self.valid = f"t{self.logins}"
            return httpx.Response(200, json={"user": {"access_token": self.valid, "expires_on": 3600}})
        if request.headers["authorization"] != f"Bearer {self.valid}":
            return httpx.Response(401, json={"Unauthorized": "access denied"})
        return httpx.Response(200, content=json.dumps({"carriers": [{"index": 1}]}))

    def client(self) -> FreightExchange:
        return FreightExchange(
            "http://127.0.0.1/api",
            email="me@co.example",
            password="correct horse",
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self.answer)),
        )


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("ended", ["by the clock", "by the service"])
async def test_reply_of_a_gateway_at_a_refresh_holds_logins_and_ends_none(name: str, ended: str) -> None:
    gateway = Gateway(*REPLIES[name])
    async with gateway.client() as exchange:
        assert [carrier.index for carrier in await exchange.carriers.list()] == [1]
        gateway.down, gateway.valid = True, ""
        if ended == "by the clock":
            await anyio.sleep(3600)
        for _ in range(8):
            with pytest.raises(FreightExchangeError) as caught:
                await exchange.carriers.list()
            assert not isinstance(caught.value, LoginRejectedError)
            if gateway.reply[0] >= 500:
                await anyio.sleep(30)
                continue
            assert isinstance(caught.value, AuthenticationError)
            assert caught.value.retry_after is not None
            with pytest.raises(AuthenticationError):
                await exchange.carriers.list()
            await anyio.sleep(caught.value.retry_after)
        assert gateway.logins <= 1 + 8 * 4
        gateway.down = False
        await anyio.sleep(600)
        assert [carrier.index for carrier in await exchange.carriers.list()] == [1]


@pytest.mark.parametrize("name", ["403 JSON", "403 HTML", "200 JSON", "400 HTML", "404 JSON"])
async def test_calls_send_no_login_while_logins_are_held(name: str) -> None:
    gateway = Gateway(*REPLIES[name])
    async with gateway.client() as exchange:
        await exchange.login()
        gateway.down, gateway.valid = True, ""
        for _ in range(20):
            with pytest.raises(AuthenticationError):
                await exchange.carriers.list()
        assert gateway.logins == 2
