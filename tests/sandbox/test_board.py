"""The board over HTTP: its page, its state, its actions, and its protection against pages of other sites."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.rig import NOW, PUBLISH

from freight_sandbox import FAULTS, Call, Exchange, Profile, Reply
from freight_sandbox.board import Board

HERE = {"host": "127.0.0.1:8765"}
PAGE = {**HERE, "origin": "http://127.0.0.1:8765", "content-type": "application/json", "sec-fetch-site": "same-origin"}
FORWARDER = "forwarder@demo.example"


class Client:
    """A person at the page, and programs at the API."""

    def __init__(self, **options: Any) -> None:
        self.exchange = Exchange(seed=3)
        self.board = Board(self.exchange, clock=lambda: NOW, **options)

    async def get(self, path: str, headers: Mapping[str, str] = HERE, **query: str) -> Reply:
        return await self.board(Call("GET", path, query, headers))

    async def state(self) -> Any:
        return json.loads((await self.get("board/state", after="0")).body)

    async def send(self, what: str, headers: Mapping[str, str] = PAGE, **values: Any) -> Reply:
        return await self.board(Call("POST", f"board/{what}", {}, headers, json.dumps(values).encode()))

    async def act(self, what: str, **values: Any) -> Any:
        reply = await self.send(what, **values)
        assert reply.status == 200, reply.body
        return await self.state()

    def call(self, path: str, method: str = "POST", **body: Any) -> Reply:
        token = self.exchange.token(self.exchange.forwarder, NOW)
        headers = {**HERE, "content-type": "application/json", "authorization": f"Bearer {token}"}
        return self.board.handle(Call(method, path, {}, headers, json.dumps(body).encode() if body else b""), NOW)

    def offer(self) -> Reply:
        return self.call("quote/submitoffer", requestIndex=1, offer=100, currencyIndex=840)


@pytest.fixture
def client() -> Client:
    return Client()


async def test_request_from_publication_to_approval(client: Client) -> None:
    state = await client.act("requests", **PUBLISH)
    (request,) = state["requests"]
    assert (request["refid"], request["cargo"]["quantity"]) == ("FX000001", 4)
    state = await client.act("change", request=1, quantity=30, notes="")
    assert state["requests"][0]["cargo"] == {**request["cargo"], "quantity": 30, "notes": ""}
    client.offer()
    state = await client.act("offer_as_rival", request=1)
    offers = state["requests"][0]["offers"]
    assert [(it["amount"], it["is_own"], it["is_lowest"]) for it in offers] == [(100, True, False), (97, False, True)]
    assert state["requests"][0]["contacts"] == []
    await client.act("respond", offer=5001, approved=0)
    state = await client.act("respond", offer=5002, approved=1)
    (request,) = state["requests"]
    assert [(it["status"], it["is_lowest"]) for it in request["offers"]] == [("declined", False), ("selected", False)]
    assert [contact["email"] for contact in request["contacts"]] == ["rival@demo.example", "shipper@demo.example"]
    assert state["counts"] | {"requests": 1, "selected": 1, "offers": 2} == state["counts"]
    await client.act("requests", **PUBLISH)
    assert (await client.act("withdraw", request=2))["requests"][0]["state"] == "withdrawn"


REFUSED: list[tuple[str, Mapping[str, Any], int, str]] = [
    ("requests", {**PUBLISH, "quantity": 0}, 400, "quantity"),
    ("change", {"request": 1, "weight": "heavy"}, 400, "weight"),
    ("change", {"request": 2, "quantity": 3}, 400, "not open"),
    ("withdraw", {"request": 2}, 400, "not open"),
    ("respond", {"offer": 99, "approved": 1}, 404, "no such offer"),
    ("arm", {"name": "refused"}, 404, "no such fault"),
    ("arm", {"name": "reset_after_send", "processed": True}, 400, "at that moment"),
    ("set_quirk", {"name": "bom", "value": 1}, 400, "No such quirk or value"),
    ("set_quirk", {"name": "latency", "value": 61}, 400, "Seconds go to 60"),
    ("set_quirk", {"name": "rows_clamp", "value": 2.5}, 400, "whole numbers"),
]


async def test_refused_action_changes_nothing(client: Client) -> None:
    for _ in range(2):
        await client.act("requests", **PUBLISH)
    client.offer()
    before = await client.act("withdraw", request=2)
    for what, values, status, words in REFUSED:
        reply = await client.send(what, **values)
        assert (reply.status, words in json.loads(reply.body)["message"]) == (status, True), what
    assert await client.state() == before


async def test_every_fault_and_quirk_of_the_catalogue_can_be_switched_on_and_off(client: Client) -> None:
    catalogue = json.loads((await client.get("board/catalogue")).body)
    assert len(catalogue["faults"]) == len(FAULTS) - 6  # those that prevent a connection
    for fault in catalogue["faults"]:
        await client.act("arm", name=fault["name"], operation=fault["operation"], times=2)
    armed = (await client.state())["armed"]
    assert [each["fault"] for each in armed] == [fault["name"] for fault in catalogue["faults"]]
    assert (await client.act("disarm", id=armed[0]["id"]))["armed"] == armed[1:]
    assert (await client.act("disarm"))["armed"] == []
    assert len(catalogue["quirks"]) == len(Profile.knobs())
    for quirk in catalogue["quirks"]:
        value = quirk["choices"][-1] if quirk["choices"] else 7
        assert (await client.act("set_quirk", name=quirk["name"], value=value))["quirks"][quirk["name"]] == value
        assert (await client.act("set_quirk", name=quirk["name"], value=quirk["default"]))["quirks"] == {}
    for sample in catalogue["samples"]:
        await client.act("requests", **sample)


async def test_lost_answer_shows_with_the_reaction_and_its_outcome(client: Client) -> None:
    await client.act("requests", **PUBLISH)
    await client.act("arm", name="bad_gateway", operation="submit", times=1, processed=True)
    assert client.offer().status == 502
    (strike,) = (await client.state())["strikes"]
    assert (strike["caller"], strike["processed"], strike["then"], strike["offers"]) == (FORWARDER, True, [], 1)
    client.call("quote/submitoffer", requestIndex=7)  # about another request
    for _ in range(5):
        client.call("quote/bid", "GET")
        client.call("quote/getrequests")
    client.offer()
    client.call("login", email="x" * 3_000)
    state = await client.state()
    (strike,) = state["strikes"]
    assert (strike["then"], strike["offers"]) == (["bids", "search", "submit"], 2)
    assert (state["counts"]["struck"], state["counts"]["duplicates"], state["armed"]) == (1, 1, [])
    assert [it["count"] for it in state["calls"]] == [1, 1, 5, 5, 1, 1]  # polls fill two lines
    assert state["calls"][0]["caller"] == "x" * 100

    # A fault on every call does not bury that, and never strikes the board.
    await client.act("arm", name="unavailable_forever", operation="")
    for request in range(30):
        client.call("quote/submitoffer", requestIndex=request)
        client.call("quote/getrequests")
        client.call("quote/bid", "GET")
    strikes = (await client.act("requests", **PUBLISH))["strikes"]
    struck = [("unavailable_forever", 60), *[("unavailable_forever", 1)] * 6, (strike["fault"], 1)]
    assert [(it["fault"], it["count"]) for it in strikes] == struck


@pytest.mark.virtual_time
async def test_state_request_waits_for_a_change_up_to_20_seconds(client: Client) -> None:
    begun = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(lambda: client.get("board/state", after=str(client.board.revision)))
        await anyio.sleep(7)
        await client.send("requests", **PUBLISH)
    assert anyio.current_time() - begun == 7
    await client.get("board/state", after=str(client.board.revision))
    assert anyio.current_time() - begun == 27
    assert Board(Exchange()).revision != Board(Exchange()).revision  # a page notices a restart


@given(path=st.text(max_size=5), body=st.binary(max_size=20) | st.just(b"[" * 90_000), after=st.text(max_size=4))
async def test_any_call_is_answered(path: str, body: bytes, after: str) -> None:
    client = Client()
    for what in ("requests", "change", "withdraw", "respond", "arm", "set_quirk", path):
        assert (await client.board(Call("POST", f"board/{what}", {}, PAGE, body))).status in {400, 404}
    assert (await client.get(f"board/{path}x", after=after)).status == 404
    assert client.call("quote/submitoffer", requestIndex="9" * 5000, email=path).status == 400


async def test_page_has_its_own_files_only_and_no_inline_script(client: Client) -> None:
    page = (await client.get("board")).body.decode()
    parts = re.findall(r'(?:src|href)="/([^"]+)"', page)
    assert {*parts} == {"board/icon.svg", "board/board.css", "board/board.js"}
    assert not re.search(r"<script(?![^>]+src=)|<style|\sstyle=|\son\w+=|://", page)
    assert (await client.get("board/../board.py")).status == 404
    for path in ("board", *parts, "board/state", "x"):
        policy = dict((await client.get(path)).headers)["content-security-policy"]
        assert all(rule in policy for rule in ("default-src 'none'", "frame-ancestors 'none'", "trusted-types-for"))
        assert "unsafe" not in policy
    assert (await client.board(Call("PUT", "board", {}, PAGE))).status == 405


KNOWN = ("127.0.0.1:8765", "localhost:1", "[::1]:8765", "10.1.2.3", "box:8765", "Box")
STRANGERS = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[", "a b")


@pytest.mark.parametrize("host", [*KNOWN, *STRANGERS])
async def test_only_known_host_names_are_answered(host: str) -> None:
    """In DNS rebinding, the page of another site reaches this server under that site's name."""
    client, there = Client(names=["BOX"]), {**PAGE, "host": host, "origin": f"http://{host}"}
    replies = [await client.get(path, there) for path in ("board", "board/state", "board/catalogue")]
    replies.append(await client.send("requests", there, **PUBLISH))
    login = Call("POST", "login", {}, there, b'{"email": "shipper@demo.example", "password": "shipper"}')
    replies.append(client.board.handle(login, NOW))
    assert {reply.status for reply in replies} == {200 if host in KNOWN else 421}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("origin", it) for it in ("http://evil.example", "null", "https://127.0.0.1:8765", "http://127.0.0.1:1", "")],
        *[("sec-fetch-site", it) for it in ("cross-site", "same-site", "")],
        *[("content-type", it) for it in ("text/plain", "application/x-www-form-urlencoded", "")],
    ],
)
async def test_other_pages_neither_change_nor_read_nor_call(client: Client, name: str, value: str) -> None:
    await client.act("arm", name="unavailable", operation="", times=1)
    before = await client.state()
    for what in ("requests", "disarm", "reset_quirks"):
        assert (await client.send(what, {**PAGE, name: value}, **PUBLISH)).status in {403, 415}
    if name == "sec-fetch-site":
        paths = ("board/state", "board/catalogue", "board")  # a link from elsewhere may lead to the page
        assert [(await client.get(path, {**HERE, name: value})).status for path in paths] == [403, 403, 200]
        assert client.board.handle(Call("GET", "currency", {}, {**HERE, name: value}), NOW).status == 403
    assert await client.state() == before
