"""Pages: offset counts pages, sizes have defaults, clamps and ends (service document, 4 and 8)."""

from __future__ import annotations

import pytest
from tests.unit.sandbox.desk import Desk

from freight_exchange.sandbox import Profile


def filled(count: int, profile: Profile | None = None) -> Desk:
    desk = Desk(profile)
    for number in range(count):
        desk.exchange.publish(desk.shipper, desk.now - count + number)
    return desk


def search(desk: Desk, **body: object) -> list[int]:
    return desk.indexes(desk.call("POST", "quote/getrequests", body, by=desk.forwarder))


def test_offset_is_the_number_of_a_page() -> None:
    desk = filled(25)
    assert search(desk, offset=0, rowsperpage=10) == list(range(25, 15, -1))
    assert search(desk, offset=1, rowsperpage=10) == list(range(15, 5, -1))
    assert search(desk, offset="2", rowsperpage="10") == [5, 4, 3, 2, 1]
    assert search(desk, offset=3, rowsperpage=10) == []


def test_default_sizes() -> None:
    desk = filled(25)
    assert len(search(desk)) == 20
    assert len(desk.indexes(desk.call("GET", "quote/request", by=desk.forwarder))) == 10
    assert len(desk.indexes(desk.call("GET", "quote/offer", by=desk.shipper), "offers")) == 25


def test_paging_in_the_query_string() -> None:
    desk = filled(12)
    seen = desk.call("GET", "quote/request", by=desk.forwarder, query={"offset": "1", "rowsperpage": "5"})
    assert desk.indexes(seen) == [7, 6, 5, 4, 3]
    seen = desk.call("GET", "quote/offer", by=desk.shipper, query={"offset": "2", "rowsperpage": "5"})
    assert desk.indexes(seen, "offers") == [2, 1]


@pytest.mark.parametrize(
    "body",
    [{"offset": 0}, {"rowsperpage": 5}, {"offset": -1, "rowsperpage": 5}, {"offset": 0, "rowsperpage": 0}],
)
def test_bad_pages(body: dict[str, object]) -> None:
    desk = filled(3)
    for method, path, by in [
        ("GET", "quote/request", desk.forwarder),
        ("POST", "quote/getrequests", desk.forwarder),
        ("GET", "quote/offer", desk.shipper),
        ("POST", "quote/getoffers", desk.shipper),
        ("GET", "quote/bid", desk.forwarder),
        ("GET", "route", desk.shipper),
    ]:
        assert desk.call(method, path, body, by=by).status == 400, path


def test_a_clamp_is_silent() -> None:
    desk = filled(25, Profile(rows_clamp=10))
    assert search(desk, offset=0, rowsperpage=100) == list(range(25, 15, -1))
    assert search(desk, offset=1, rowsperpage=100) == list(range(15, 5, -1))
    desk.exchange.profile = Profile(rows_clamp=10, clamp_stride="asked")
    assert search(desk, offset=1, rowsperpage=12) == list(range(13, 3, -1))


def test_beyond_the_end() -> None:
    desk = filled(5, Profile(past_end="last_page"))
    assert search(desk, offset=7, rowsperpage=2) == [1]
    desk.exchange.profile = Profile(offset_ignored=True)
    assert search(desk, offset=7, rowsperpage=2) == [5, 4]
    for habit, status in (("400", 400), ("404", 404), ("416", 416), ("422", 422), ("500", 500)):
        desk.exchange.profile = Profile(past_end=habit)  # type: ignore[arg-type]  # parametrised words
        body = {"offset": 3, "rowsperpage": 2}
        assert desk.call("POST", "quote/getrequests", body, by=desk.forwarder).status == status


def test_orders() -> None:
    desk = filled(6)
    desk.exchange.touch(2, desk.now)
    assert search(desk) == [6, 5, 4, 3, 2, 1]
    desk.exchange.profile = Profile(order="oldest")
    assert search(desk) == [1, 2, 3, 4, 5, 6]
    desk.exchange.profile = Profile(order="updated")
    assert search(desk) == [2, 6, 5, 4, 3, 1]
    desk.exchange.profile = Profile(order="random")
    first = search(desk)
    assert sorted(first) == [1, 2, 3, 4, 5, 6]
    assert first == search(desk)
    desk.exchange.reorder()
    assert first != search(desk)
    assert search(desk) == search(desk)


@pytest.mark.parametrize(
    ("change", "sizes"),
    [
        ("lowered", [20, 20, 20, 2, 2]),
        ("raised", [2, 2, 2, 20, 20]),
        ("alternating", [20, 2, 20, 2, 20]),
        ("hourly", [2, 2, 2, 2, 2]),
    ],
)
def test_a_clamp_can_change(change: str, sizes: list[int]) -> None:
    desk = filled(25, Profile(clamp_change=change))  # type: ignore[arg-type]  # parametrised words
    assert [len(search(desk, offset=0, rowsperpage=100)) for _ in sizes] == sizes
    desk.now += 3600
    if change == "hourly":
        body = {"offset": 0, "rowsperpage": 100, "secondsSinceUpdate": 7200}
        assert len(search(desk, **body)) == 20


def test_a_page_that_is_too_large_is_refused() -> None:
    for habit in ("400", "422", "500"):
        desk = filled(3, Profile(rows_limit=20, over_limit=habit))
        body = {"offset": 0, "rowsperpage": 21}
        assert desk.call("POST", "quote/getrequests", body, by=desk.forwarder).status == int(habit)
        assert search(desk, offset=0, rowsperpage=20) == [3, 2, 1]


def test_rights_after_paging_leave_short_and_empty_pages() -> None:
    desk = filled(40, Profile(order="index", hidden="runs"))
    assert search(desk, offset=1, rowsperpage=10) == [*range(21, 30), 40]
    desk.exchange.profile = Profile(order="index", hidden="runs", rights="after_paging")
    pages = [search(desk, offset=number, rowsperpage=5) for number in range(9)]
    assert pages == [[1, 2, 3, 4, 5], [6, 7, 8, 9], [], [20], [21, 22, 23, 24, 25], [26, 27, 28, 29], [], [40], []]
    assert search(desk, index=15) == []
    assert search(desk, index=25) == [25]


def test_bids_of_others_count_in_the_pages_where_rights_come_last() -> None:
    desk = filled(2, Profile(rights="after_paging", order="oldest"))
    for account in (desk.rival, desk.forwarder, desk.rival):
        desk.exchange.offer(account, 1, desk.now)
    pages = [
        desk.call("GET", "quote/bid", {"offset": number, "rowsperpage": 1}, by=desk.forwarder) for number in range(3)
    ]
    assert [len(desk.indexes(page, "bids")) for page in pages] == [0, 1, 0]


def test_carriers_and_currencies_can_page() -> None:
    desk = Desk(Profile(reference_rows=5))

    def currencies(**body: object) -> list[int]:
        return desk.indexes(desk.call("GET", "currency", body, by=desk.forwarder), "currencies")

    assert len(currencies()) == 5
    assert len(currencies(offset=1, rowsperpage=5)) == 2
    assert len(currencies(offset=0, rowsperpage=100)) == 7
