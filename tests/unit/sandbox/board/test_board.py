"""The board over HTTP: what it shows, what it does, and who may ask it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import anyio
import httpx
import pytest
from tests.unit.sandbox.rig import NOW, PUBLISH

from freight_exchange.sandbox import Call, Exchange, Profile, Reply
from freight_exchange.sandbox.board import Board, BoardController, samples
from freight_exchange.sandbox.faces.tcp import serve_tcp

HERE = {"host": "127.0.0.1:8765"}
PAGE = {**HERE, "origin": "http://127.0.0.1:8765", "content-type": "application/json", "sec-fetch-site": "same-origin"}


class BoardClient:
    """Who has the page open."""

    def __init__(self) -> None:
        self.now = NOW
        self.controller = BoardController(Exchange(seed=3), clock=lambda: self.now)
        self.board = Board(self.controller)
        self.board.url = "http://127.0.0.1:8765/api"

    async def get(self, path: str, headers: Mapping[str, str] = HERE, query: Mapping[str, str] | None = None) -> Reply:
        return await self.board(Call("GET", path, query or {}, headers))

    async def state(self) -> Any:
        return json.loads((await self.get("board/state", query={"after": "0"})).body)

    async def send(self, what: str, headers: Mapping[str, str] = PAGE, **values: Any) -> Reply:
        return await self.board(Call("POST", f"board/{what}", {}, headers, json.dumps(values).encode()))

    async def act(self, what: str, **values: Any) -> Any:
        """What the page shows afterwards."""
        reply = await self.send(what, **values)
        assert reply.status == 200, reply.body
        return await self.state()

    async def refusal(self, what: str, **values: Any) -> str:
        before = self.controller.revision
        reply = await self.send(what, **values)
        assert reply.status in {400, 404}
        assert self.controller.revision == before
        return str(json.loads(reply.body)["message"])

    def call(self, path: str, method: str = "POST", by: str | None = "forwarder", **body: Any) -> Reply:
        """What a program sends."""
        headers = {"content-type": "application/json", **HERE}
        if by is not None:
            account = getattr(self.controller.exchange, by)
            headers["authorization"] = f"Bearer {self.controller.exchange.token(account, self.now)}"
        return self.controller.handle(
            Call(method, path, {}, headers, json.dumps(body).encode() if body else b""), self.now
        )

    def offer(self, request: int = 1, amount: float = 100, **more: Any) -> Reply:
        return self.call("quote/submitoffer", requestIndex=request, offer=amount, currencyIndex=840, **more)


@pytest.fixture
def client() -> BoardClient:
    return BoardClient()


# A request from its form to its contacts


async def test_publish(client: BoardClient) -> None:
    (request,) = (await client.act("requests", **PUBLISH))["requests"]
    assert request["state"] == "open"
    assert request["offers"] == []
    assert (request["commodity"], request["origin"], request["arrival"]) == ("Green tea", "Shenzhen", "2030-03-15")
    assert (request["volume"], request["weight"], request["hazardous"]) == ("3.60", "842", True)
    listed = json.loads(client.call("quote/getrequests", by="forwarder").body)["raterequests"]
    assert listed["0"]["commodityname"] == "Green tea"
    assert client.controller.exchange.audit_log.publications[0].call is None


async def test_the_exchanges_own_rules_judge_the_form(client: BoardClient) -> None:
    reply = await client.send("requests", **{**PUBLISH, "weight": "-3"})
    assert reply.status == 400
    assert json.loads(reply.body) == {"message": "The field weight must be a number above zero.", "field": "weight"}
    assert (await client.state())["requests"] == []


async def test_a_forwarder_is_named_by_the_approval(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    client.offer(amount=1840.5, rates={"Ocean Freight": 1700, "Chassis Fee": 140.5}, terms="valid 14 days")
    seen = await client.state()
    (offer,) = seen["requests"][0]["offers"]
    assert (offer["amount"], offer["currency"], offer["status"]) == ("1,840.50", "USD", "pending")
    assert offer["rates"] == [["Ocean Freight", "1,700.00"], ["Chassis Fee", "140.50"]]
    assert seen["counts"] == {"open": 1, "selected": 0, "withdrawn": 0, "waiting": 1, "struck": 0, "duplicates": 0}
    # Nothing of the forwarder, anywhere in what is known of the request.
    assert "Fergus" not in json.dumps(seen["requests"])
    assert "forwarder" not in json.dumps(seen["requests"]).replace('"forwarder": null', "")

    seen = await client.act("respond", offer=offer["id"], approved=1)
    (offer,) = seen["requests"][0]["offers"]
    assert offer["status"] == "selected"
    assert offer["forwarder"] == {
        "name": "Fergus Forward",
        "email": "forwarder@demo.example",
        "company": "Forward & Co. Ltd",
        "phone": "+852 5550 0100",
        "address": "1 Harbour Road, Hong Kong, Hong Kong",
    }
    assert offer["shipper"]["name"] == "Sylvia Ship"
    assert seen["counts"]["waiting"] == 0
    assert await client.refusal("respond", offer=offer["id"], approved=1) == "An offer has already been selected."


async def test_decline(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    client.offer()
    (request,) = (await client.act("respond", offer=5001, approved=0))["requests"]
    assert request["state"] == "open"
    assert [offer["status"] for offer in request["offers"]] == ["declined"]
    assert await client.refusal("respond", offer=5001, approved=0) == "The offer is no longer pending."
    assert await client.refusal("respond", offer=7, approved=0) == "There is no such offer."


async def test_whoever_published_it_the_board_answers_for_him(client: BoardClient) -> None:
    client.call("quote/submitrequest", by="rival", **PUBLISH)
    client.offer()
    (request,) = (await client.act("respond", offer=5001, approved=1))["requests"]
    assert request["offers"][0]["shipper"]["name"] == "Rita Rival"


async def test_withdraw(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    (request,) = (await client.act("withdraw", request=1))["requests"]
    assert request["state"] == "withdrawn"
    assert await client.refusal("withdraw", request=1) == "That request is not open any more."
    assert await client.refusal("withdraw", request=9) == "That request is not open any more."


async def test_the_rival_goes_below_the_best_offer(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    seen = await client.act("offer_as_rival", request=1)
    assert [offer["amount"] for offer in seen["requests"][0]["offers"]] == ["252.00"]  # 3.6 m3 at 70 dollars
    client.offer(amount=100)
    seen = await client.act("offer_as_rival", request=1)
    assert [offer["amount"] for offer in seen["requests"][0]["offers"]] == ["252.00", "100.00", "97.00"]
    assert seen["counts"]["duplicates"] == 0
    assert await client.refusal("offer_as_rival", request=2) == "There is no such request."


async def test_the_rival_goes_below_no_dollar(client: BoardClient) -> None:
    """An offer that it made again and again would be counted as one that was sent twice."""
    await client.act("requests", **PUBLISH)
    client.offer(amount=1.04)
    seen = await client.act("offer_as_rival", request=1)
    assert [offer["amount"] for offer in seen["requests"][0]["offers"]] == ["1.04", "1.01"]
    assert await client.refusal("offer_as_rival", request=1) == "The rival goes no lower: its least offer is 1.00."
    assert (await client.state())["counts"]["duplicates"] == 0


@pytest.mark.parametrize("size", ["0.000001", "9" * 30])
async def test_the_rival_and_the_page_bear_any_cargo(client: BoardClient, size: str) -> None:
    await client.act("requests", **{**PUBLISH, "length": size, "width": size, "height": size, "weight": size})
    seen = await client.act("offer_as_rival", request=1)
    assert [offer["amount"] for offer in seen["requests"][0]["offers"]] == ["1,000.00"]


async def test_what_is_open_is_shown_before_what_is_over(client: BoardClient) -> None:
    """The page has its limit: what waits for an answer must not be behind it."""
    for _ in range(204):
        client.controller.exchange.publish(client.controller.exchange.shipper, NOW)
    client.offer(2)
    for request in (204, 203):
        client.controller.exchange.withdraw(request, NOW)
    client.offer(202)
    client.controller.exchange.select(5002, NOW)
    seen = await client.state()
    assert [request["index"] for request in seen["requests"]] == [*range(201, 2, -1), 2]
    assert seen["hidden"] == 4
    assert sum(len(request["offers"]) for request in seen["requests"]) == seen["counts"]["waiting"] == 1


@pytest.mark.parametrize("text", ["\udfff\udffeNaN", "\ud800", "\x00\u2028</script>"])
async def test_the_page_can_read_any_text(client: BoardClient, text: str) -> None:
    assert client.call("quote/submitrequest", by="shipper", **{**PUBLISH, "commodityname": text}).status == 200
    assert [request["commodity"] for request in (await client.state())["requests"]] == [text]


# Faults and habits


async def test_a_lost_answer_and_how_a_careless_caller_copes(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    seen = await client.act("arm", name="reset_after_processing", operation="submit", times=1)
    assert [(armed["label"], armed["at"]) for armed in seen["armed"]] == [
        ("The answer to an offer gets lost", "Submitting an offer")
    ]
    # Not what the fault is for, and so not struck.
    assert client.call("quote/getrequests").wire is None
    assert client.call("quote/bid", requestIndex=1, offer=100, currencyIndex=840).wire is not None
    client.call("quote/bid", "GET")
    seen = await client.state()
    assert seen["armed"] == []
    assert seen["counts"]["struck"] == 1
    (strike,) = seen["strikes"]
    assert strike["fault"] == "The answer to an offer gets lost"
    assert (strike["caller"], strike["processed"], strike["request"]) == ("forwarder@demo.example", True, 1)
    assert [step["actions"] for step in strike["next_calls"]] == [["lists its own offers"]]
    assert strike["offers"] == 1

    client.offer()
    seen = await client.state()
    assert seen["strikes"][0]["offers"] == 2
    assert seen["counts"]["duplicates"] == 1


async def test_another_offer_is_no_second_one(client: BoardClient) -> None:
    """A bot whose offer was declined does right to make a better one, however its answer gets lost."""
    await client.act("requests", **PUBLISH)
    client.offer(amount=900)
    await client.act("respond", offer=5001, approved=0)
    await client.act("arm", name="reset_after_processing", operation="submit", times=1)
    client.offer(amount=850)
    assert (await client.state())["strikes"][0]["offers"] == 1
    client.offer(amount=800)
    assert (await client.state())["strikes"][0]["offers"] == 1
    client.offer(amount=850)
    assert (await client.state())["strikes"][0]["offers"] == 2


async def test_a_caller_is_known_though_the_exchange_never_heard_the_call(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    await client.act("arm", name="reset_after_send", operation="submit", times=1)
    client.offer()
    (strike,) = (await client.state())["strikes"]
    assert (strike["caller"], strike["processed"], strike["offers"]) == ("forwarder@demo.example", False, 0)


async def test_what_the_caller_did_about_something_else_is_left_out(client: BoardClient) -> None:
    for _ in range(2):
        await client.act("requests", **PUBLISH)
    await client.act("arm", name="reset_after_send", operation="submit", times=1)
    client.offer(1)
    client.offer(2)
    client.call("quote/getrequests", by="rival")
    client.call("quote/bid", "GET")
    client.offer(1)
    (strike,) = (await client.state())["strikes"]
    assert [(step["actions"], step["request"]) for step in strike["next_calls"]] == [
        (["lists its own offers"], None),
        (["submits an offer"], 1),
    ]


async def test_what_the_board_does_no_fault_strikes(client: BoardClient) -> None:
    await client.act("arm", name="unavailable_forever")
    (request,) = (await client.act("requests", **PUBLISH))["requests"]
    assert request["index"] == 1
    assert client.call("quote/getrequests").status == 503
    assert client.call("login", by=None, email="x", password="y").status == 503
    (armed,) = (await client.state())["armed"]
    assert armed["times"] is None
    seen = await client.act("disarm", id=armed["id"])
    assert seen["armed"] == []
    assert client.call("quote/getrequests").status == 200


async def test_two_of_a_kind_are_switched_off_one_by_one(client: BoardClient) -> None:
    await client.act("arm", name="unavailable", operation="search", times=3)
    first, second = (await client.act("arm", name="unavailable", operation="search", times=1))["armed"]
    assert [armed["id"] for armed in (await client.act("disarm", id=first["id"]))["armed"]] == [second["id"]]
    assert [client.call("quote/getrequests").status for _ in range(2)] == [503, 200]
    await client.act("arm", name="unavailable")
    assert (await client.act("disarm"))["armed"] == []


async def test_a_fault_at_the_moment_that_was_asked_for(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    await client.act("arm", name="unavailable", operation="submit", times=2, processed=True)
    assert [client.offer(amount=amount).status for amount in (1, 2, 3)] == [503, 503, 200]
    assert len((await client.state())["requests"][0]["offers"]) == 3
    assert (
        await client.refusal("arm", name="reset_after_send", processed=True)
        == "This fault cannot strike at that moment."
    )
    assert await client.refusal("arm", name="slow", seconds=600) == "Give seconds from 0 to 60."
    assert await client.refusal("arm", name="slow", times=0) == "The field times is out of range."
    for missing in ({"name": "refused"}, {"name": "nonsense"}, {"name": "slow", "operation": "nonsense"}):
        assert await client.refusal("arm", **missing) == "There is no such fault."


async def test_habits(client: BoardClient) -> None:
    seen = await client.act("set_quirk", name="rows_clamp", value=3)
    assert seen["quirks"] == {"rows_clamp": 3}
    await client.act("set_quirk", name="order", value="random")
    seen = await client.act("set_quirk", name="latency", value=0.25)
    assert seen["quirks"] == {"rows_clamp": 3, "order": "random", "latency": 0.25}
    assert client.controller.exchange.profile == Profile(rows_clamp=3, order="random", latency=0.25)
    seen = await client.act("set_quirk", name="rows_clamp", value=None)
    assert "rows_clamp" not in seen["quirks"]
    assert (await client.act("reset_quirks"))["quirks"] == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("order", "sideways"),
        ("order", None),
        ("latency", -1),
        ("latency", 61),
        pytest.param("latency", 10**400, id="a giant"),
        ("latency", "1"),
        ("latency", True),
        ("rows_clamp", 0),
        ("rows_clamp", 1.5),
        ("rows_clamp", True),
        ("token_lifetime", None),
        ("bom", 1),
        ("unauthorized_status", True),
        ("unauthorized_status", 404),
        ("colour", "blue"),
        ("__init__", "blue"),
    ],
)
async def test_habits_that_nobody_has(client: BoardClient, name: str, value: object) -> None:
    assert await client.refusal("set_quirk", name=name, value=value)
    assert client.controller.exchange.profile == Profile()


async def test_every_fault_and_habit_on_offer_can_be_switched_on(client: BoardClient) -> None:
    offered = json.loads((await client.get("board/catalogue")).body)
    for fault in offered["faults"]:
        await client.act("arm", name=fault["name"], operation=fault["operation"], processed=fault["phases"][-1])
    for habit in offered["quirks"]:
        for choice in habit["choices"] or [habit["default"]]:
            await client.act("set_quirk", name=habit["name"], value=choice)
    shelved = {fault["name"]: fault for fault in offered["faults"]}
    operations = {operation["key"] for operation in offered["operations"]}
    for entry in offered["suggested_faults"]:
        assert entry["fault"] in shelved
        assert entry["operation"] in operations | {""}
    assert len(offered["faults"]) == 84
    assert len(offered["quirks"]) == len(Profile.knobs())


async def test_every_example_can_be_published(client: BoardClient) -> None:
    for cargo in json.loads((await client.get("board/catalogue")).body)["samples"]:
        await client.act("requests", **cargo)
    assert len((await client.state())["requests"]) == len(list(samples(8, NOW)))


# Traffic


async def test_polls_are_one_line(client: BoardClient) -> None:
    for _ in range(5):
        client.call("quote/getrequests")
        client.call("quote/bid", "GET")
    client.call("quote/getrequests", by="rival")
    client.call("nowhere")
    calls = (await client.state())["calls"]
    assert [(call["caller"].partition("@")[0], call["actions"], call["status"], call["count"]) for call in calls] == [
        ("forwarder", ["calls POST nowhere"], 404, 1),
        ("rival", ["lists requests"], 200, 1),
        ("forwarder", ["lists requests", "lists its own offers"], 200, 10),
    ]


async def test_a_login_says_who(client: BoardClient) -> None:
    client.call("login", by=None, email="forwarder@demo.example", password="wrong")
    client.controller.handle(Call("POST", "login", {}, HERE, b"\xff{"), NOW)
    calls = (await client.state())["calls"]
    assert [(call["caller"], call["status"]) for call in calls] == [(None, 400), ("forwarder@demo.example", 401)]
    assert "wrong" not in json.dumps(await client.state())


async def test_weeks_of_calls_are_not_kept(client: BoardClient) -> None:
    await client.act("arm", name="unavailable_forever", times=None)
    for _ in range(5_000):
        client.call("quote/getrequests")
    audit_log, script = client.controller.exchange.audit_log, client.controller.exchange.faults
    assert max(len(audit_log.calls), len(script.fired)) <= 2_000
    seen = await client.state()
    assert seen["counts"]["struck"] == 5_000
    assert len(json.dumps(seen)) < 50_000


# Live


@pytest.mark.virtual_time
async def test_news_comes_at_once_and_silence_after_a_while(client: BoardClient) -> None:
    async def waits() -> tuple[int, float]:
        begun = anyio.current_time()
        reply = await client.get("board/state", query={"after": str(client.controller.revision)})
        return json.loads(reply.body)["counts"]["open"], anyio.current_time() - begun

    seen: list[tuple[int, float]] = []

    async def watch() -> None:
        seen.append(await waits())

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(watch)
        await anyio.sleep(7)
        await client.send("requests", **PUBLISH)
    assert seen == [(1, 7.0)] * 3
    assert await waits() == (1, 20.0)


async def test_another_exchange_is_at_another_revision() -> None:
    """Or a page that has waited at the one before it would take it for that one."""
    revisions = {BoardController(Exchange()).revision for _ in range(5)}
    assert len(revisions) == 5
    # Enough for what happens meanwhile; and a page counts exactly up to 2**53. It asks after 0 for what there is.
    assert all(0 < revision < 2**50 for revision in revisions)


# Who may ask


async def test_the_page_and_its_parts(client: BoardClient) -> None:
    page = (await client.get("board")).body.decode()
    parts = set(re.findall(r'(?:src|href)="/([^"]+)"', page))
    assert parts == {"board/icon.svg", "board/board.css", "board/board.js"}
    for part in parts:
        assert (await client.get(part)).status == 200
    assert dict((await client.get("")).headers)["location"] == "/board"
    assert (await client.get("board/board.py")).status == 404
    assert (await client.get("board/../desk.py")).status == 404


async def test_nothing_inline_and_nothing_from_elsewhere(client: BoardClient) -> None:
    replies = [await client.get(path) for path in ("board", "board/board.js", "board/board.css", "board/state", "x")]
    for reply in replies:
        headers = dict(reply.headers)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
    page = replies[0].body.decode()
    assert not re.search(r"<script(?![^>]+src=)|<style|\sstyle=|\son\w+=|://", page)


STRANGERS = ["evil.example", "evil.example:8765", "localhost.evil.example", "127.0.0.1.evil.example", "", "[", "a b"]


@pytest.mark.parametrize("host", STRANGERS)
async def test_a_name_that_was_pointed_here(client: BoardClient, host: str) -> None:
    """DNS rebinding: the page of another site reaches this server under that site's name."""
    there = {"host": host}
    for path in ("", "board", "board/state", "board/catalogue"):
        assert (await client.get(path, there)).status == 421
    assert (await client.send("requests", {**PAGE, **there, "origin": f"http://{host}"}, **PUBLISH)).status == 421
    body = b'{"email": "shipper@demo.example", "password": "shipper"}'
    login = Call("POST", "login", {}, {**there, "content-type": "application/json"}, body)
    assert client.controller.handle(login, NOW).status == 421
    assert (await client.state())["counts"]["open"] == 0


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "10.1.2.3", "sandbox:8765", "Box.Local", "Localhost"]
)
async def test_its_own_names(client: BoardClient, host: str) -> None:
    client.controller = BoardController(client.controller.exchange, names=["Sandbox", "BOX.local"])
    client.board = Board(client.controller)
    headers = {**PAGE, "host": host, "origin": f"http://{host}"}
    assert (await client.get("board", headers)).status == 200
    assert (await client.send("requests", headers, **PUBLISH)).status == 200


@pytest.mark.parametrize(
    "change",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8765"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": None},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": None},
    ],
)
async def test_pages_of_others_change_nothing(client: BoardClient, change: Mapping[str, str | None]) -> None:
    merged = {**PAGE, **change}
    headers = {name: value for name, value in merged.items() if value is not None}
    before = await client.state()
    for what, values in (
        ("requests", PUBLISH),
        ("arm", {"name": "slow"}),
        ("reset_quirks", {}),
        ("set_quirk", {"name": "bom"}),
    ):
        assert (await client.send(what, headers, **values)).status in {403, 415}
    assert await client.state() == before


@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-site", 403), ("", 403), ("same-origin", 200), ("none", 200), (None, 200)],
)
async def test_pages_of_others_see_nothing(client: BoardClient, site: str | None, status: int) -> None:
    headers = HERE if site is None else {**HERE, "sec-fetch-site": site}
    for path in ("board/state", "board/catalogue"):
        reply = await client.get(path, headers)
        assert reply.status == status
        assert (b"demo.example" in reply.body) == (status == 200 and path == "board/catalogue")
    # A link from elsewhere leads to the page.
    assert (await client.get("board", headers)).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", ""])
async def test_pages_of_others_do_not_reach_the_exchange(client: BoardClient, site: str) -> None:
    """They could use up a fault that is switched on, and write what they like into the list of calls."""
    await client.act("arm", name="unavailable", times=1)
    before = await client.state()
    there = {**HERE, "sec-fetch-site": site, "content-type": "text/plain"}
    for call in (Call("POST", "login", {}, there, b'{"email": "Hello", "password": "x"}'), Call("GET", "x", {}, there)):
        assert client.controller.handle(call, NOW).status == 403
    assert await client.state() == before


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_whoever_types_an_address_of_the_api_is_answered(client: BoardClient, site: str) -> None:
    call = Call("GET", "currency", {}, {**HERE, "sec-fetch-site": site})
    assert client.controller.handle(call, NOW).status == 401


async def test_a_caller_with_a_long_name_is_shown_by_its_beginning(client: BoardClient) -> None:
    client.call("login", by=None, email="x" * 3_000_000, password="y")
    assert [call["caller"] for call in (await client.state())["calls"]] == ["x" * 100]


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("after", "status"),
    [("9" * 18, 200), ("9" * 19, 400), ("9" * 5_000, 400), ("-1", 400), ("1.5", 400), ("\u0663", 400), ("", 400)],
)
async def test_a_revision_that_is_none(client: BoardClient, after: str, status: int) -> None:
    reply = await client.get("board/state", query={"after": after})
    assert reply.status == status
    assert json.loads(reply.body).get("field") == ("after" if status == 400 else None)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\xff", b"[" * 90_000, b'{"x": "' + b"x" * 100_000 + b'"}', b"null"]
)
async def test_bodies_that_are_none(client: BoardClient, body: bytes) -> None:
    for what in ("requests", "withdraw", "respond", "offer_as_rival", "arm", "set_quirk", "nonsense"):
        assert (await client.board(Call("POST", f"board/{what}", {}, PAGE, body))).status in {400, 404, 413}


async def test_other_methods(client: BoardClient) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"):
        reply = await client.board(Call(method, "board", {}, PAGE))
        assert reply.status == 405
        # A reply to HEAD has no body, or it would be taken for the next reply.
        assert bool(reply.body) == (method != "HEAD")


async def test_over_sockets_beside_the_api() -> None:
    controller = BoardController(Exchange())
    board = Board(controller)
    async with serve_tcp(controller, site=board) as face:
        root = face.url.removesuffix("/api")
        async with httpx.AsyncClient(base_url=root, trust_env=False) as client:
            assert (await client.get("/")).headers["location"] == "/board"
            assert (await client.get("/board")).headers["content-type"] == "text/html; charset=utf-8"
            published = await client.post("/board/requests", json=dict(PUBLISH), headers={"origin": root})
            assert published.status_code == 200
            login = {"email": "forwarder@demo.example", "password": "forwarder"}
            user = (await client.post("/api/login", json=login)).json()["user"]
            bearer = {"authorization": f"Bearer {user['access_token']}"}
            listed = (await client.post("/api/quote/getrequests", json={}, headers=bearer)).json()
            assert listed["raterequests"]["0"]["commodityname"] == "Green tea"
            assert (await client.get("/elsewhere")).status_code == 404
