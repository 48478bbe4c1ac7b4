"""Tests of reporting unreadable parts to the log and the hooks, once per read."""

from __future__ import annotations

import anyio
import httpx
import pytest
from tests.unit.endpoints.scripted import BROKEN, OFFERS, ROUTE, ScriptedService, carried, replies

from freight_exchange import (
    DecodeError,
    OutcomeUnknownError,
)
from freight_exchange.endpoints.own_offers import OwnOffers
from freight_exchange.endpoints.updated_requests import UpdatedRequests
from freight_exchange.hooks import BrokenRecord, Event


class TestFlaws:
    """Unreadable parts of records are reported like broken records, and the record itself counts."""

    async def test_a_listing_reports_them(self, caplog: pytest.LogCaptureFixture) -> None:
        service = ScriptedService(replies(OFFERS))
        async with service.client() as exchange:
            assert [listing.index for listing in await exchange.offers.list()] == [7, 8]
        assert len(service.broken) == 1
        assert service.broken[0].startswith("offers.0.offer.0")
        assert [record.levelname for record in caplog.records if service.broken[0] in record.message] == ["WARNING"]

    async def test_a_strict_listing_fails(self) -> None:
        service = ScriptedService(replies(OFFERS))
        async with service.client(strict=True) as exchange:
            with pytest.raises(DecodeError) as caught:
                await exchange.offers.list()
        assert caught.value.path.startswith("offers.0.offer.0")
        assert carried(caught.value) == ("quote/offer", 200, 1)

    async def test_a_lookup_reports_its_own_only(self) -> None:
        service = ScriptedService(replies(OFFERS))
        async with service.client(strict=True) as exchange:
            assert (await exchange.offers.get(8)).index == 8
            with pytest.raises(DecodeError):
                await exchange.offers.get(7)


class TestOncePerReading:
    """An unreadable record is reported once, even if its page comes several times."""

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
        return replies({"offers": [*rows]})

    def warnings(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        return [record.message for record in caplog.records if "was skipped" in record.message]

    @pytest.mark.parametrize("sweep", [False, True])
    @pytest.mark.parametrize("window", [1, 3])
    async def test_a_last_page_over_again(self, sweep: bool, window: int, caplog: pytest.LogCaptureFixture) -> None:
        service = ScriptedService(self.page(*self.ROWS))
        async with service.client() as exchange:
            listing = exchange.offers.list(page_size=5, sweep=sweep, window=window)
            assert [row.index for row in await listing.collect()] == [1, 2]
            assert len(service.requests) >= 2
            assert service.broken == [f"offers.{path}" for path in self.PATHS]
            assert len(self.warnings(caplog)) == len(self.PATHS)
            # Another reading of the same listing reports what it meets.
            await listing
            assert len(service.broken) == len(self.warnings(caplog)) == 2 * len(self.PATHS)

    async def test_rows_that_come_in_another_place_or_more_often(self) -> None:
        service = ScriptedService(
            self.page({"index": 1}, BROKEN, None), self.page(BROKEN, None, None), self.page({"index": 3}, BROKEN)
        )
        async with service.client() as exchange:
            await exchange.offers.list(page_size=3).collect()
        assert service.broken == ["offers.1.weight", "offers.2", "offers.2"]

    async def test_of_many_broken_rows_some_are_reported_and_the_others_counted(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = ScriptedService(
            self.page(*({"index": n, "weight": {}} for n in range(1, 301)), {"index": 500}), self.page()
        )
        async with service.client() as exchange:
            rows = await exchange.offers.list(page_size=301).collect()
        assert [row.index for row in rows] == [500]
        assert service.broken == [*(f"offers.{n}.weight" for n in range(100)), "$"]
        assert len(self.warnings(caplog)) == 101
        assert "200 more parts of a reply that cannot be read" in self.warnings(caplog)[-1]

    async def test_keys_that_repeat_are_reported_once_a_listing(self, caplog: pytest.LogCaptureFixture) -> None:
        pages = [b'{"offers": {"0": {"index": %d, "notes": "a", "notes": "b"}}}' % number for number in (1, 2)]
        service = ScriptedService(*(replies(page) for page in pages), self.page())
        async with service.client() as exchange:
            rows = await exchange.offers.list(page_size=1).collect()
        assert [(row.index, row.notes) for row in rows] == [(1, "b"), (2, "b")]
        assert service.broken == ["offers"]
        [warning] = self.warnings(caplog)
        assert "the key 'notes' repeats: only its last value is read" in warning

    @pytest.mark.parametrize("strict", [False, True])
    async def test_keys_that_repeat_in_the_reply_to_a_write_are_reported(
        self, strict: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        bid = b'{"index": 4, "notes": "a", "notes": "b", "offer": {"index": 9, "offerAmount": 5, "currencyIndex": 840}}'
        service = ScriptedService(replies(b'{"bid": {"index": 3}, "bid": %s}' % bid))
        async with service.client(strict=strict) as exchange:
            written = await exchange.bids.submit(4, amount=5, currency=840)
            await anyio.wait_all_tasks_blocked()
        assert (written.index, written.notes) == (4, "b")
        assert [warning.partition(" repeats")[0] for warning in self.warnings(caplog)] == [
            "an unreadable part of a reply was skipped: the key 'notes'",
            "an unreadable part of a reply was skipped: the key 'bid'",
        ]
        found = [event for event in service.events if isinstance(event, BrokenRecord)]
        assert [(event.method, event.path) for event in found] == [("POST", "quote/submitoffer")] * 2
        assert {event.error.status for event in found} == {200}

    async def test_keys_that_repeat_hold_up_no_write(self) -> None:
        entered = anyio.Event()

        async def hang(event: Event) -> None:
            if isinstance(event, BrokenRecord):
                entered.set()
                await anyio.sleep_forever()

        service = ScriptedService(replies(b'{"routes": {"0": {"index": 4, "timezone": "a", "timezone": "b"}}}'))
        async with service.client() as exchange:
            view = exchange._with_hook(hang)
            route = await view.routes.create(ROUTE)
            assert not entered.is_set()
            with anyio.fail_after(60):
                await entered.wait()
        assert route is not None
        assert route.index == 4

    @pytest.mark.parametrize("method", ["GET", "POST"])
    async def test_keys_that_repeat_in_any_other_reply_are_reported(
        self, method: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = ScriptedService(replies(b'{"a": 1, "a": 2}'))
        async with service.client() as exchange:
            assert await exchange.request(method, "quote/other") == {"a": 2}
            await anyio.wait_all_tasks_blocked()
        assert service.broken == ["$"]
        assert len(self.warnings(caplog)) == 1

    async def test_keys_that_repeat_in_the_pages_of_a_feed_are_reported_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = ScriptedService(replies(b'{"raterequests": {"0": {"index": 4, "notes": "a", "notes": "b"}}}'))
        async with service.client() as exchange:
            source = UpdatedRequests(exchange.requests._service)
            for _ in range(3):
                page = await source.page(0, 100, 60)
                assert [row.notes for row in page.records] == ["b"]
            await anyio.wait_all_tasks_blocked()
        assert service.broken == ["raterequests"]
        assert len(self.warnings(caplog)) == 1

    async def test_unreadable_offers_in_the_pages_of_a_feed_are_the_same_each_time_without_a_secret(self) -> None:
        offer = {"offerId": "31", "offerAmount": "much", "terms": "the password is correct horse"}
        service = ScriptedService(replies({"offers": {"0": {"index": 7, "offer": {"0": offer}}}}))
        async with service.client() as exchange:
            source = OwnOffers(exchange.offers._service, exchange._shared.offers)
            raws = [flaw.raw for _ in range(3) for flaw in (await source.page(0, 100)).flaws]
        assert len(raws) == 3
        assert raws[0] == raws[1] == raws[2]
        assert "correct horse" not in repr(raws)

    async def test_a_strict_reading_fails_at_the_same_row_again(self) -> None:
        service = ScriptedService(self.page(*self.ROWS))
        async with service.client(strict=True) as exchange:
            pages = exchange.offers.list(page_size=5).pages()
            for _ in range(2):
                with pytest.raises(DecodeError, match="weight"):
                    await anext(pages)
            await pages.aclose()


class TestErrorsBesideRecords:
    CUT = replies({"raterequests": [{"index": 1}], "error": "query timed out after 1 of 3 rows"})

    async def test_a_listing_gives_the_records_and_reports_the_error(self) -> None:
        service = ScriptedService(self.CUT, replies({"raterequests": []}))
        async with service.client() as exchange:
            assert [request.index for request in await exchange.requests.search()] == [1]
        assert service.broken == ["$"]

    async def test_a_strict_listing_fails(self) -> None:
        async with ScriptedService(self.CUT).client(strict=True) as exchange:
            with pytest.raises(DecodeError, match="an error beside records") as caught:
                await exchange.requests.search()
        assert carried(caught.value) == ("quote/getrequests", 200, 1)

    async def test_look_up_in_a_cut_reply_finds_its_record_and_denies_no_other(self) -> None:
        async with ScriptedService(self.CUT).client() as exchange:
            assert (await exchange.requests.get(1)).index == 1
            with pytest.raises(DecodeError, match="an error beside records"):
                await exchange.requests.get(2)

    async def test_an_error_beside_a_submitted_bid_is_doubt(self) -> None:
        service = ScriptedService(replies({"error": "the request is closed for offers", "bid": {"index": 4}}))
        async with service.client() as exchange:
            with pytest.raises(OutcomeUnknownError):
                await exchange.bids.submit(4, amount=5, currency=840)
