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
    for habit, status in (("400", 400), ("404", 404)):
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
