"""Tests of pages: offset counts pages, sizes have defaults, clamps and ends (service document, 4 and 8)."""

from __future__ import annotations

import pytest
from tests.unit.sandbox.rig import ExchangeRig

from freight_sandbox import Profile


def filled(count: int, profile: Profile | None = None) -> ExchangeRig:
    rig = ExchangeRig(profile)
    for number in range(count):
        rig.exchange.publish(rig.shipper, rig.now - count + number)
    return rig


def search(rig: ExchangeRig, **body: object) -> list[int]:
    return rig.indexes(rig.call("POST", "quote/getrequests", body, by=rig.forwarder))


def test_offset_counts_pages() -> None:
    rig = filled(25)
    assert search(rig, offset=0, rowsperpage=10) == list(range(25, 15, -1))
    assert search(rig, offset=1, rowsperpage=10) == list(range(15, 5, -1))
    assert search(rig, offset="2", rowsperpage="10") == [5, 4, 3, 2, 1]
    assert search(rig, offset=3, rowsperpage=10) == []


def test_default_page_sizes() -> None:
    rig = filled(25)
    assert len(search(rig)) == 20
    assert len(rig.indexes(rig.call("GET", "quote/request", by=rig.forwarder))) == 10
    assert len(rig.indexes(rig.call("GET", "quote/offer", by=rig.shipper), "offers")) == 25


def test_pages_are_chosen_in_the_query_string_too() -> None:
    rig = filled(12)
    seen = rig.call("GET", "quote/request", by=rig.forwarder, query={"offset": "1", "rowsperpage": "5"})
    assert rig.indexes(seen) == [7, 6, 5, 4, 3]
    seen = rig.call("GET", "quote/offer", by=rig.shipper, query={"offset": "2", "rowsperpage": "5"})
    assert rig.indexes(seen, "offers") == [2, 1]


@pytest.mark.parametrize(
    "body",
    [{"offset": 0}, {"rowsperpage": 5}, {"offset": -1, "rowsperpage": 5}, {"offset": 0, "rowsperpage": 0}],
)
def test_invalid_page_gets_400(body: dict[str, object]) -> None:
    rig = filled(3)
    for method, path, by in [
        ("GET", "quote/request", rig.forwarder),
        ("POST", "quote/getrequests", rig.forwarder),
        ("GET", "quote/offer", rig.shipper),
        ("POST", "quote/getoffers", rig.shipper),
        ("GET", "quote/bid", rig.forwarder),
        ("GET", "route", rig.shipper),
    ]:
        assert rig.call(method, path, body, by=by).status == 400, path


def test_clamp_shortens_pages_without_an_error() -> None:
    rig = filled(25, Profile(rows_clamp=10))
    assert search(rig, offset=0, rowsperpage=100) == list(range(25, 15, -1))
    assert search(rig, offset=1, rowsperpage=100) == list(range(15, 5, -1))
    rig.exchange.profile = Profile(rows_clamp=10, clamp_stride="asked")
    assert search(rig, offset=1, rowsperpage=12) == list(range(13, 3, -1))


def test_page_beyond_the_end_follows_the_profile() -> None:
    rig = filled(5, Profile(past_end="last_page"))
    assert search(rig, offset=7, rowsperpage=2) == [1]
    rig.exchange.profile = Profile(offset_ignored=True)
    assert search(rig, offset=7, rowsperpage=2) == [5, 4]
    for value, status in (("400", 400), ("404", 404), ("416", 416), ("422", 422), ("500", 500)):
        rig.exchange.profile = Profile(past_end=value)  # type: ignore[arg-type]  # parametrised words
        body = {"offset": 3, "rowsperpage": 2}
        assert rig.call("POST", "quote/getrequests", body, by=rig.forwarder).status == status


def test_listings_have_the_order_of_the_profile() -> None:
    rig = filled(6)
    rig.exchange.touch(2, rig.now)
    assert search(rig) == [6, 5, 4, 3, 2, 1]
    rig.exchange.profile = Profile(order="oldest")
    assert search(rig) == [1, 2, 3, 4, 5, 6]
    rig.exchange.profile = Profile(order="updated")
    assert search(rig) == [2, 6, 5, 4, 3, 1]
    rig.exchange.profile = Profile(order="random")
    first = search(rig)
    assert sorted(first) == [1, 2, 3, 4, 5, 6]
    assert first == search(rig)
    rig.exchange.reorder()
    assert first != search(rig)
    assert search(rig) == search(rig)


@pytest.mark.parametrize(
    ("change", "sizes"),
    [
        ("lowered", [20, 20, 20, 2, 2]),
        ("raised", [2, 2, 2, 20, 20]),
        ("alternating", [20, 2, 20, 2, 20]),
        ("hourly", [2, 2, 2, 2, 2]),
    ],
)
def test_clamp_changes_as_the_profile_sets(change: str, sizes: list[int]) -> None:
    rig = filled(25, Profile(clamp_change=change))  # type: ignore[arg-type]  # parametrised words
    assert [len(search(rig, offset=0, rowsperpage=100)) for _ in sizes] == sizes
    rig.now += 3600
    if change == "hourly":
        body = {"offset": 0, "rowsperpage": 100, "secondsSinceUpdate": 7200}
        assert len(search(rig, **body)) == 20


def test_page_over_the_rows_limit_is_refused() -> None:
    for value in ("400", "422", "500"):
        rig = filled(3, Profile(rows_limit=20, over_limit=value))
        body = {"offset": 0, "rowsperpage": 21}
        assert rig.call("POST", "quote/getrequests", body, by=rig.forwarder).status == int(value)
        assert search(rig, offset=0, rowsperpage=20) == [3, 2, 1]


def test_rights_after_paging_leave_short_and_empty_pages() -> None:
    rig = filled(40, Profile(order="index", hidden="runs"))
    assert search(rig, offset=1, rowsperpage=10) == [*range(21, 30), 40]
    rig.exchange.profile = Profile(order="index", hidden="runs", rights="after_paging")
    pages = [search(rig, offset=number, rowsperpage=5) for number in range(9)]
    assert pages == [[1, 2, 3, 4, 5], [6, 7, 8, 9], [], [20], [21, 22, 23, 24, 25], [26, 27, 28, 29], [], [40], []]
    assert search(rig, index=15) == []
    assert search(rig, index=25) == [25]


def test_rights_after_paging_count_bids_of_others() -> None:
    rig = filled(2, Profile(rights="after_paging", order="oldest"))
    for account in (rig.rival, rig.forwarder, rig.rival):
        rig.exchange.offer(account, 1, rig.now)
    pages = [
        rig.call("GET", "quote/bid", {"offset": number, "rowsperpage": 1}, by=rig.forwarder) for number in range(3)
    ]
    assert [len(rig.indexes(page, "bids")) for page in pages] == [0, 1, 0]


def test_carriers_and_currencies_page_under_reference_rows() -> None:
    rig = ExchangeRig(Profile(reference_rows=5))

    def currencies(**body: object) -> list[int]:
        return rig.indexes(rig.call("GET", "currency", body, by=rig.forwarder), "currencies")

    assert len(currencies()) == 5
    assert len(currencies(offset=1, rowsperpage=5)) == 2
    assert len(currencies(offset=0, rowsperpage=100)) == 7
