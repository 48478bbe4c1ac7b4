"""Executor over scripted attempts."""

from __future__ import annotations

import copy
import json
import random
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import anyio
import pytest

from freight_exchange.errors import (
    DecodeError,
    FreightExchangeError,
    TransportError,
)
from freight_exchange.hooks import Event, Hooks
from freight_exchange.models.writes import RawWrite
from freight_exchange.options import RetryPolicy, Timeouts
from freight_exchange.transport.call import CallExecutor, Limits
from freight_exchange.transport.chain import compose_layers
from freight_exchange.transport.message import Middleware, Next, Request, RequestKind, Response
from freight_exchange.transport.middleware.deadline import Deadline
from freight_exchange.transport.middleware.limiter import Limiter, release_slots
from freight_exchange.transport.middleware.outcome import Outcome
from freight_exchange.transport.middleware.retry import Retry, RetryBudget
from freight_exchange.transport.middleware.tracing import Tracing
from freight_exchange.transport.middleware.write_timing import WriteTiming
from freight_exchange.transport.secrets import Redactor, Secret

READ, LOGIN, WRITE = RequestKind.READ, RequestKind.LOGIN, RequestKind.WRITE
TCP = ("connection.connect_tcp.started", "connection.connect_tcp.complete")
HEADERS = "http11.send_request_headers.started"
CANARY = "c4nary-t0ken"

Step = Callable[[Request], Awaitable[Response]]


def replies(status: int, body: object = None, **headers: str) -> Step:
    async def step(request: Request) -> Response:
        request.progress.trace(HEADERS)
        await anyio.sleep(0.1)
        pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return Response(status=status, content=json.dumps(body or {}).encode(), headers=pairs)

    return step


def fails(error: Exception) -> Step:
    async def step(request: Request) -> NoReturn:
        await anyio.sleep(0.1)
        if getattr(error, "unsent", False):
            request.progress.reset()
        # A network makes a new one each time, and each call's end is written on it.
        raise copy.copy(error)

    return step


async def refused(request: Request) -> NoReturn:
    # As the network does, when the trace has proved it.
    request.progress.reset()
    raise TransportError("refused", unsent=True)


def stalls(*events: str) -> Step:
    async def step(request: Request) -> NoReturn:
        for event in events:
            request.progress.trace(event)
        await anyio.sleep_forever()
        raise AssertionError

    return step


def executor(
    send: Next,
    budget: RetryBudget | None = None,
    redactor: Redactor | None = None,
    hooks: Hooks | None = None,
    *,
    chance: Callable[[], float] = random.random,
) -> CallExecutor:
    """Make an executor of the layers above the user's middleware."""
    redactor = redactor or Redactor()
    retry = Retry(budget or RetryBudget(500), hooks or Hooks(), redactor, chance=chance)
    return CallExecutor(compose_layers([Deadline(redactor), retry, Outcome(redactor)], send), redactor)


def sending_layers(limiter: Limiter, hooks: Hooks) -> list[Middleware]:
    """Return the layers below the throttle, without the log filter."""
    return [limiter, Tracing(hooks, Redactor()), release_slots, WriteTiming(limiter.latency)]


class Bench:
    """Caller of scripted attempts; the last step repeats."""

    def __init__(self, *steps: Step, chance: float = 1.0, hooks: tuple[Any, ...] = (), tokens: int = 500) -> None:
        self.steps = steps
        self.requests: list[Request] = []
        self.events: list[Event] = []
        self.redactor = Redactor()
        self.redactor.add_token(Secret(CANARY))
        self.budget = RetryBudget(tokens)
        every_hook = Hooks((*hooks, self.events.append))
        self.caller = executor(self.send, self.budget, self.redactor, every_hook, chance=lambda: chance)

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        request.progress.record_send()
        return await self.steps[min(len(self.requests), len(self.steps)) - 1](request)

    async def call(
        self,
        kind: RequestKind = READ,
        *,
        deadline: float = 60,
        read: Callable[[Response], Any] = lambda response: response.status,
        exchange: Any = None,
        **policy: Any,
    ) -> Any:
        limits = Limits(deadline=deadline, timeouts=Timeouts(), retries=RetryPolicy(**policy))
        write = RawWrite("POST", "quote/bid") if kind is WRITE else None
        return await self.caller.call(kind, "POST", "quote/bid", read, limits, write=write, exchange=exchange)

    async def failure(self, kind: RequestKind = READ, **options: Any) -> FreightExchangeError:
        with pytest.raises(FreightExchangeError) as caught:
            await self.call(kind, **options)
        error = caught.value
        assert error.settled
        assert CANARY not in f"{error!r} {error.body!r}" + "".join(traceback.format_exception(error))
        return error


def unreadable(response: Response) -> NoReturn:
    raise DecodeError("not a listing", path="raterequests.3", raw={"access_token": CANARY, "x": CANARY})
