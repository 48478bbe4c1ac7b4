"""Paging server of the model: an independent implementation of the service document's listings, for httpx."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import httpx
from tests.model.paging.plan import Move, Plan

__all__ = ["AMOUNT", "REQUEST", "EndlessError", "Row", "Server"]

REQUEST, AMOUNT, CURRENCY = 4_000, 1840, 840
"""Parts of the offer that runs submit."""

_MOST_PAGES = 20_000
_KEYS = {"bids": "bids", "requests": "raterequests", "offers": "offers", "routes": "routes"}
_PATHS = {
    "/api/quote/bid": "bids",
    "/api/quote/getrequests": "requests",
    "/api/quote/offer": "offers",
    "/api/route": "routes",
}
_SHOWN_BY = {None, "offers", "active"}
_ALONE, _LONG = 20, 130
"""Consecutive rows that a server hides at most, where it hides runs and long runs."""


class EndlessError(BaseException):
    """Endless page requests of a client. It is none of the client's own errors, so that no code retries it."""


@attrs.define(eq=False)
class Row:
    """Row of the listing: its wire index, its amount, and the time in which it was listed.

    Attributes:
        since, until: Number of the page request before which it came, and before which it left.
    """

    index: int
    amount: int
    visible: bool
    since: int = 0
    until: float = float("inf")
    listed_at: float = 0.0

    @property
    def terms(self) -> tuple[int, int]:
        return self.index, self.amount


@attrs.frozen
class Served:
    """Reply to a page request: the rows of the cut, including hidden ones; `None` if it was refused.

    Attributes:
        start: Number of the first row of the cut.
        clamp: Maximum rows in a page at that moment.
        past: Whether the page lies past the end.
    """

    start: int
    size_wanted: int
    clamp: int | None
    cut: int | None
    visible: tuple[tuple[int, int], ...]
    past: bool

    @property
    def hollow(self) -> bool:
        """Return whether the page contains rows and shows none of them."""
        return bool(self.cut) and not self.visible


_DEFAULT = 10
"""Rows of a page if the request names no number."""


class Server(httpx.AsyncBaseTransport):
    """Server of one run."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._random = Random(plan.seed + 1)
        self._next = 1
        self.rows: list[Row] = []
        self.gone: list[Row] = []
        self.served: list[Served] = []
        self.submitted: list[Row] = []
        self.moves: list[int] = []
        self._made: set[Move] = set()
        self.reading_from = 0
        self.sent = 0
        self._reading = False
        self._failed = False
        self._hide = 0
        for _ in range(plan.rows):
            self.rows.append(self._row())
        if plan.reading == "write" and plan.twin:
            self.rows.insert(self._place(), Row(REQUEST, AMOUNT, visible=True))

    def begin(self) -> None:
        """Begin the reading that is checked. Later page requests may find the listing moving."""
        self._reading = True
        self.reading_from = len(self.served)

    # HTTP

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, json.loads(await request.aread() or b"{}")
        if path == "/api/login":
            return _reply(200, {"user": {"access_token": "t0ken", "expires_on": 360_000}})
        if path == "/api/quote/submitoffer":
            return self._submit()
        await anyio.lowlevel.checkpoint()
        dropped = self._plan.dropped and request.method == "GET"
        return self._list(_PATHS[path], {"offset": 0, "rowsperpage": _DEFAULT} if dropped else body)

    def _submit(self) -> httpx.Response:
        self.sent += 1
        if self._plan.committed:
            row = Row(REQUEST, AMOUNT, visible=True, since=len(self.served))
            row.listed_at = anyio.current_time() + self._plan.late
            self.submitted.append(row)
            self.rows.insert(self._place(), row)
        raise httpx.ReadError("the answer is lost")

    def _list(self, noun: str, body: dict[str, Any]) -> httpx.Response:
        plan = self._plan
        if plan.failures and not self._failed and self._random.random() < plan.failures:
            self._failed = True
            if self._random.random() < 0.5:
                raise httpx.ReadError("cut")
            return _reply(503, {"message": "Service Unavailable"})
        self._failed = False
        if len(self.served) >= _MOST_PAGES:
            raise EndlessError
        self._move()
        kind = body.get("type") if noun == "bids" else None
        if kind is not None and plan.types == "refused":
            return _reply(400, {"message": "There is no such type."})
        offset, size_wanted = int(body["offset"]), int(body["rowsperpage"])
        if plan.limit is not None and size_wanted > plan.limit[0]:
            self.served.append(Served(0, size_wanted, self._clamp(), None, (), past=False))
            return _reply(plan.limit[1], {"message": "The field rowsperpage is too large."})
        return self._page(noun, offset, size_wanted, lists_rows=plan.types == "ignored" or kind in _SHOWN_BY)

    def _page(self, noun: str, offset: int, size_wanted: int, *, lists_rows: bool) -> httpx.Response:
        plan, now = self._plan, anyio.current_time()
        clamp = self._clamp()
        size = min(size_wanted, clamp) if clamp is not None else size_wanted
        rows = [row for row in self.rows if row.listed_at <= now] if lists_rows else []
        start = 0 if plan.offset_ignored else offset * (size if plan.stride == "clamped" else size_wanted)
        cut = rows[start : start + size]
        if not cut and rows and plan.end == "last_page":
            cut = rows[(len(rows) - 1) // size * size :]
        visible = [row for row in cut if row.visible]
        past = start >= len(rows)
        self.served.append(Served(start, size_wanted, clamp, len(cut), tuple(row.terms for row in visible), past=past))
        if not cut and offset and plan.end not in ("empty", "last_page"):
            message = "No records found." if plan.end == "404" else "The offset is out of range."
            return _reply(int(plan.end), {"message": message})
        return _reply(200, {_KEYS[noun]: {str(number): _wire(noun, row) for number, row in enumerate(visible)}})

    def _clamp(self) -> int | None:
        number, clamp = len(self.served), None
        for first, value in self._plan.clamps:
            if number >= first:
                clamp = value
        return clamp

    # The listing

    def _move(self) -> None:
        if not self._reading:
            return
        number = len(self.served)
        for move in self._plan.moves:
            if move.page != number - self.reading_from or move in self._made:
                continue
            self._made.add(move)
            self.moves.append(number)
            movable = [row for row in self.rows if row.terms != (REQUEST, AMOUNT)]
            match move.kind:
                case "insert":
                    row = self._row()
                    row.since = number
                    self.rows.insert(self._place(), row)
                case "remove" if movable:
                    row = self._random.choice(movable)
                    row.until = number
                    self.rows.remove(row)
                    self.gone.append(row)
                case "raise" if movable:
                    row = self._random.choice(movable)
                    self.rows.remove(row)
                    self.rows.insert(0, row)
                case "shuffle":
                    self._random.shuffle(self.rows)
                case _:
                    pass

    def _row(self) -> Row:
        plan, random = self._plan, self._random
        twins = [row for row in self.rows if row.terms != (REQUEST, AMOUNT)]
        visible = self._visible()
        if twins and random.random() < plan.twins:
            like = random.choice(twins)
            return Row(like.index, like.amount, visible)
        index, self._next = self._next, self._next + 1
        return Row(index, random.randrange(100, 110), visible)

    def _visible(self) -> bool:
        random = self._random
        match self._plan.hiding:
            case "few":
                return random.random() < 0.8
            case "most":
                return random.random() < 0.2
            case "runs" | "long" as hiding:
                if self._hide == 0 and random.random() < 0.15:
                    self._hide = random.randrange(1, _ALONE if hiding == "runs" else _LONG)
                self._hide = max(0, self._hide - 1)
                return self._hide == 0
            case _:
                return True

    def _place(self) -> int:
        match self._plan.place:
            case "first":
                return 0
            case "last":
                return len(self.rows)
            case _:
                return self._random.randrange(len(self.rows) + 1)


def _wire(noun: str, row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {"index": row.index}
    match noun:
        case "bids":
            record |= {"price": row.amount, "currencyIndex": CURRENCY, "status": "Available"}
        case "offers":
            record |= {"cargoname": "Green tea", "offer": {}}
        case "requests":
            record |= {"commodityname": "Green tea"}
        case _:
            record |= {"origin": "Shenzhen", "destination": "Hamburg"}
    return record


def _reply(status: int, payload: object) -> httpx.Response:
    return httpx.Response(status, json=payload)
