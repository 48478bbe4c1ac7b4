"""One call's bytes: respx answers a client with given replies, and keeps the requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import httpx
import respx

from freight_exchange import FreightExchange, RetryPolicy
from freight_exchange.hooks import BrokenRecord, Event

__all__ = ["LOGIN", "TOKEN", "URL", "Service", "answering", "reply"]

URL: Final = "http://127.0.0.1:9/root/api"
TOKEN: Final = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMiJ9.c2lnbmF0dXJl"
LOGIN: Final[dict[str, Any]] = {"user": {"access_token": TOKEN, "expires_on": 3600, "firstname": "Fergus"}}


def reply(body: object, status: int = 200, **headers: str) -> httpx.Response:
    """Make a reply of bytes, of text, or of a value as JSON; a reply is kept as it is."""
    if isinstance(body, httpx.Response):
        return body
    content = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return httpx.Response(status, content=content, headers={"content-type": "application/json", **headers})


@attrs.define
class Service:
    """Service that gives its replies in turn, the last one forever, and the client that calls it."""

    replies: list[httpx.Response]
    login: httpx.Response
    by: Callable[[Any], object] | None = None
    """If set, makes the reply from the body of the request."""
    exchange: FreightExchange = attrs.field(init=False)
    sent: list[httpx.Request] = attrs.Factory(list)
    """The requests, logins left out."""
    logins: list[httpx.Request] = attrs.Factory(list)
    events: list[Event] = attrs.Factory(list)
    """Events that the client's hooks received."""

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/root/api/login":
            self.logins.append(request)
            chosen = self.login
        else:
            self.sent.append(request)
            if self.by is not None:
                chosen = reply(self.by(json.loads(request.content or b"{}")))
            else:
                chosen = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return httpx.Response(chosen.status_code, content=chosen.content, headers=chosen.headers)

    @property
    def bodies(self) -> list[Any]:
        """The JSON of each request, `None` without a body."""
        return [json.loads(request.content or b"null") for request in self.sent]

    @property
    def reports(self) -> list[str]:
        """The place in the reply of each unreadable part that was reported to hooks."""
        return [event.error.path for event in self.events if isinstance(event, BrokenRecord)]


@asynccontextmanager
async def answering(*bodies: object, login: object = LOGIN, **options: Any) -> AsyncIterator[Service]:
    """Run a client of a service that gives these replies."""
    service = Service([reply(body) for body in bodies], reply(login))
    usual: dict[str, Any] = {
        "email": "me@co.example",
        "password": "correct horse",
        "retries": RetryPolicy(base=0.001, cap=0.001),
        "hooks": [service.events.append],
    }
    with respx.mock(assert_all_called=False) as router:
        router.route(url__startswith=URL).mock(side_effect=service.answer)
        service.exchange = FreightExchange(URL, **{**usual, **options})
        async with service.exchange:
            yield service
