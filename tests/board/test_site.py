"""Tests of the board over HTTP: its page, its long poll, and its protection against other sites."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import anyio
import httpx
import pytest
from tests.board.rig import HERE, PAGE, BoardClient
from tests.sandbox.rig import NOW, PUBLISH

from freight_sandbox import Call, Exchange
from freight_sandbox.board import Board, BoardController
from freight_sandbox.server import serve


@pytest.fixture
def client() -> BoardClient:
    return BoardClient()


# Live


@pytest.mark.virtual_time
async def test_state_request_waits_for_a_change_up_to_20_seconds(client: BoardClient) -> None:
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


async def test_each_exchange_starts_at_another_revision() -> None:
    """A page that waits for a change must not confuse a new exchange with the one before."""
    revisions = {BoardController(Exchange()).revision for _ in range(5)}
    assert len(revisions) == 5
    # Enough for what happens meanwhile; and a page counts exactly up to 2**53. It asks after 0 for what there is.
    assert all(0 < revision < 2**50 for revision in revisions)


# Who may ask


async def test_page_has_its_files_and_no_others(client: BoardClient) -> None:
    page = (await client.get("board")).body.decode()
    parts = set(re.findall(r'(?:src|href)="/([^"]+)"', page))
    assert parts == {"board/icon.svg", "board/board.css", "board/board.js"}
    for part in parts:
        assert (await client.get(part)).status == 200
    assert dict((await client.get("")).headers)["location"] == "/board"
    assert (await client.get("board/site.py")).status == 404
    assert (await client.get("board/../site.py")).status == 404


async def test_content_security_policy_allows_own_files_only(client: BoardClient) -> None:
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
async def test_unknown_host_gets_421(client: BoardClient, host: str) -> None:
    """In DNS rebinding, the page of another site reaches this server under that site's name."""
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
async def test_own_host_names_are_accepted(client: BoardClient, host: str) -> None:
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
async def test_other_pages_cannot_change_anything(client: BoardClient, change: Mapping[str, str | None]) -> None:
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
async def test_other_pages_cannot_read_the_board(client: BoardClient, site: str | None, status: int) -> None:
    headers = HERE if site is None else {**HERE, "sec-fetch-site": site}
    for path in ("board/state", "board/catalogue"):
        reply = await client.get(path, headers)
        assert reply.status == status
        assert (b"demo.example" in reply.body) == (status == 200 and path == "board/catalogue")
    # A link from elsewhere leads to the page.
    assert (await client.get("board", headers)).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", ""])
async def test_other_pages_cannot_call_the_exchange(client: BoardClient, site: str) -> None:
    """They could use up an armed fault, and write any text into the list of calls."""
    await client.act("arm", name="unavailable", times=1)
    before = await client.state()
    there = {**HERE, "sec-fetch-site": site, "content-type": "text/plain"}
    for call in (Call("POST", "login", {}, there, b'{"email": "Hello", "password": "x"}'), Call("GET", "x", {}, there)):
        assert client.controller.handle(call, NOW).status == 403
    assert await client.state() == before


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_typed_api_address_is_answered(client: BoardClient, site: str) -> None:
    call = Call("GET", "currency", {}, {**HERE, "sec-fetch-site": site})
    assert client.controller.handle(call, NOW).status == 401


async def test_long_caller_name_is_truncated(client: BoardClient) -> None:
    client.call("login", by=None, email="x" * 3_000_000, password="y")
    assert [call["caller"] for call in (await client.state())["calls"]] == ["x" * 100]


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("after", "status"),
    [("9" * 18, 200), ("9" * 19, 400), ("9" * 5_000, 400), ("-1", 400), ("1.5", 400), ("\u0663", 400), ("", 400)],
)
async def test_invalid_revision_gets_400(client: BoardClient, after: str, status: int) -> None:
    reply = await client.get("board/state", query={"after": after})
    assert reply.status == status
    assert json.loads(reply.body).get("field") == ("after" if status == 400 else None)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\xff", b"[" * 90_000, b'{"x": "' + b"x" * 100_000 + b'"}', b"null"]
)
async def test_invalid_body_of_an_action_is_refused(client: BoardClient, body: bytes) -> None:
    for what in ("requests", "withdraw", "respond", "offer_as_rival", "arm", "set_quirk", "nonsense"):
        assert (await client.board(Call("POST", f"board/{what}", {}, PAGE, body))).status in {400, 404, 413}


async def test_other_methods_get_405(client: BoardClient) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"):
        reply = await client.board(Call(method, "board", {}, PAGE))
        assert reply.status == 405
        # A reply to HEAD has no body, or it would be taken for the next reply.
        assert bool(reply.body) == (method != "HEAD")


async def test_board_and_api_share_a_server() -> None:
    controller = BoardController(Exchange())
    board = Board(controller)
    async with serve(controller, site=board) as face:
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
