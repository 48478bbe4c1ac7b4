"""Tests of publishing rate requests, and of their two lists (service document, 4.2 to 4.4)."""

from __future__ import annotations

import pytest
from tests.unit.sandbox.rig import NOW, PUBLISH, ExchangeRig

from freight_sandbox import Cargo, Profile

RECORD = {
    "index": 1,
    "commodityname": "Green tea",
    "refId": "FX000001",
    "requesttype": "Air Freight",
    "status": "Available",
    "origin": "Shenzhen",
    "destination": "Hamburg",
    "needdate": "2030-03-15 00:00:00",
    "notes": "4 pallet(s) of Green tea from Shenzhen to Hamburg.",
    "qty": 4,
    "packaging": "Pallet",
    "measureUnit": "m",
    "width": 1,
    "height": 0.75,
    "length": 1.2,
    "massUnit": "kg",
    "weight": 210.5,
    "incoterm": "FOB",
    "hazardous": 1,
}


@pytest.mark.parametrize("path", ["quote/request", "quote/submitrequest", "request"])
def test_publish_at_every_address(path: str) -> None:
    rig = ExchangeRig()
    seen = rig.call("POST", path, PUBLISH, by=rig.shipper)
    assert (seen.status, seen.json) == (200, {"raterequests": {"0": RECORD}})
    assert rig.call("GET", "quote/request", by=rig.forwarder).json == {"raterequests": {"0": RECORD}}
    assert rig.call("POST", "quote/getrequests", {}, by=rig.forwarder).json == {"raterequests": {"0": RECORD}}


@pytest.mark.parametrize("path", [("GET", "quote/request"), ("POST", "quote/getrequests")])
class TestBothLists:
    def test_own_requests_are_not_listed(self, path: tuple[str, str]) -> None:
        rig = ExchangeRig()
        rig.publish()
        assert rig.call(*path, {}, by=rig.shipper).json == {"raterequests": {}}
        assert rig.call(*path, {"index": 1}, by=rig.shipper).json == {"raterequests": {}}

    def test_lookup_by_index_takes_number_or_text(self, path: tuple[str, str]) -> None:
        rig = ExchangeRig()
        rig.publish(3)
        for index in (2, "2"):
            assert rig.indexes(rig.call(*path, {"index": index}, by=rig.forwarder)) == [2]
        assert rig.call(*path, {"index": 9}, by=rig.forwarder).json == {"raterequests": {}}

    def test_default_window_is_an_hour(self, path: tuple[str, str]) -> None:
        rig = ExchangeRig()
        exchange = rig.exchange
        for age in (100.0, 3600.0, 3601.0, 432000.0, 432001.0):
            exchange.publish(rig.shipper, NOW - age)
        assert rig.indexes(rig.call(*path, {}, by=rig.forwarder)) == [1, 2]
        assert rig.indexes(rig.call(*path, {"secondsSinceUpdate": 432000}, by=rig.forwarder)) == [
            1,
            2,
            3,
            4,
        ]
        assert rig.indexes(rig.call(*path, {"secondsSinceUpdate": "3601"}, by=rig.forwarder)) == [1, 2, 3]
        assert rig.call(*path, {"secondsSinceUpdate": 99}, by=rig.forwarder).json == {"raterequests": {}}
        assert rig.indexes(rig.call(*path, {"index": 5}, by=rig.forwarder)) == [5]

    @pytest.mark.parametrize("seconds", [0, -1, 432001, "soon", 1.5, True])
    def test_window_out_of_range_gets_400(self, path: tuple[str, str], seconds: object) -> None:
        rig = ExchangeRig()
        assert rig.call(*path, {"secondsSinceUpdate": seconds}, by=rig.forwarder).status == 400

    def test_touched_request_returns_to_the_window(self, path: tuple[str, str]) -> None:
        rig = ExchangeRig()
        index = rig.exchange.publish(rig.shipper, NOW - 9000)
        assert rig.call(*path, {}, by=rig.forwarder).json == {"raterequests": {}}
        rig.exchange.touch(index, NOW - 10)
        assert rig.indexes(rig.call(*path, {}, by=rig.forwarder)) == [index]

    def test_changed_and_withdrawn(self, path: tuple[str, str]) -> None:
        rig = ExchangeRig()
        index = rig.exchange.publish(rig.shipper, NOW)
        rig.exchange.update(index, NOW, Cargo(origin="Busan"))
        assert rig.call(*path, {}, by=rig.forwarder).json["raterequests"]["0"]["origin"] == "Busan"
        rig.exchange.withdraw(index, NOW)
        assert rig.call(*path, {}, by=rig.forwarder).json == {"raterequests": {}}
        assert rig.call(*path, {"index": index}, by=rig.forwarder).json == {"raterequests": {}}


def test_selected_request_leaves_only_the_open_list() -> None:
    rig = ExchangeRig()
    rig.publish(2)
    rig.respond(rig.offer())
    assert rig.indexes(rig.call("GET", "quote/request", by=rig.rival)) == [2]

    def search(kind: str) -> list[int]:
        return rig.indexes(rig.call("POST", "quote/getrequests", {"type": kind}, by=rig.rival))

    assert (search("all"), search("accept"), search("pending")) == ([2, 1], [1], [2])
    seen = rig.call("POST", "quote/getrequests", {"index": 1}, by=rig.rival)
    assert seen.json["raterequests"]["0"]["status"] == "Selected"
    assert rig.call("POST", "quote/getrequests", {"type": "closed"}, by=rig.rival).status == 400


def test_selection_is_an_update() -> None:
    rig = ExchangeRig()
    index = rig.exchange.publish(rig.shipper, NOW - 9000)
    rig.offer()
    assert rig.call("POST", "quote/getrequests", {}, by=rig.rival).json == {"raterequests": {}}
    rig.respond(5001)
    assert rig.indexes(rig.call("POST", "quote/getrequests", {}, by=rig.rival)) == [index]


def test_late_visibility_delays_writes_in_reads() -> None:
    rig = ExchangeRig(Profile(late_visibility=5.0))
    rig.publish()
    assert rig.call("GET", "quote/request", by=rig.forwarder).json == {"raterequests": {}}
    rig.now += 5
    assert rig.indexes(rig.call("GET", "quote/request", by=rig.forwarder)) == [1]
    rig.exchange.update(1, rig.now, Cargo(origin="Busan"))
    rig.now += 4.9
    assert rig.call("GET", "quote/request", by=rig.forwarder).json["raterequests"]["0"]["origin"] == "Shenzhen"
    rig.now += 0.1
    assert rig.call("GET", "quote/request", by=rig.forwarder).json["raterequests"]["0"]["origin"] == "Busan"
    # A window shorter than the lateness never sees the change: what overlapping windows are for.
    rig.exchange.touch(1, rig.now)
    rig.now += 5.5
    assert rig.call("GET", "quote/request", {"secondsSinceUpdate": 5}, by=rig.forwarder).json == {"raterequests": {}}
