"""Server written from the service's document alone, with the quirks of a run."""

from __future__ import annotations

import json
import random
from typing import Any

import anyio
import attrs
import httpx
from tests.model.servers.market import Content, Market, Row
from tests.model.servers.quirks import Quirks

__all__ = ["Served", "StormError", "StrangeServer"]

_MOST_REQUESTS = 20_000
_DEFAULT_WINDOW = 3600
_NUMBERS = ("index", "qty", "width", "height", "length", "weight", "hazardous")


class StormError(Exception):
    """Error for a watcher that sends requests endlessly."""


@attrs.frozen
class Served:
    """Request and its reply.

    Attributes:
        call: `listing`, `look-up`, `login` or `other`.
        failed: Whether the reply was an error.
        rows: The rows of the reply.
        as_of: Time of the data in the reply.
        newer: Whether its records had the field of a newer release.
    """

    at: float
    call: str
    body: dict[str, Any]
    failed: bool
    rows: dict[int, Content]
    note: str = ""
    as_of: float = 0.0
    newer: bool = False


class StrangeServer:
    """Service as a transport of httpx, in the event loop's time.

    Attributes:
        served: Each request so far.
    """

    def __init__(self, market: Market, quirks: Quirks, seed: int) -> None:
        self.market = market
        self.quirks = quirks
        self.served: list[Served] = []
        self._draw = random.Random(f"server {seed}")
        self._cache: dict[str, tuple[float, float, bool, str, dict[int, Content]]] = {}
        self._tokens = 0
        self._as_of = 0.0
        self._newer = False

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.MockTransport(self._handle)

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        latency = self.quirks.latency * self._draw.uniform(0.2, 2)
        await anyio.sleep(latency / 2)
        if len(self.served) > _MOST_REQUESTS:
            raise StormError
        body: dict[str, Any] = json.loads(request.content) if request.content else {}
        now = anyio.current_time()
        path = request.url.path.split("/api/", 1)[1]
        call = "other"
        if path == "login":
            call = "login"
        elif path in ("quote/getrequests", "quote/request"):
            call = "look-up" if "index" in body else "listing"
        kind = self._failure(now, call)
        if kind:
            self.served.append(Served(now, call, body, True, {}, kind))
            return await self._fail(request, kind)
        self._as_of = now
        text, rows = self._answer(now, call, path, body, request)
        self.served.append(Served(now, call, body, False, rows, as_of=self._as_of, newer=self._newer))
        await anyio.sleep(latency / 2)
        status = 401 if text.startswith('{"Unauthorized"') else 400 if text.startswith('{"message"') else 200
        return httpx.Response(status, text=text, headers={"Content-Type": "application/json"})

    def _failure(self, now: float, call: str) -> str:
        for failure in self.quirks.failures:
            if now in failure.span and self._draw.random() < failure.share:
                if failure.kind in ("token", "400") and call == "login":
                    continue
                return failure.kind
        return ""

    async def _fail(self, request: httpx.Request, kind: str) -> httpx.Response:
        match kind:
            case "refused":
                raise httpx.ConnectError("refused", request=request)
            case "timeout":
                await anyio.sleep(30)
                raise httpx.ReadTimeout("no reply", request=request)
            case "503":
                return httpx.Response(503, json={"message": "maintenance"})
            case "429":
                return httpx.Response(429, json={"message": "too many"})
            case "429 retry":
                return httpx.Response(429, json={"message": "too many"}, headers={"Retry-After": "1200"})
            case "400":
                return httpx.Response(400, json={"message": "cannot"})
            case "token":
                return httpx.Response(401, json={"Unauthorized": "access denied"})
            case _:
                return httpx.Response(200, text="<html>please wait</html>", headers={"Content-Type": "text/html"})

    def _answer(
        self, now: float, call: str, path: str, body: dict[str, Any], request: httpx.Request
    ) -> tuple[str, dict[int, Content]]:
        if call == "login":
            self._tokens += 1
            user = {"access_token": f"token-{self._tokens}", "expires_on": self.quirks.token_lifetime, "firstname": "F"}
            return json.dumps({"user": user}), {}
        if not request.headers.get("Authorization", "").startswith("Bearer token-"):
            return '{"Unauthorized": "access denied"}', {}
        if call == "other":
            return json.dumps({path.rsplit("/", 1)[-1]: {}}), {}
        cache = self.quirks.cache
        cached = cache is not None and now < cache.until and (cache.listings if call == "listing" else cache.lookups)
        if not cached or cache is None:
            return self._compute(now, call, body)
        relevant = body if cache.key == "body" else {key: body[key] for key in body if key != "secondsSinceUpdate"}
        key = path + json.dumps(relevant, sort_keys=True)
        if key in self._cache and now - self._cache[key][0] < cache.ttl:
            _, self._as_of, self._newer, text, rows = self._cache[key]
            return text, rows
        text, rows = self._compute(now, call, body)
        self._cache[key] = now, self._as_of, self._newer, text, rows
        return text, rows

    def _compute(self, now: float, call: str, body: dict[str, Any]) -> tuple[str, dict[int, Content]]:
        lookup = call == "look-up"
        at, counted = self._moments(now, lookup)
        self._as_of = at
        rows = list(self.market.visible(at).values())
        if not lookup or self.quirks.lookups_have_windows:
            window = self.counted_window(int(body.get("secondsSinceUpdate", _DEFAULT_WINDOW)))
            least = self.quirks.service_clock(counted) - window
            rows = [row for row in rows if row.stamp >= least]
        form = ""
        for empty in self.quirks.empties:
            if now in empty.span and (empty.lookups if lookup else empty.listings):
                rows = [row for row in rows if not empty.hides(row.index)]
                form = empty.form
        if lookup:
            rows = [row for row in rows if row.index == int(body["index"])]
        else:
            rows.sort(key=lambda row: (row.stamp, row.index), reverse=True)
            if self.quirks.shuffled:
                self._draw.shuffle(rows)
            asked_rows = int(body.get("rowsperpage", 20))
            size = max(1, min(asked_rows, self.quirks.clamp(now)))
            number = int(body.get("offset", 0))
            page = rows[number * size : (number + 1) * size]
            if number and not page and self.quirks.past_end == "refused":
                return '{"message": "no such page"}', {}
            if number and not page and rows and self.quirks.past_end == "again":
                page = rows[(len(rows) - 1) // size * size :]
            rows = page
            if self.quirks.duplicates and rows and self._draw.random() < 0.3:
                rows = [*rows, self._draw.choice(rows)][:size]
        return self._render(rows, form), {row.index: row.content for row in rows}

    def _moments(self, now: float, lookup: bool) -> tuple[float, float]:
        """Return the time of the data, and the time from which the window counts back."""
        at = counted = now
        replicas = self.quirks.replicas
        if replicas is not None and now < replicas.until:
            match replicas.pick:
                case "request":
                    lag = self._draw.choice(replicas.lags)
                case "minute":
                    lag = replicas.lags[int(now // 60) * 7919 % len(replicas.lags)]
                case "hour":
                    lag = replicas.lags[int(now // 3600) % len(replicas.lags)]
                case _:
                    lag = replicas.lags[0] if lookup else replicas.lags[-1]
            at -= lag
        for freeze in self.quirks.freezes:
            if now in freeze.span and (freeze.lookups if lookup else freeze.listings):
                at = min(at, freeze.span.start)
                if not freeze.moves:
                    counted = min(counted, freeze.span.start)
        return at, counted

    def counted_window(self, seconds: int) -> float:
        """Return the window that the service counts for a requested number of seconds."""
        match self.quirks.windows:
            case "minutes down":
                return seconds // 60 * 60
            case "minutes up":
                return -(-seconds // 60) * 60
            case "hours down":
                return seconds // 3600 * 3600
            case "hours up":
                return -(-seconds // 3600) * 3600
            case "ignored":
                return float("inf")
            case "an hour":
                return 3600
            case "capped":
                return min(seconds, self.quirks.cap)
            case _:
                return seconds

    def _render(self, rows: list[Row], form: str) -> str:
        text = self.quirks.texts == "always" or (self.quirks.texts == "at times" and self._draw.random() < 0.5)
        upper = self.quirks.cases == "always" or (self.quirks.cases == "at times" and self._draw.random() < 0.5)
        self._newer = self.quirks.releases and self._draw.random() < 0.5
        records = [_record(row, text=text, upper=upper, newer=self._newer) for row in rows]
        if form == "null" and not records:
            return '{"raterequests": null}'
        if form == "list":
            return json.dumps({"raterequests": records})
        return json.dumps({"raterequests": {str(number): record for number, record in enumerate(records)}})


def _record(row: Row, *, text: bool, upper: bool, newer: bool) -> dict[str, Any]:
    content = row.content
    record: dict[str, Any] = {
        "index": row.index,
        "commodityname": "Tiles",
        "refId": f"REF{row.index}",
        "requesttype": "Shipping",
        "status": content.status.upper() if upper else content.status,
        "origin": "Hong Kong",
        "destination": content.destination,
        "needdate": "2027-03-01 00:00:00",
        "notes": content.notes,
        "qty": content.quantity,
        "packaging": "PALLET" if upper else "Pallet",
        "measureUnit": "m",
        "width": 1.2,
        "height": 1,
        "length": 0.8,
        "massUnit": "kg",
        "weight": 640,
        "hazardous": 0,
    }
    if content.incoterm is not None:
        record["incoterm"] = content.incoterm
    if newer:
        record["carbonFootprint"] = 12
    if text:
        record |= {key: str(record[key]) for key in _NUMBERS}
    return record
