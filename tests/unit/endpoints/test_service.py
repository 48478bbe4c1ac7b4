"""What every resource calls: what its errors carry, what it reports, and what it takes for nothing at all."""

from __future__ import annotations

import inspect
import json
from datetime import datetime, timedelta
from importlib import metadata
from typing import Any

import anyio
import httpx
import pytest

import freight_exchange
from freight_exchange import (
    BadRequestError,
    DeadlineExceededError,
    DecodeError,
    FreightExchange,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitedError,
    Request,
    RequestFilter,
    Response,
    RetryPolicy,
    RouteDraft,
    ValidationError,
)
from freight_exchange.endpoints.updated_requests import UpdatedRequests
from freight_exchange.hooks import BrokenRecord, Event
from freight_exchange.transport.message import Next

USER = {"user": {"access_token": "t0ken", "expires_on": 3600, "firstname": "Ada"}}
BROKEN = {"index": 8, "weight": {}}
OFFERS = {"offers": {"0": {"index": 7, "offer": {"0": {"offerId": "31", "offerAmount": "much"}}}, "1": {"index": 8}}}
ROUTE = RouteDraft(
    origin="Busan",
    destination="Hamburg",
    cy_cutoff=datetime(2030, 1, 1),
    cfs_cutoff=datetime(2030, 1, 2),
    departure=datetime(2030, 1, 3),
    arrival=datetime(2030, 2, 1),
    carrier=3,
    vessel="MV Example",
    voyage_id="001W",
    timezone="Asia/Seoul",
)


def says(data: object, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=data if isinstance(data, bytes) else json.dumps(data).encode())


class Desk:
    """A service that logs everybody in and gives its answers in turn, the last one for ever."""

    def __init__(self, *answers: httpx.Response, login: httpx.Response | None = None) -> None:
        self.answers = list(answers)
        self.login = login if login is not None else says(USER)
        self.asked: list[tuple[str, Any]] = []
        self.events: list[Event] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            given = self.login
        else:
            self.asked.append((request.url.path, json.loads(request.content or b"null")))
            given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return httpx.Response(given.status_code, headers=given.headers, content=given.content)

    def client(self, **options: Any) -> FreightExchange:
        return FreightExchange(
            "http://127.0.0.1/api",
            email="me@co.example",
            password="correct horse",
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self.answer)),
            retries=RetryPolicy(base=0.001, cap=0.001),
            hooks=[self.events.append],
            **options,
        )

    @property
    def broken(self) -> list[str]:
        return [event.error.path for event in self.events if isinstance(event, BrokenRecord)]


def carried(error: FreightExchangeError) -> tuple[str | None, int | None, int]:
    """What an error tells of its call; how long it took is told as well."""
    assert error.elapsed is not None
    assert error.elapsed >= 0
    assert error.settled
    path = error.request_path if isinstance(error, DecodeError) else error.path
    return path, error.status, error.attempts


class TestWhatErrorsCarry:
    async def test_a_strict_listing(self) -> None:
        desk = Desk(says({}, 502), says({"raterequests": [BROKEN]}))
        async with desk.client(strict=True) as exchange:
            with pytest.raises(DecodeError) as caught:
                await exchange.requests.search()
        assert carried(caught.value) == ("quote/getrequests", 200, 2)
        assert caught.value.path == "raterequests.0.weight"
        assert len(desk.asked) == 2

    async def test_a_broken_record_that_hooks_are_told_of(self) -> None:
        desk = Desk(says({"raterequests": [BROKEN, {"index": 9}]}))
        async with desk.client() as exchange:
            assert [request.index for request in await exchange.requests.search()] == [9]
        (event,) = [event for event in desk.events if isinstance(event, BrokenRecord)]
        assert carried(event.error) == ("quote/getrequests", 200, 1)

    @pytest.mark.parametrize("found", [{}, {"raterequests": [{"index": 9}]}])
    async def test_a_lookup_that_finds_nothing(self, found: object) -> None:
        desk = Desk(says({}, 503), says({}, 503), says(found))
        async with desk.client() as exchange:
            with pytest.raises(NotFoundError, match="8") as caught:
                await exchange.requests.get(8)
        assert carried(caught.value) == ("quote/getrequests", 200, 3)
        assert len(desk.asked) == 3

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
        desk = Desk(says({"raterequests": [{"index": 9}, BROKEN | {"index": 10}, wrong]}))
        async with desk.client() as exchange:
            with pytest.raises(DecodeError) as caught:
                await exchange.requests.get(8)
        assert caught.value.path.startswith("raterequests.2")
        assert carried(caught.value) == ("quote/getrequests", 200, 1)

    @pytest.mark.parametrize("unknown", [{"weight": {}}, {"index": "FX8"}, 5, None], ids=str)
    async def test_the_wanted_record_goes_before_one_that_may_be_it(self, unknown: object) -> None:
        desk = Desk(says({"raterequests": [unknown, {"index": 9}, BROKEN, unknown]}))
        async with desk.client() as exchange:
            with pytest.raises(DecodeError) as caught:
                await exchange.requests.get(8)
        assert caught.value.path == "raterequests.2.weight"
        assert caught.value.raw == BROKEN

    async def test_a_broken_record_of_another_index_is_no_answer(self) -> None:
        desk = Desk(says({"raterequests": [BROKEN | {"index": 10}, BROKEN | {"index": "11"}]}))
        async with desk.client(strict=True) as exchange:
            with pytest.raises(NotFoundError):
                await exchange.requests.get(8)

    async def test_the_wanted_record_among_broken_ones(self) -> None:
        desk = Desk(says({"raterequests": [{"weight": {}}, {"index": 8}]}))
        async with desk.client(strict=True) as exchange:
            assert (await exchange.requests.get(8)).index == 8


async def test_search_yields_the_requests_that_its_filter_matches() -> None:
    rows = [{"index": 4, "origin": "Oslo"}, {"index": 5, "origin": "Hong Kong"}, {"index": 6}]
    desk = Desk(says({"raterequests": rows}), says({"raterequests": []}))
    async with desk.client() as exchange:
        found = await exchange.requests.search(where=RequestFilter(origin="hong kong")).collect()
        with pytest.raises(ValidationError, match="where must be a RequestFilter"):
            exchange.requests.search(where={"origin": "Oslo"})  # type: ignore[arg-type]
    assert [request.index for request in found] == [5, 6]


class TestFlaws:
    """Parts of records that could not be read: reported like broken records, while the record itself counts."""

    async def test_a_listing_tells_of_them(self, caplog: pytest.LogCaptureFixture) -> None:
        desk = Desk(says(OFFERS))
        async with desk.client() as exchange:
            assert [listing.index for listing in await exchange.offers.list()] == [7, 8]
        assert len(desk.broken) == 1
        assert desk.broken[0].startswith("offers.0.offer.0")
        assert [record.levelname for record in caplog.records if desk.broken[0] in record.message] == ["WARNING"]

    async def test_a_strict_listing_fails(self) -> None:
        desk = Desk(says(OFFERS))
        async with desk.client(strict=True) as exchange:
            with pytest.raises(DecodeError) as caught:
                await exchange.offers.list()
        assert caught.value.path.startswith("offers.0.offer.0")
        assert carried(caught.value) == ("quote/offer", 200, 1)

    async def test_a_lookup_tells_of_its_own_only(self) -> None:
        desk = Desk(says(OFFERS))
        async with desk.client(strict=True) as exchange:
            assert (await exchange.offers.get(8)).index == 8
            with pytest.raises(DecodeError):
                await exchange.offers.get(7)


class TestOncePerReading:
    """What could not be read is told once, however often its page comes."""

    ROWS: tuple[object, ...] = (
        {"index": 1},
        BROKEN,
        None,
        None,
        {"index": 2, "loadingPOC": "Bob", "offer": {"0": {"offerId": "31", "offerAmount": "much"}}},
    )
    PATHS = ["1.weight", "2", "3", "4.offer.0.offerAmount", "4.loadingPOC"]

    @staticmethod
    def page(*rows: object) -> httpx.Response:
        return says({"offers": [*rows]})

    def warnings(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        return [record.message for record in caplog.records if "left out" in record.message]

    @pytest.mark.parametrize("sweep", [False, True])
    @pytest.mark.parametrize("window", [1, 3])
    async def test_a_last_page_over_again(self, sweep: bool, window: int, caplog: pytest.LogCaptureFixture) -> None:
        desk = Desk(self.page(*self.ROWS))
        async with desk.client() as exchange:
            listing = exchange.offers.list(page_size=5, sweep=sweep, window=window)
            assert [row.index for row in await listing.collect()] == [1, 2]
            assert len(desk.asked) >= 2
            assert desk.broken == [f"offers.{path}" for path in self.PATHS]
            assert len(self.warnings(caplog)) == len(self.PATHS)
            # Another reading of the same listing tells of what it meets.
            await listing
            assert len(desk.broken) == len(self.warnings(caplog)) == 2 * len(self.PATHS)

    async def test_rows_that_come_in_another_place_or_more_often(self) -> None:
        desk = Desk(
            self.page({"index": 1}, BROKEN, None), self.page(BROKEN, None, None), self.page({"index": 3}, BROKEN)
        )
        async with desk.client() as exchange:
            await exchange.offers.list(page_size=3).collect()
        assert desk.broken == ["offers.1.weight", "offers.2", "offers.2"]

    async def test_of_many_broken_rows_some_are_reported_and_the_others_counted(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        desk = Desk(self.page(*({"index": n, "weight": {}} for n in range(1, 301)), {"index": 500}), self.page())
        async with desk.client() as exchange:
            rows = await exchange.offers.list(page_size=301).collect()
        assert [row.index for row in rows] == [500]
        assert desk.broken == [*(f"offers.{n}.weight" for n in range(100)), "$"]
        assert len(self.warnings(caplog)) == 101
        assert "200 more parts of a reply that cannot be read" in self.warnings(caplog)[-1]

    async def test_keys_that_repeat_are_reported_once_a_listing(self, caplog: pytest.LogCaptureFixture) -> None:
        pages = [b'{"offers": {"0": {"index": %d, "notes": "a", "notes": "b"}}}' % number for number in (1, 2)]
        desk = Desk(*(says(page) for page in pages), self.page())
        async with desk.client() as exchange:
            rows = await exchange.offers.list(page_size=1).collect()
        assert [(row.index, row.notes) for row in rows] == [(1, "b"), (2, "b")]
        assert desk.broken == ["offers"]
        [warning] = self.warnings(caplog)
        assert "the key 'notes' repeats: only its last value is read" in warning

    @pytest.mark.parametrize("strict", [False, True])
    async def test_keys_that_repeat_in_the_reply_to_a_write_are_reported(
        self, strict: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        bid = b'{"index": 4, "notes": "a", "notes": "b", "offer": {"index": 9, "offerAmount": 5, "currencyIndex": 840}}'
        desk = Desk(says(b'{"bid": {"index": 3}, "bid": %s}' % bid))
        async with desk.client(strict=strict) as exchange:
            written = await exchange.bids.submit(4, amount=5, currency=840)
            await anyio.wait_all_tasks_blocked()
        assert (written.index, written.notes) == (4, "b")
        assert [warning.partition(" repeats")[0] for warning in self.warnings(caplog)] == [
            "a part of a reply was left out: the key 'notes'",
            "a part of a reply was left out: the key 'bid'",
        ]
        found = [event for event in desk.events if isinstance(event, BrokenRecord)]
        assert [(event.method, event.path) for event in found] == [("POST", "quote/submitoffer")] * 2
        assert {event.error.status for event in found} == {200}

    async def test_keys_that_repeat_hold_up_no_write(self) -> None:
        entered = anyio.Event()

        async def hang(event: Event) -> None:
            if isinstance(event, BrokenRecord):
                entered.set()
                await anyio.sleep_forever()

        desk = Desk(says(b'{"routes": {"0": {"index": 4, "timezone": "a", "timezone": "b"}}}'))
        async with desk.client() as exchange:
            view = exchange._heard_by(hang)
            route = await view.routes.create(ROUTE)
            assert not entered.is_set()
            with anyio.fail_after(5):
                await entered.wait()
        assert route is not None
        assert route.index == 4

    @pytest.mark.parametrize("method", ["GET", "POST"])
    async def test_keys_that_repeat_in_any_other_reply_are_reported(
        self, method: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        desk = Desk(says(b'{"a": 1, "a": 2}'))
        async with desk.client() as exchange:
            assert await exchange.request(method, "quote/other") == {"a": 2}
            await anyio.wait_all_tasks_blocked()
        assert desk.broken == ["$"]
        assert len(self.warnings(caplog)) == 1

    async def test_keys_that_repeat_in_the_pages_of_a_feed_are_reported_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        desk = Desk(says(b'{"raterequests": {"0": {"index": 4, "notes": "a", "notes": "b"}}}'))
        async with desk.client() as exchange:
            source = UpdatedRequests(exchange.requests._service)
            for _ in range(3):
                page = await source.page(0, 100, 60)
                assert [row.notes for row in page.records] == ["b"]
            await anyio.wait_all_tasks_blocked()
        assert desk.broken == ["raterequests"]
        assert len(self.warnings(caplog)) == 1

    async def test_a_strict_reading_fails_at_the_same_row_again(self) -> None:
        desk = Desk(self.page(*self.ROWS))
        async with desk.client(strict=True) as exchange:
            pages = exchange.offers.list(page_size=5).pages()
            for _ in range(2):
                with pytest.raises(DecodeError, match="weight"):
                    await anext(pages)
            await pages.aclose()


class TestErrorsBesideRecords:
    CUT = says({"raterequests": [{"index": 1}], "error": "query timed out after 1 of 3 rows"})

    async def test_a_listing_gives_the_records_and_tells_of_the_error(self) -> None:
        desk = Desk(self.CUT, says({"raterequests": []}))
        async with desk.client() as exchange:
            assert [request.index for request in await exchange.requests.search()] == [1]
        assert desk.broken == ["$"]

    async def test_a_strict_listing_fails(self) -> None:
        async with Desk(self.CUT).client(strict=True) as exchange:
            with pytest.raises(DecodeError, match="an error beside records") as caught:
                await exchange.requests.search()
        assert carried(caught.value) == ("quote/getrequests", 200, 1)

    async def test_a_lookup_finds_what_is_there_and_does_not_say_that_another_is_not(self) -> None:
        async with Desk(self.CUT).client() as exchange:
            assert (await exchange.requests.get(1)).index == 1
            with pytest.raises(DecodeError, match="an error beside records"):
                await exchange.requests.get(2)

    async def test_an_error_beside_a_submitted_bid_is_doubt(self) -> None:
        desk = Desk(says({"error": "the request is closed for offers", "bid": {"index": 4}}))
        async with desk.client() as exchange:
            with pytest.raises(OutcomeUnknownError):
                await exchange.bids.submit(4, amount=5, currency=840)


class TestWrittenRoutes:
    @pytest.mark.parametrize("envelope", [{"error": False}, {"error": None}, {"errors": []}], ids=str)
    async def test_a_success_that_says_what_is_wrong_with_it(self, envelope: dict[str, object]) -> None:
        desk = Desk(says({**envelope, "routes": {"0": {"index": 9}}}))
        async with desk.client() as exchange:
            written = await exchange.routes.create(ROUTE)
        assert written is not None
        assert written.index == 9

    async def test_an_error_in_a_success_is_doubt(self) -> None:
        async with Desk(says({"error": True, "routes": {"0": {"index": 9}}})).client() as exchange:
            with pytest.raises(OutcomeUnknownError):
                await exchange.routes.create(ROUTE)


async def test_an_account_whose_fields_cannot_be_read_logs_in_and_shows_no_token() -> None:
    odd = {"company": "t0ken", "email": ["t0ken"], "imageUrl": {"password": "correct horse", "url": "x?t=t0ken"}}
    async with Desk(says({}), login=says({"user": {**USER["user"], **odd}})).client() as exchange:
        user = await exchange.login()
    assert (user.first_name, user.company, user.email) == ("Ada", None, None)
    assert user.extra.keys() == odd.keys()
    assert "t0ken" not in repr(user)
    assert "correct horse" not in repr(user)


@pytest.mark.parametrize("resource", ["requests", "offers", "bids", "routes", "carriers", "currencies"])
async def test_every_public_method_is_documented_with_what_it_raises(resource: str) -> None:
    methods = {
        "requests": {"open", "get_open", "search", "get", "publish"},
        "offers": {"list", "get", "search", "approve", "decline"},
        "bids": {"list", "submit"},
        "routes": {"list", "get", "create", "update"},
        "carriers": {"list", "get"},
        "currencies": {"list", "get", "by_code"},
    }[resource]
    async with Desk(says({})).client() as exchange:
        holder = type(getattr(exchange, resource))
    assert {name for name in vars(holder) if not name.startswith("_")} == methods
    for name in methods:
        method = getattr(holder, name)
        said = method.__doc__
        assert "service document, 4." in said
        if len(inspect.signature(method).parameters) > 1:
            assert "ValidationError:" in said, name
        if name in {"publish", "approve", "decline", "submit", "create", "update"}:
            assert "OutcomeUnknownError:" in said, name


class TestEmptyReplies:
    @pytest.mark.parametrize("body", [b"", b" \r\n", b"\xef\xbb\xbf", b"\r\n\xef\xbb\xbf \n"])
    async def test_white_space_and_a_byte_order_mark_say_nothing(self, body: bytes) -> None:
        desk = Desk(says(body))
        async with desk.client() as exchange:
            assert await exchange.request("POST", "anything", body={}) is None
            assert await exchange.request("GET", "anything") is None
            assert await exchange.routes.create(ROUTE) is None


class TestCurrencies:
    USD = {"index": 1, "name": "US Dollar", "code": " usd "}
    EUR = {"index": 2, "name": "Euro", "code": "EUR"}

    async def test_an_empty_list_is_not_kept(self) -> None:
        desk = Desk(says({"currencies": []}), says({"currencies": [self.USD]}))
        async with desk.client() as exchange:
            with pytest.raises(ValidationError, match="none"):
                await exchange.currencies.by_code("USD")
            assert (await exchange.currencies.by_code("Usd ")).index == 1

    @pytest.mark.virtual_time
    async def test_a_code_that_the_list_lacks_is_looked_for_again_after_a_minute(self) -> None:
        desk = Desk(says({"currencies": [self.USD]}), says({"currencies": [self.USD, self.EUR]}))
        async with desk.client() as exchange:
            await exchange.currencies.by_code("USD")
            with pytest.raises(ValidationError, match="which has USD"):
                await exchange.currencies.by_code("EUR")
            assert len(desk.asked) == 1
            await anyio.sleep(61)
            await exchange.currencies.by_code("USD")
            assert len(desk.asked) == 1
            assert (await exchange.currencies.by_code("EUR")).index == 2
            with pytest.raises(ValidationError, match="which has EUR, USD"):
                await exchange.currencies.by_code("GBP")
            assert len(desk.asked) == 2

    @pytest.mark.parametrize("listed", [[], [USD]], ids=["an empty list", "a list"])
    async def test_many_who_wait_for_the_list_fetch_it_once(self, listed: list[object]) -> None:
        desk = Desk(says({"currencies": listed}))
        refused: list[ValidationError] = []

        async def look() -> None:
            try:
                await exchange.currencies.by_code("EUR")
            except ValidationError as error:
                refused.append(error)

        async with desk.client() as exchange:
            await exchange.login()
            async with anyio.create_task_group() as group:
                for _ in range(50):
                    group.start_soon(look)
        assert len(refused) == 50
        assert len(desk.asked) == 1

    async def test_one_code_of_two_currencies(self) -> None:
        desk = Desk(says({"currencies": [self.USD, self.EUR | {"code": "USD"}]}))
        async with desk.client() as exchange:
            with pytest.raises(ValidationError, match="index, one of 1, 2") as caught:
                await exchange.currencies.by_code("USD")
            assert caught.value.field == "code"
            with pytest.raises(ValidationError, match="index, one of 1, 2") as caught:
                await exchange.bids.submit(4, amount=5, currency="USD")
            assert caught.value.field == "currency"


class TestMessages:
    async def test_a_listing_where_there_is_nothing(self) -> None:
        async with Desk(says(b"<html>", 404)).client() as exchange:
            with pytest.raises(NotFoundError, match="base_url may be wrong"):
                await exchange.carriers.list()
            with pytest.raises(NotFoundError) as caught:
                await exchange.carriers.get(4)
        assert "base_url" not in str(caught.value)

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            ("No records found.", True),
            ("No rate requests found", True),
            ("There are no open requests", False),
            ("The request could not be routed", False),
            ("No healthy upstream for request", False),
            ("No routes found", False),
        ],
    )
    async def test_what_a_404_says_of_records_is_an_empty_listing_and_what_a_gateway_says_is_not(
        self, said: str, told: bool
    ) -> None:
        async with Desk(says({"message": said}, 404)).client() as exchange:
            updated = UpdatedRequests(exchange.requests._service)
            if told:
                assert not (await exchange.requests.search()).records
                assert await updated.find(4) is None
                return
            with pytest.raises(NotFoundError, match=f"{said}; base_url may be wrong"):
                await exchange.requests.search()
            with pytest.raises(NotFoundError, match=said):
                await updated.find(4)

    @pytest.mark.parametrize("answer", [says(b"<html>", 404), says({"message": "no route"}, 404)], ids=["HTML", "JSON"])
    async def test_a_404_is_an_empty_listing_where_the_client_says_so(self, answer: httpx.Response) -> None:
        desk = Desk(answer)
        async with desk.client(missing_list_is_empty=True) as exchange:
            assert await exchange.requests.search().collect() == []
            # A look-up is no listing.
            with pytest.raises(NotFoundError):
                await exchange.requests.get(4)
            with pytest.raises(NotFoundError):
                await UpdatedRequests(exchange.requests._service).find(4)

    @pytest.mark.parametrize("said", ["no route", "no records found"])
    async def test_a_login_where_there_is_nothing(self, said: str) -> None:
        async with Desk(says({}), login=says({"message": said}, 404)).client() as exchange:
            with pytest.raises(NotFoundError, match=rf"{said}; base_url may be wrong \[POST login"):
                await exchange.carriers.list()

    async def test_a_rejected_login_says_what_to_do(self) -> None:
        async with Desk(says({}), login=says({"message": "Wrong password."}, 401)).client() as exchange:
            for _ in range(2):
                with pytest.raises(LoginRejectedError, match=r"Wrong password; .*credentials change.*reset_login\(\)"):
                    await exchange.login()

    @pytest.mark.parametrize(
        ("body", "said"),
        [(b"no such fee\r\n", "wrong: no such fee [POST"), (b"<html>oops</html>", "wrong [POST"), (b"", "wrong [POST")],
    )
    async def test_what_is_said_without_json(self, body: bytes, said: str) -> None:
        async with Desk(says(body, 400)).client() as exchange:
            with pytest.raises(BadRequestError) as caught:
                await exchange.requests.search()
        assert said in str(caught.value)

    async def test_too_many_calls(self) -> None:
        desk = Desk(httpx.Response(429, headers={"Retry-After": "400"}))
        async with desk.client() as exchange:
            with pytest.raises(RateLimitedError, match="wait 400 s"):
                await exchange.carriers.list()


async def test_the_query_string_of_a_free_call() -> None:
    asked: list[Request] = []

    async def note(request: Request, call_next: Next) -> Response:
        asked.append(request)
        return await call_next(request)

    async with Desk(says({})).client(middleware=[note], deadline=timedelta(seconds=9)) as exchange:
        await exchange.request("GET", "route", params={"index": 301, "timezone": "Asia/Hong_Kong"})
    (params,) = [request.params for request in asked if request.path == "route"]
    assert params == (("index", "301"), ("timezone", "Asia/Hong_Kong"))


def test_the_version_is_the_installed_one_and_no_other_name_appears() -> None:
    assert freight_exchange.__version__ == metadata.version("freight-exchange")
    with pytest.raises(AttributeError, match="Freight"):
        vars(freight_exchange)["__getattr__"]("Freight")
