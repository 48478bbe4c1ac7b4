"""One run: the calls of one client against a separate server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import attrs
from tests.model.socket_runs.checker import Ended, Flaw, check
from tests.model.socket_runs.host import Host
from tests.model.socket_runs.plan import WRITES, Plan, Step
from tests.model.socket_runs.secrets import secrets_in
from tests.model.socket_runs.service import EMAIL, PASSWORD, Service
from tests.model.socket_runs.sockets import listening
from tests.model.socket_runs.transports import client_context, http_client, server_context

from freight_exchange import (
    FreightExchange,
    FreightExchangeError,
    OutcomeUnknownError,
    Packaging,
    RateRequestDraft,
    RequestType,
    RetryPolicy,
    Route,
    RouteDraft,
    Timeouts,
)

__all__ = ["Run", "run"]

_TIMEOUTS = Timeouts(connect=0.2, read=0.2, write=0.2)
_MARGIN = 6.0
_SETTLE = timedelta(milliseconds=20)
_LONGEST_RECONCILIATION = 90.0


@attrs.frozen(kw_only=True)
class Run:
    """Result of a run."""

    plan: Plan
    endings: list[Ended]
    flaws: list[Flaw]
    fired: dict[tuple[str, bool], int]


async def run(plan: Plan) -> Run:
    """Make a run in the running event loop."""
    service = Service(clamp=plan.clamp)
    host = Host(service, plan.transport == "http2", Random(plan.seed))
    endings: list[Ended] = []
    async with listening(host.meet, server_context(plan.transport) if plan.tls else None) as port:
        async with http_client(plan.transport, tls=plan.tls) as client:
            exchange = FreightExchange(
                f"{'https' if plan.tls else 'http'}://127.0.0.1:{port}/api",
                email=EMAIL,
                password=PASSWORD,
                timeouts=_TIMEOUTS,
                retries=RetryPolicy(base=0.001, cap=0.002, trust_refusals=plan.trusts),
                http_client=client,
                verify=client_context() if client is None and plan.tls else True,
            )
            async with exchange:
                if plan.together:
                    async with anyio.create_task_group() as tasks:
                        for number, step in enumerate(plan.steps):
                            tasks.start_soon(_make, plan, host, exchange, number, step, endings)
                else:
                    for number, step in enumerate(plan.steps):
                        await _make(plan, host, exchange, number, step, endings)
        # What still lies in a socket of the server's is read by now, or never.
        await anyio.lowlevel.checkpoint()
    return Run(plan=plan, endings=endings, flaws=check(service, endings), fired=dict(host.fired))


async def _make(
    plan: Plan, host: Host, exchange: FreightExchange, number: int, step: Step, endings: list[Ended]
) -> None:
    if step.expired:
        host.service.expire()
    if not plan.together:
        host.disarm()
    host.arm(step.strikes)
    key, call = _call(exchange.with_options(deadline=step.deadline), step, number)
    ended = Ended(step=step, key=key)
    endings.append(ended)
    doubt: OutcomeUnknownError | None = None
    started = anyio.current_time()
    with anyio.move_on_after(step.deadline + _MARGIN):
        try:
            with anyio.move_on_after(step.cancelled_after or step.deadline + _MARGIN + 1) as leaving:
                result = await call()
                ended.outcome = "success"
                if step.kind not in WRITES and not plan.together:
                    ended.faithful = _seen(result) == _truth(host.service, step)
            if leaving.cancelled_caught:
                ended.outcome = "cancelled"
        except OutcomeUnknownError as error:
            ended.outcome, doubt = "doubt", error
            _examine(ended, error)
        except FreightExchangeError as error:
            ended.outcome = "error"
            _examine(ended, error)
        except Exception as error:  # noqa: BLE001  # the test shows that none occurs
            ended.outcome = "foreign"
            _examine(ended, error)
    ended.late = anyio.current_time() - started - step.deadline
    if doubt is not None and step.reconciled:
        await _reconcile(plan, host, exchange, step, doubt, ended)


async def _reconcile(
    plan: Plan, host: Host, exchange: FreightExchange, step: Step, doubt: OutcomeUnknownError, ended: Ended
) -> None:
    if not plan.together:
        host.disarm()
    host.arm(step.reading)
    outcome = ended.outcome
    ended.outcome = "hang"
    with anyio.move_on_after(_LONGEST_RECONCILIATION):
        try:
            found = await doubt.reconcile(exchange, _SETTLE)
            ended.verdict, ended.outcome = type(found).__name__, outcome
        except FreightExchangeError as error:
            ended.verdict, ended.outcome = type(error).__name__, outcome
            _examine(ended, error)
        except Exception as error:  # noqa: BLE001  # as above
            ended.outcome = "foreign"
            _examine(ended, error)


def _examine(ended: Ended, error: Exception) -> None:
    ended.error = f"{type(error).__module__}.{type(error).__qualname__}"
    ended.shows = ended.shows or secrets_in(error)


def _seen(result: Any) -> object:
    if isinstance(result, list):
        return sorted((row.index, getattr(row, "amount", None), len(getattr(row, "offers", ()))) for row in result)
    return result.index


def _truth(service: Service, step: Step) -> object:
    match step.kind:
        case "bids":
            return sorted((row["index"], Decimal(str(row["price"])), 0) for row in service.bids)
        case "offers":
            return sorted((row["index"], None, len(row["offer"])) for row in service.listings.values())
        case "currencies":
            return [(840, None, 0)]
        case _:
            return 3


def _call(exchange: FreightExchange, step: Step, number: int) -> tuple[str, Callable[[], Awaitable[Any]]]:
    """Return the key of the write in the ledger, and the call."""
    offer = 111 + number
    match step.kind:
        case "submit":
            amount = Decimal("1840.50") + number
            return (
                f"submit 4 {amount.normalize():f}",
                lambda: exchange.bids.submit(4, amount=amount, currency=840),
            )
        case "publish":
            return f"publish Lamps {number}", lambda: exchange.requests.publish(_draft(f"Lamps {number}"))
        case "approve":
            return f"approve {offer}", lambda: exchange.offers.approve(offer)
        case "decline":
            return f"decline {offer}", lambda: exchange.offers.decline(offer)
        case "create_route":
            return f"create V{number}", lambda: exchange.routes.create(RouteDraft(**_route(f"V{number}")))
        case "update_route":
            route = Route(index=301, **_route(f"U{number}"))
            return f"update U{number}", lambda: exchange.routes.update(route)
        case "bids":
            return "", exchange.bids.list().collect
        case "offers":
            return "", exchange.offers.list().collect
        case "currencies":
            return "", exchange.currencies.list().collect
        case "get":
            return "", lambda: exchange.requests.get(3)


def _draft(commodity: str) -> RateRequestDraft:
    return RateRequestDraft(
        commodity=commodity,
        type=RequestType.SHIPPING,
        origin="Shenzhen",
        destination="Hamburg",
        arrival=datetime(2030, 4, 4),
        packaging=Packaging.PALLET,
        quantity=3,
        length=Decimal("1.2"),
        width=Decimal("0.8"),
        height=Decimal("0.75"),
        weight=Decimal("210.5"),
        incoterm="FOB",
        hazardous=False,
    )


def _route(voyage: str) -> dict[str, Any]:
    return {
        "origin": "Ningbo",
        "destination": "Felixstowe",
        "cy_cutoff": datetime(2030, 4, 2, 17),
        "cfs_cutoff": datetime(2030, 4, 1, 12),
        "departure": datetime(2030, 4, 4, 6),
        "arrival": datetime(2030, 5, 6, 14),
        "carrier": 2,
        "vessel": "Anchor Prudence",
        "voyage_id": voyage,
        "timezone": "Asia/Shanghai",
    }
