"""Board under test, for a person and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.sandbox.rig import NOW

from freight_sandbox import Call, Exchange, Reply
from freight_sandbox.board import Board, BoardController

HERE = {"host": "127.0.0.1:8765"}
PAGE = {**HERE, "origin": "http://127.0.0.1:8765", "content-type": "application/json", "sec-fetch-site": "same-origin"}


class BoardClient:
    """Client of the board, which acts as a person at its page and as a program at its API."""

    def __init__(self) -> None:
        self.now = NOW
        self.controller = BoardController(Exchange(seed=3), clock=lambda: self.now)
        self.board = Board(self.controller)
        self.board.url = "http://127.0.0.1:8765/api"
        self._tokens: dict[tuple[str, int], str] = {}

    async def get(self, path: str, headers: Mapping[str, str] = HERE, query: Mapping[str, str] | None = None) -> Reply:
        return await self.board(Call("GET", path, query or {}, headers))

    async def state(self) -> Any:
        return json.loads((await self.get("board/state", query={"after": "0"})).body)

    async def send(self, what: str, headers: Mapping[str, str] = PAGE, **values: Any) -> Reply:
        return await self.board(Call("POST", f"board/{what}", {}, headers, json.dumps(values).encode()))

    async def act(self, what: str, **values: Any) -> Any:
        """Run an action and return the state of the page."""
        reply = await self.send(what, **values)
        assert reply.status == 200, reply.body
        return await self.state()

    async def refusal(self, what: str, **values: Any) -> str:
        before = self.controller.revision
        reply = await self.send(what, **values)
        assert reply.status in {400, 404}
        assert self.controller.revision == before
        return str(json.loads(reply.body)["message"])

    def call(
        self, path: str, method: str = "POST", by: str | None = "forwarder", replica: int = 0, **body: Any
    ) -> Reply:
        """Send a call as a program; each replica has a separate login."""
        headers = {"content-type": "application/json", **HERE}
        if by is not None:
            exchange = self.controller.exchange
            if (by, replica) not in self._tokens:
                self._tokens[by, replica] = exchange.token(getattr(exchange, by), self.now)
            headers["authorization"] = f"Bearer {self._tokens[by, replica]}"
        return self.controller.handle(
            Call(method, path, {}, headers, json.dumps(body).encode() if body else b""), self.now
        )

    def offer(self, request: int = 1, amount: float = 100, **more: Any) -> Reply:
        return self.call("quote/submitoffer", requestIndex=request, offer=amount, currencyIndex=840, **more)
