"""One run: a write, the result of the client, and the same write by a client that simply repeats it."""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from unittest import mock

import anyio
import anyio.lowlevel
import attrs
import httpx
from tests.model.fault_runs.checker import CheckResult, check
from tests.model.fault_runs.plan import Plan
from tests.model.fault_runs.world import ROUTE, World

from freight_exchange import (
    Bid,
    FreightExchange,
    FreightExchangeError,
    Listing,
    OutcomeUnknownError,
    Packaging,
    RateRequestDraft,
    RequestType,
    Route,
    RouteDraft,
)
from freight_exchange.platform import clock
from freight_exchange.testing import FAULTS, virtual_time_options

__all__ = ["Run", "run"]

Baseline = Sequence[Bid] | Sequence[Listing] | Sequence[Route] | None
_AFTERMATH = 120.0
_NAIVE_ATTEMPTS = 4


@attrs.frozen(kw_only=True)
class Run:
    """Result of a run."""

    plan: Plan
    outcome: str
    result: CheckResult
    fired: tuple[tuple[str, bool], ...]
    naive: int


def run(seed: int) -> Run:
    """Make the run of a seed in a separate event loop."""
    plan = Plan.of(seed)
    # The client's jitter is drawn from the module's generator.
    random.seed(seed)
    return anyio.run(_run, plan, backend=plan.backend, backend_options=virtual_time_options(plan.backend))


async def _run(plan: Plan) -> Run:
    world = World(plan)
    with (
        mock.patch.object(clock, "wall_time", world.sandbox.now),
        mock.patch.object(clock, "boot_time", anyio.current_time),
    ):
        async with world.client() as exchange:
            outcome, sent = await _write(world, exchange)
            if outcome == "cancelled":
                # The send that its caller left ends in its own time, and the client goes on working.
                await anyio.sleep(_AFTERMATH)
                sent = world.sandbox.audit_log.count
                world.sandbox.exchange.faults.clear()
                with contextlib.suppress(FreightExchangeError):
                    await exchange.carriers.list()
    strike = plan.strike("write")
    fired = tuple(
        (fired.name, fired.processed)
        for fired in world.sandbox.exchange.faults.fired
        if strike is not None and fired.name in (strike.name, f"{strike.name}.then") and fired.call <= sent
    )
    return Run(
        plan=plan,
        outcome=outcome,
        result=check(plan, world, outcome, sent),
        fired=fired,
        # Nothing but a cut makes it try again.
        naive=await _naive(plan) if strike is not None and FAULTS[strike.name].cut is not None else 0,
    )


async def _write(world: World, exchange: FreightExchange) -> tuple[str, int]:
    """Return the client's result of the write, and the number of the last call before it looked for the write."""
    plan = world.plan
    send, baseline = await _prepare(world, exchange)
    world.meddle("before")
    world.arm("write")
    if plan.strike("login") is not None:
        world.sandbox.exchange.expire_tokens()
        world.arm("login")
    try:
        done = await _leaving(send, plan.cancelled_after)
    except OutcomeUnknownError as error:
        sent = world.sandbox.audit_log.count
        world.sandbox.exchange.faults.clear()
        world.meddle("after")
        world.arm("reading")
        return await _reconcile(world, exchange, error, baseline), sent
    except FreightExchangeError as error:
        return f"error {type(error).__name__}", world.sandbox.audit_log.count
    return "success" if done else "cancelled", world.sandbox.audit_log.count


async def _leaving(send: Callable[[], Awaitable[object]], turns: int | None) -> bool:
    """Send, unless the caller cancels first; return whether the caller waited until the end."""
    if turns is None:
        await send()
        return True
    ended = False
    failure: FreightExchangeError | None = None
    async with anyio.create_task_group() as group:

        async def sending() -> None:
            nonlocal ended, failure
            try:
                await send()
            except FreightExchangeError as error:
                failure = error
            ended = True
            group.cancel_scope.cancel()

        group.start_soon(sending)
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        if turns % 2 == 0:
            # Half of them leave a little later, when the clock has moved.
            await anyio.sleep(turns / 10)
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return ended


async def _reconcile(world: World, exchange: FreightExchange, error: OutcomeUnknownError, baseline: Baseline) -> str:
    if world.plan.pickled:
        error = pickle.loads(pickle.dumps(error))
    try:
        verdict = await error.reconcile(exchange, world.plan.settle, baseline=baseline)
    except FreightExchangeError as refusal:
        return f"refused {type(refusal).__name__}"
    return type(verdict).__name__


async def _prepare(world: World, exchange: FreightExchange) -> tuple[Callable[[], Awaitable[object]], Baseline]:
    """Return the write, and the earlier records if the plan includes reading them."""
    plan = world.plan
    # What a client reads before it writes is not part of the run's faults, nor is its deadline.
    patient = exchange.with_options(deadline=60)
    match plan.kind:
        case "submit":
            bids = await _read(patient.bids.list().collect) if plan.baseline else None
            return lambda: exchange.bids.submit(world.request, amount=plan.amount, currency=840), bids
        case "publish":
            listings = await _read(patient.offers.list().collect) if plan.baseline else None
            draft = _draft(world)
            return lambda: exchange.requests.publish(draft), listings
        case "approve" | "decline":
            if plan.known:
                await _read(patient.offers.list().collect)
            answer = exchange.offers.approve if plan.kind == "approve" else exchange.offers.decline
            return lambda: answer(world.offer), None
        case "create_route":
            routes = await _read(patient.routes.list().collect) if plan.baseline else None
            new = _route(world)
            return lambda: exchange.routes.create(new), routes
        case "update_route":
            if plan.known:
                await _read(patient.routes.list().collect)
            image = _route(world)
            whole = {field.name: getattr(image, field.name) for field in attrs.fields(RouteDraft)}
            route = Route(index=ROUTE, **whole)
            return lambda: exchange.routes.update(route), None


async def _read(collect: Callable[[], Awaitable[list[Any]]]) -> list[Any] | None:
    """Return a listing, or `None` where the server's quirks prevent that."""
    try:
        return await collect()
    except FreightExchangeError:
        return None


def _draft(world: World) -> RateRequestDraft:
    cargo = world.cargo()
    return RateRequestDraft(
        commodity=cargo.commodityname,
        type=RequestType.SHIPPING,
        origin=cargo.origin,
        destination=cargo.destination,
        arrival=datetime.fromisoformat(cargo.arrival),
        packaging=Packaging.PALLET,
        quantity=cargo.quantity,
        length=cargo.length,
        width=cargo.width,
        height=cargo.height,
        weight=cargo.weight,
        incoterm=cargo.incoterm,
        hazardous=False,
    )


def _route(world: World) -> RouteDraft:
    body = world.route()
    return RouteDraft(
        origin="Ningbo",
        destination="Felixstowe",
        cy_cutoff=datetime.fromisoformat(str(body["cycutoff"])),
        cfs_cutoff=datetime.fromisoformat(str(body["cfscutoff"])),
        departure=datetime.fromisoformat(str(body["departure"])),
        arrival=datetime.fromisoformat(str(body["arrival"])),
        carrier=2,
        vessel=str(body["vessel"]),
        voyage_id="202W",
        timezone="Asia/Shanghai",
    )


async def _naive(plan: Plan) -> int:
    """Return how often the exchange carries out the write of a client that repeats after a read error or a timeout."""
    world = World(plan)
    async with world.sandbox.http_client() as client:
        account = {"email": world.account.email, "password": world.account.password}
        login = await client.post(f"{world.sandbox.url}/login", json=account)
        headers = {"Authorization": f"Bearer {login.json()['user']['access_token']}"}
        world.arm("write")
        url = f"{world.sandbox.url}/{world.path}"
        for _ in range(_NAIVE_ATTEMPTS):
            try:
                await client.request(world.method, url, json=world.body(), headers=headers)
            except (httpx.ReadError, httpx.TimeoutException):
                continue
            except httpx.HTTPError:
                pass
            break
    return len(world.done())
