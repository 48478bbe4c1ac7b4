"""Tests of error messages: replies of gateways, empty listings, and logins."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest
from tests.unit.endpoints.scripted import ScriptedService, replies

from freight_exchange import (
    BadRequestError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
    Request,
    Response,
)
from freight_exchange.endpoints.updated_requests import UpdatedRequests
from freight_exchange.transport.message import Next


class TestMessages:
    async def test_a_listing_where_there_is_nothing(self) -> None:
        async with ScriptedService(replies(b"<html>", 404)).client() as exchange:
            with pytest.raises(NotFoundError, match="base_url may be wrong"):
                await exchange.carriers.list()
            with pytest.raises(NotFoundError) as caught:
                await exchange.carriers.get(4)
        assert "base_url" not in str(caught.value)

    @pytest.mark.parametrize(
        ("message", "reported"),
        [
            ("No records found.", True),
            ("No rate requests found", True),
            ("There are no open requests", False),
            ("The request could not be routed", False),
            ("No healthy upstream for request", False),
            ("No routes found", False),
        ],
    )
    async def test_a_404_about_records_is_an_empty_listing_and_a_gateways_is_not(
        self, message: str, reported: bool
    ) -> None:
        async with ScriptedService(replies({"message": message}, 404)).client() as exchange:
            updated = UpdatedRequests(exchange.requests._service)
            if reported:
                assert not (await exchange.requests.search()).records
                assert await updated.find(4) is None
                return
            with pytest.raises(NotFoundError, match=f"{message}; base_url may be wrong"):
                await exchange.requests.search()
            with pytest.raises(NotFoundError, match=message):
                await updated.find(4)

    @pytest.mark.parametrize(
        "answer", [replies(b"<html>", 404), replies({"message": "no route"}, 404)], ids=["HTML", "JSON"]
    )
    async def test_a_404_is_an_empty_listing_where_the_client_is_set_so(self, answer: httpx.Response) -> None:
        service = ScriptedService(answer)
        async with service.client(missing_list_is_empty=True) as exchange:
            assert await exchange.requests.search().collect() == []
            # A look-up is not a listing.
            with pytest.raises(NotFoundError):
                await exchange.requests.get(4)
            with pytest.raises(NotFoundError):
                await UpdatedRequests(exchange.requests._service).find(4)

    @pytest.mark.parametrize("message", ["no route", "no records found"])
    async def test_a_login_where_there_is_nothing(self, message: str) -> None:
        async with ScriptedService(replies({}), login=replies({"message": message}, 404)).client() as exchange:
            with pytest.raises(NotFoundError, match=rf"{message}; base_url may be wrong \[POST login"):
                await exchange.carriers.list()

    async def test_error_of_a_rejected_login_says_how_to_go_on(self) -> None:
        async with ScriptedService(
            replies({}), login=replies({"message": "Wrong password."}, 401)
        ).client() as exchange:
            for _ in range(2):
                with pytest.raises(LoginRejectedError, match=r"Wrong password; .*credentials change.*reset_login\(\)"):
                    await exchange.login()

    @pytest.mark.parametrize(
        ("body", "message"),
        [(b"no such fee\r\n", "wrong: no such fee [POST"), (b"<html>oops</html>", "wrong [POST"), (b"", "wrong [POST")],
    )
    async def test_replies_without_json(self, body: bytes, message: str) -> None:
        async with ScriptedService(replies(body, 400)).client() as exchange:
            with pytest.raises(BadRequestError) as caught:
                await exchange.requests.search()
        assert message in str(caught.value)

    async def test_too_many_calls(self) -> None:
        service = ScriptedService(httpx.Response(429, headers={"Retry-After": "400"}))
        async with service.client() as exchange:
            with pytest.raises(RateLimitedError, match="wait 400 s"):
                await exchange.carriers.list()


async def test_the_query_string_of_a_free_call() -> None:
    requests: list[Request] = []

    async def note(request: Request, call_next: Next) -> Response:
        requests.append(request)
        return await call_next(request)

    async with ScriptedService(replies({})).client(middleware=[note], deadline=timedelta(seconds=9)) as exchange:
        await exchange.request("GET", "route", params={"index": 301, "timezone": "Asia/Hong_Kong"})
    (params,) = [request.params for request in requests if request.path == "route"]
    assert params == (("index", "301"), ("timezone", "Asia/Hong_Kong"))
