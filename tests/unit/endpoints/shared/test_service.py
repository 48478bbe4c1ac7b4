"""Tests of the calls of every resource: their errors, their reports, and their empty replies."""

from __future__ import annotations

import inspect
from importlib import metadata

import anyio
import pytest
from tests.unit.endpoints.scripted import BROKEN, ROUTE, USER, ScriptedService, carried, replies

import freight_exchange
from freight_exchange import (
    DeadlineExceededError,
    DecodeError,
    FreightExchange,
    NotFoundError,
    OutcomeUnknownError,
    RequestFilter,
    ValidationError,
)
from freight_exchange.hooks import BrokenRecord


class TestWhatErrorsCarry:
    async def test_a_strict_listing(self) -> None:
        service = ScriptedService(replies({}, 502), replies({"raterequests": [BROKEN]}))
        async with service.client(strict=True) as exchange:
            with pytest.raises(DecodeError) as caught:
                await exchange.requests.search()
        assert carried(caught.value) == ("quote/getrequests", 200, 2)
        assert caught.value.path == "raterequests.0.weight"
        assert len(service.requests) == 2

    async def test_a_broken_record_that_hooks_receive(self) -> None:
        service = ScriptedService(replies({"raterequests": [BROKEN, {"index": 9}]}))
        async with service.client() as exchange:
            assert [request.index for request in await exchange.requests.search()] == [9]
        (event,) = [event for event in service.events if isinstance(event, BrokenRecord)]
        assert carried(event.error) == ("quote/getrequests", 200, 1)

    @pytest.mark.parametrize("found", [{}, {"raterequests": [{"index": 9}]}])
    async def test_a_lookup_that_finds_nothing(self, found: object) -> None:
        service = ScriptedService(replies({}, 503), replies({}, 503), replies(found))
        async with service.client() as exchange:
            with pytest.raises(NotFoundError, match="8") as caught:
                await exchange.requests.get(8)
        assert carried(caught.value) == ("quote/getrequests", 200, 3)
        assert len(service.requests) == 3

    @pytest.mark.virtual_time
    async def test_a_login_past_its_deadline(self) -> None:
        async def give() -> tuple[str, str]:
            await anyio.sleep_forever()
            raise AssertionError

        exchange = FreightExchange("http://127.0.0.1/api", credentials=give, deadline=5)
        async with exchange:
            with pytest.raises(DeadlineExceededError, match="POST login") as caught:
                await exchange.login()
        assert carried(caught.value) == ("login", None, 0)
        assert caught.value.elapsed == pytest.approx(5)


class TestLookups:
    @pytest.mark.parametrize(
        "wrong",
        [BROKEN, BROKEN | {"index": "8"}, {"weight": {}}, BROKEN | {"index": []}, BROKEN | {"index": "FX8"}, 5],
        ids=str,
    )
    async def test_the_wanted_record_is_broken_or_may_be(self, wrong: object) -> None:
        service = ScriptedService(replies({"raterequests": [{"index": 9}, BROKEN | {"index": 10}, wrong]}))
        async with service.client() as exchange:
            with pytest.raises(DecodeError) as caught:
                await exchange.requests.get(8)
        assert caught.value.path.startswith("raterequests.2")
        assert carried(caught.value) == ("quote/getrequests", 200, 1)

    @pytest.mark.parametrize("unknown", [{"weight": {}}, {"index": "FX8"}, 5, None], ids=str)
    async def test_the_wanted_record_goes_before_one_that_may_be_it(self, unknown: object) -> None:
        service = ScriptedService(replies({"raterequests": [unknown, {"index": 9}, BROKEN, unknown]}))
        async with service.client() as exchange:
            with pytest.raises(DecodeError) as caught:
                await exchange.requests.get(8)
        assert caught.value.path == "raterequests.2.weight"
        assert caught.value.raw == BROKEN

    async def test_a_broken_record_of_another_index_is_no_answer(self) -> None:
        service = ScriptedService(replies({"raterequests": [BROKEN | {"index": 10}, BROKEN | {"index": "11"}]}))
        async with service.client(strict=True) as exchange:
            with pytest.raises(NotFoundError):
                await exchange.requests.get(8)

    async def test_the_wanted_record_among_broken_ones(self) -> None:
        service = ScriptedService(replies({"raterequests": [{"weight": {}}, {"index": 8}]}))
        async with service.client(strict=True) as exchange:
            assert (await exchange.requests.get(8)).index == 8


async def test_search_yields_the_requests_that_its_filter_matches() -> None:
    rows = [{"index": 4, "origin": "Oslo"}, {"index": 5, "origin": "Hong Kong"}, {"index": 6}]
    service = ScriptedService(replies({"raterequests": rows}), replies({"raterequests": []}))
    async with service.client() as exchange:
        found = await exchange.requests.search(where=RequestFilter(origin="hong kong")).collect()
        with pytest.raises(ValidationError, match="where must be a RequestFilter"):
            exchange.requests.search(where={"origin": "Oslo"})  # type: ignore[arg-type,unused-awaitable]
    assert [request.index for request in found] == [5, 6]


class TestWrittenRoutes:
    @pytest.mark.parametrize("envelope", [{"error": False}, {"error": None}, {"errors": []}], ids=str)
    async def test_a_success_that_reports_an_error(self, envelope: dict[str, object]) -> None:
        service = ScriptedService(replies({**envelope, "routes": {"0": {"index": 9}}}))
        async with service.client() as exchange:
            written = await exchange.routes.create(ROUTE)
        assert written is not None
        assert written.index == 9

    async def test_an_error_in_a_success_is_doubt(self) -> None:
        async with ScriptedService(replies({"error": True, "routes": {"0": {"index": 9}}})).client() as exchange:
            with pytest.raises(OutcomeUnknownError):
                await exchange.routes.create(ROUTE)


async def test_an_account_whose_fields_cannot_be_read_logs_in_and_shows_no_token() -> None:
    odd = {"company": "t0ken", "email": ["t0ken"], "imageUrl": {"password": "correct horse", "url": "x?t=t0ken"}}
    async with ScriptedService(replies({}), login=replies({"user": {**USER["user"], **odd}})).client() as exchange:
        user = await exchange.login()
    assert (user.first_name, user.company, user.email) == ("Ada", None, None)
    assert user.extra.keys() == odd.keys()
    assert "t0ken" not in repr(user)
    assert "correct horse" not in repr(user)


@pytest.mark.parametrize("resource", ["requests", "offers", "bids", "routes", "carriers", "currencies"])
async def test_docstring_of_every_public_method_lists_its_errors(resource: str) -> None:
    methods = {
        "requests": {"open", "get_open", "search", "get", "publish"},
        "offers": {"list", "get", "search", "approve", "decline"},
        "bids": {"list", "submit"},
        "routes": {"list", "get", "create", "update"},
        "carriers": {"list", "get"},
        "currencies": {"list", "get", "by_code"},
    }[resource]
    async with ScriptedService(replies({})).client() as exchange:
        holder = type(getattr(exchange, resource))
    assert {name for name in vars(holder) if not name.startswith("_")} == methods
    for name in methods:
        method = getattr(holder, name)
        docstring = method.__doc__
        assert "service document, 4." in docstring
        if len(inspect.signature(method).parameters) > 1:
            assert "ValidationError:" in docstring, name
        if name in {"publish", "approve", "decline", "submit", "create", "update"}:
            assert "OutcomeUnknownError:" in docstring, name


class TestEmptyReplies:
    @pytest.mark.parametrize("body", [b"", b" \r\n", b"\xef\xbb\xbf", b"\r\n\xef\xbb\xbf \n"])
    async def test_white_space_and_a_byte_order_mark_are_empty(self, body: bytes) -> None:
        service = ScriptedService(replies(body))
        async with service.client() as exchange:
            assert await exchange.request("POST", "anything", body={}) is None
            assert await exchange.request("GET", "anything") is None
            assert await exchange.routes.create(ROUTE) is None


def test_the_version_is_the_installed_one_and_no_other_name_appears() -> None:
    assert freight_exchange.__version__ == metadata.version("freight-exchange")
    with pytest.raises(AttributeError, match="Freight"):
        vars(freight_exchange)["__getattr__"]("Freight")
