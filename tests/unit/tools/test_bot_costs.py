"""Tests of the tools that measure the bot, with small numbers."""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from typing import Any, Final, Literal

import httpx
import pytest
from tools.bot_costs import WAYS, BiddingExchange, Way, cost
from tools.lib.bot_long import LivelyExchange, bot_month

from freight_exchange import FreightExchange

Backend = Literal["asyncio", "trio"]
BACKENDS: Final[tuple[Backend, ...]] = ("asyncio", "trio")
HOUR, DAY = 3600.0, 86_400.0


def _name(way: Way | str) -> str:
    if isinstance(way, str):
        return way
    return f"{way.reader}-{way.store}-{'offers' if way.offers else 'nothing'}"


class TestCosts:
    @pytest.mark.parametrize(("way", "backend"), list(zip(WAYS, cycle(BACKENDS), strict=False)), ids=_name)
    def test_each_way_delivers_once(self, way: Way, backend: Backend, tmp_path: Path) -> None:
        done = cost(way, 20, tmp_path, backend=backend)
        assert done.deliveries == 20
        assert done.offers == {int(way.offers): 20}
        assert (done.file == 0) == (way.store == "memory")
        assert [*tmp_path.iterdir()] == []

    @pytest.mark.parametrize("offers", [False, True])
    def test_counts_reads_and_commits(self, offers: bool, tmp_path: Path) -> None:
        loop = cost(Way("events", "file", offers), 20, tmp_path, counted=True)
        batches = cost(Way("batches", "file", offers), 20, tmp_path, counted=True)
        bot = cost(Way("bot", "inline", offers), 20, tmp_path, counted=True)
        assert loop.commits == 20
        assert batches.commits == 1
        # A settling each, and what an offer writes; claims and the intake are shared.
        assert bot.commits > (20 + 3 * 20 if offers else 20)
        assert bot.reads > 0
        uncounted = cost(Way("events", "file", offers), 20, tmp_path)
        assert (uncounted.commits, uncounted.reads) == (0, 0)


async def test_second_offer_is_counted() -> None:
    service = BiddingExchange(1.0, lambda: 10.0, most=10)
    async with (
        httpx.AsyncClient(transport=service, trust_env=False) as http_client,
        FreightExchange(service.url, email="me@co.example", password="p", http_client=http_client) as exchange,
    ):
        for request in (3, 4, 3):
            await exchange.bids.submit(request, amount="1840.50", currency=840)
    assert [*service.offers] == [0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]


class TestLivelyExchange:
    """The documented work of the exchange is compared request by request."""

    @pytest.mark.parametrize("window", [60, 1800, 21_600, 432_000])
    @pytest.mark.parametrize("now", [30.0, 60.0, 2 * HOUR + 600, 6 * HOUR + 6000, 8 * HOUR + 6017, 3 * DAY, 9 * DAY])
    def test_lists_last_change_of_each_request(self, now: float, window: int) -> None:
        service = LivelyExchange(60.0, lambda: now, most=20_000)
        listed: list[tuple[int, str, str]] = []
        for number in range(20):
            page: dict[str, Any] = json.loads(service._page(number, 1000, window))["raterequests"]
            listed += [(record["index"], record["status"], record["notes"]) for record in page.values()]
            if len(page) < 1000:
                break
        wanted = []
        for index in range(1, int(now / 60) + 1):
            stages = [(60.0 * index, "Available", "as published")]
            if index % 10 == 0:
                stages.append((60.0 * index + 2 * HOUR, "Available", "as updated"))
            if index % 100 == 0:
                stages.append((60.0 * index + 6 * HOUR, "Selected", "as updated"))
            changed, status, notes = [stage for stage in stages if stage[0] <= now][-1]
            if changed >= now - window:
                wanted.append((index, status, notes))
        assert sorted(listed) == wanted

    def test_lists_selections_of_five_days(self) -> None:
        now = 0.0
        service = LivelyExchange(60.0, lambda: now, most=1)
        for at in (0.0, 6 * HOUR + 5999, 6 * HOUR + 6000, 3 * DAY, 8 * DAY):
            last, first = int((at - 6 * HOUR) / 60), int((at - 6 * HOUR - 5 * DAY) / 60)
            assert [*service.selected(at)] == [
                index for index in range(last, 0, -1) if index % 100 == 0 and index > first
            ]


@pytest.mark.parametrize("backend", ["trio"])
def test_month_offers_once_and_reports_each_selection(backend: Backend, tmp_path: Path) -> None:
    done = bot_month(1, 480.0, tmp_path / "month.db", 900.0, 1800.0, backend)
    (day,) = done.days
    assert set(done.offers) == {1}
    assert done.offers[1] >= 180
    # On the 100th.
    assert done.handled["selected"] == done.selections == 1
    # Those that were updated, and those whose status changed with their selection.
    assert done.handled["updated"] == pytest.approx((180 - 15) // 10 + 1, abs=2)
    assert done.handled["new"] >= done.offers[1]
    assert day.rows["effect offer"] == pytest.approx(180, abs=4)
    assert day.rows["event done"] == day.rows["delivery done"] >= 180
    assert not day.rows["event owed"] + day.rows["delivery ready"] + day.rows["delivery dead"]
    assert day.tasks > 1
    assert (day.descriptors > 0) == Path("/proc/self/fd").exists()
    assert done.file == [day.file]
