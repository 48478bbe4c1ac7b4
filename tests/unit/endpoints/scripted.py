"""Client of a server with scripted replies."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx

from freight_exchange import (
    DecodeError,
    FreightExchange,
    FreightExchangeError,
    RetryPolicy,
    RouteDraft,
)
from freight_exchange.hooks import BrokenRecord, Event

USER = {"user": {"access_token": "t0ken", "expires_on": 3600, "firstname": "Ada"}}


BROKEN = {"index": 8, "weight": {}}


OFFERS = {"offers": {"0": {"index": 7, "offer": {"0": {"offerId": "31", "offerAmount": "much"}}}, "1": {"index": 8}}}


ROUTE = RouteDraft(
    origin="Busan",
    destination="Hamburg",
    cy_cutoff=datetime(2030, 1, 1),
    cfs_cutoff=datetime(2030, 1, 2),
    departure=datetime(2030, 1, 3),
    arrival=datetime(2030, 2, 1),
    carrier=3,
    vessel="MV Example",
    voyage_id="001W",
    timezone="Asia/Seoul",
)


def replies(data: object, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=data if isinstance(data, bytes) else json.dumps(data).encode())


class ScriptedService:
    """Service that accepts each login and gives its replies in turn, the last one forever."""

    def __init__(self, *answers: httpx.Response, login: httpx.Response | None = None) -> None:
        self.answers = list(answers)
        self.login = login if login is not None else replies(USER)
        self.requests: list[tuple[str, Any]] = []
        self.events: list[Event] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            reply = self.login
        else:
            self.requests.append((request.url.path, json.loads(request.content or b"null")))
            reply = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)

    def client(self, **options: Any) -> FreightExchange:
        return FreightExchange(
            "http://127.0.0.1/api",
            email="me@co.example",
            password="correct horse",
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self.answer)),
            retries=RetryPolicy(base=0.001, cap=0.001),
            hooks=[self.events.append],
            **options,
        )

    @property
    def broken(self) -> list[str]:
        return [event.error.path for event in self.events if isinstance(event, BrokenRecord)]


def carried(error: FreightExchangeError) -> tuple[str | None, int | None, int]:
    """Return the fields of an error that describe its call, and the elapsed time."""
    assert error.elapsed is not None
    assert error.elapsed >= 0
    assert error.settled
    path = error.request_path if isinstance(error, DecodeError) else error.path
    return path, error.status, error.attempts
