"""Publishing rate requests, and the two lists of them (service document, 4.2 to 4.4)."""

from __future__ import annotations

import pytest
from tests.unit.sandbox.desk import NOW, PUBLISH, Desk

from freight_exchange.sandbox import Cargo, Profile

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
    desk = Desk()
    seen = desk.call("POST", path, PUBLISH, by=desk.shipper)
    assert (seen.status, seen.json) == (200, {"raterequests": {"0": RECORD}})
    assert desk.call("GET", "quote/request", by=desk.forwarder).json == {"raterequests": {"0": RECORD}}
    assert desk.call("POST", "quote/getrequests", {}, by=desk.forwarder).json == {"raterequests": {"0": RECORD}}


@pytest.mark.parametrize("path", [("GET", "quote/request"), ("POST", "quote/getrequests")])
class TestBothLists:
    def test_own_requests_are_not_listed(self, path: tuple[str, str]) -> None:
        desk = Desk()
        desk.publish()
        assert desk.call(*path, {}, by=desk.shipper).json == {"raterequests": {}}
        assert desk.call(*path, {"index": 1}, by=desk.shipper).json == {"raterequests": {}}

    def test_index_gives_one_request_as_a_number_or_a_text(self, path: tuple[str, str]) -> None:
        desk = Desk()
        desk.publish(3)
        for index in (2, "2"):
            assert desk.indexes(desk.call(*path, {"index": index}, by=desk.forwarder)) == [2]
        assert desk.call(*path, {"index": 9}, by=desk.forwarder).json == {"raterequests": {}}

    def test_the_window_is_an_hour_unless_told(self, path: tuple[str, str]) -> None:
        desk = Desk()
        exchange = desk.exchange
        for age in (100.0, 3600.0, 3601.0, 432000.0, 432001.0):
            exchange.publish(desk.shipper, NOW - age)
        assert desk.indexes(desk.call(*path, {}, by=desk.forwarder)) == [1, 2]
        assert desk.indexes(desk.call(*path, {"secondsSinceUpdate": 432000}, by=desk.forwarder)) == [
            1,
            2,
            3,
            4,
        ]
        assert desk.indexes(desk.call(*path, {"secondsSinceUpdate": "3601"}, by=desk.forwarder)) == [1, 2, 3]
        assert desk.call(*path, {"secondsSinceUpdate": 99}, by=desk.forwarder).json == {"raterequests": {}}
        assert desk.indexes(desk.call(*path, {"index": 5}, by=desk.forwarder)) == [5]

    @pytest.mark.parametrize("seconds", [0, -1, 432001, "soon", 1.5, True])
    def test_the_window_has_bounds(self, path: tuple[str, str], seconds: object) -> None:
        desk = Desk()
        assert desk.call(*path, {"secondsSinceUpdate": seconds}, by=desk.forwarder).status == 400

    def test_a_touched_request_comes_back_into_the_window(self, path: tuple[str, str]) -> None:
        desk = Desk()
        index = desk.exchange.publish(desk.shipper, NOW - 9000)
        assert desk.call(*path, {}, by=desk.forwarder).json == {"raterequests": {}}
        desk.exchange.touch(index, NOW - 10)
        assert desk.indexes(desk.call(*path, {}, by=desk.forwarder)) == [index]

    def test_changed_and_withdrawn(self, path: tuple[str, str]) -> None:
        desk = Desk()
        index = desk.exchange.publish(desk.shipper, NOW)
        desk.exchange.update(index, NOW, Cargo(origin="Busan"))
        assert desk.call(*path, {}, by=desk.forwarder).json["raterequests"]["0"]["origin"] == "Busan"
        desk.exchange.withdraw(index, NOW)
        assert desk.call(*path, {}, by=desk.forwarder).json == {"raterequests": {}}
        assert desk.call(*path, {"index": index}, by=desk.forwarder).json == {"raterequests": {}}


def test_a_selected_request_leaves_the_open_list_and_stays_in_the_other() -> None:
    desk = Desk()
    desk.publish(2)
    desk.respond(desk.offer())
    assert desk.indexes(desk.call("GET", "quote/request", by=desk.rival)) == [2]

    def search(kind: str) -> list[int]:
        return desk.indexes(desk.call("POST", "quote/getrequests", {"type": kind}, by=desk.rival))

    assert (search("all"), search("accept"), search("pending")) == ([2, 1], [1], [2])
    seen = desk.call("POST", "quote/getrequests", {"index": 1}, by=desk.rival)
    assert seen.json["raterequests"]["0"]["status"] == "Selected"
    assert desk.call("POST", "quote/getrequests", {"type": "closed"}, by=desk.rival).status == 400


def test_selection_is_an_update() -> None:
    desk = Desk()
    index = desk.exchange.publish(desk.shipper, NOW - 9000)
    desk.offer()
    assert desk.call("POST", "quote/getrequests", {}, by=desk.rival).json == {"raterequests": {}}
    desk.respond(5001)
    assert desk.indexes(desk.call("POST", "quote/getrequests", {}, by=desk.rival)) == [index]


def test_late_visibility_hides_a_write_for_a_while() -> None:
    desk = Desk(Profile(late_visibility=5.0))
    desk.publish()
    assert desk.call("GET", "quote/request", by=desk.forwarder).json == {"raterequests": {}}
    desk.now += 5
    assert desk.indexes(desk.call("GET", "quote/request", by=desk.forwarder)) == [1]
    desk.exchange.update(1, desk.now, Cargo(origin="Busan"))
    desk.now += 4.9
    assert desk.call("GET", "quote/request", by=desk.forwarder).json["raterequests"]["0"]["origin"] == "Shenzhen"
    desk.now += 0.1
    assert desk.call("GET", "quote/request", by=desk.forwarder).json["raterequests"]["0"]["origin"] == "Busan"
    # A window shorter than the lateness never sees the change: what overlapping windows are for.
    desk.exchange.touch(1, desk.now)
    desk.now += 5.5
    assert desk.call("GET", "quote/request", {"secondsSinceUpdate": 5}, by=desk.forwarder).json == {"raterequests": {}}
