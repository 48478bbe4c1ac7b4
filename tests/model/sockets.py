"""Model of writes over real sockets: the same writes, by the SDK's own connections and by injected clients.

Time is real here, so that the worlds of a schedule run side by side.
"""

from __future__ import annotations

import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import cache
from random import Random
from typing import Any, Final, Literal, get_args

import anyio
import attrs
import httpx
import httpx2
import trustme
from httpx_aiohttp import AiohttpTransport
from tests.model.runner import Result
from tests.model.support import FAULTS, Profile, serve
from tests.model.writes import GENERAL, Pace, Plan, World, draw_writes, make_all, repeat_all

from freight_exchange import FreightExchange, RetryPolicy, Timeouts

__all__ = ["TRANSPORTS", "naive", "run"]

Transport = Literal["own", "httpx", "httpx2", "aiohttp"]
TRANSPORTS: Final[tuple[Transport, ...]] = get_args(Transport)

_WORLDS: Final = 24
"""Worlds of a schedule, since most of a write is waiting."""
_PACE: Final = Pace(
    deadlines=(0.8, 0.8, 1.5, 0.15), settles=(0.3,), pause=0.0, turn=0.0005, margin=8.0, aftermath=0.05, longest=90.0
)
_TIMEOUT: Final = 0.3
# The former are slow to make, the latter outlast a schedule.
_UNFIT: Final = {"gzip_bomb", "gzip_bomb_twice", "deep_json", "deep_object", "throttled_huge", "throttled_date",
                 "unavailable_forever", "unauthorized_forever", "pool_exhausted"}  # fmt: skip
_NAMES: Final = tuple(
    name for name in GENERAL if name not in _UNFIT and not any(fault.early for fault in FAULTS[name]())
)
_CUTS: Final = tuple(name for name in _NAMES if FAULTS[name].cut is not None)


def run(seed: int) -> Result:
    """Make the writes of a seed in many worlds, and judge what the clients were told."""
    total = Result([], Counter())

    async def play(number: int) -> None:
        transport, random = _transport(seed, number), Random(f"sockets {seed} {number}")
        plan = _plan(random)
        world = World(plan, seed, _PACE)
        tls = random.random() < 0.2
        async with _served(world, tls) as url, _http_client(transport) as client:

            def exchange(account: Any) -> FreightExchange:
                return FreightExchange(
                    url,
                    email=account.email,
                    password=account.password,
                    timeouts=Timeouts(connect=_TIMEOUT, read=_TIMEOUT, write=_TIMEOUT),
                    retries=RetryPolicy(base=0.001, cap=0.002),
                    http_client=client,
                    verify=_client_context() if client is None and tls else True,
                )

            async with exchange(world.shipper) as shipper, exchange(world.forwarder) as forwarder:
                made = await make_all(world, plan, shipper, forwarder)
        total.flaws.extend(f"{transport}{' with TLS' * tls}, world {number}: {flaw}" for flaw in made.flaws)
        total.counts.update(made.counts)
        total.counts[f"transport {transport}{' with TLS' * tls}"] += 1

    _play_all(seed, play)
    return total


def naive(seed: int) -> bool:
    """Return whether a client that repeats what got no reply carries a write out twice."""
    doubled = []

    async def play(number: int) -> None:
        plan = _plan(Random(f"sockets {seed} {number}"))
        world = World(plan, seed, _PACE)
        async with _served(world, tls=False) as url, httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT) as client:
            doubled.append(await repeat_all(world, plan, client, url))

    _play_all(seed, play)
    return any(doubled)


def _plan(random: Random) -> Plan:
    profile = Profile(
        rows_clamp=random.choice((None, 10)),
        bid_default="active" if random.random() < 0.5 else "offers",
        collection_shape=random.choice(("object", "list")),
        token_lifetime=random.choice((86_400, 5)),
    )
    writes = draw_writes(random, random.choice((2, 3)), _NAMES, _CUTS, _PACE)
    # After each failure the look-up waits twice as long, in real time.
    return Plan(
        profile,
        tuple(attrs.evolve(one, reading=one.reading and attrs.evolve(one.reading, times=1)) for one in writes),
    )


def _backend(seed: int) -> str:
    return "trio" if seed % 4 == 3 else "asyncio"


def _transport(seed: int, number: int) -> Transport:
    # aiohttp runs on asyncio alone.
    return TRANSPORTS[number % (3 if _backend(seed) == "trio" else 4)]


def _play_all(seed: int, play: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    async def work() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(_WORLDS):
                tasks.start_soon(play, number)

    anyio.run(work, backend=_backend(seed))


@contextlib.asynccontextmanager
async def _served(world: World, tls: bool) -> AsyncIterator[str]:
    context = _server_context() if tls else None
    async with serve(world.exchange, tls=context, clock=world.sandbox.now) as server:
        yield server.url


@contextlib.asynccontextmanager
async def _http_client(transport: Transport) -> AsyncIterator[Any]:
    """Make the caller's HTTP client, or `None` where the SDK uses its own connections."""
    match transport:
        case "own":
            yield None
        case "httpx":
            async with httpx.AsyncClient(trust_env=False, verify=_client_context()) as client:
                yield client
        case "httpx2":
            async with httpx2.AsyncClient(trust_env=False, verify=_client_context()) as other:
                yield other
        case "aiohttp":
            adapter = AiohttpTransport(trust_env=False, verify=_client_context())
            async with httpx.AsyncClient(trust_env=False, transport=adapter) as client:
                yield client


@cache
def _authority() -> trustme.CA:
    return trustme.CA()


@cache
def _server_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _authority().issue_cert("127.0.0.1").configure_cert(context)
    return context


@cache
def _client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    _authority().configure_trust(context)
    return context
