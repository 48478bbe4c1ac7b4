"""One run: a client reads, or writes and reconciles, against the plan's server."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from typing import Any
from unittest import mock

import anyio
import attrs
import httpx
from tests.model.paging.checker import CheckResult, check
from tests.model.paging.plan import Plan
from tests.model.paging.server import AMOUNT, CURRENCY, REQUEST, EndlessError, Server

from freight_exchange import FreightExchange, FreightExchangeError, OutcomeUnknownError
from freight_exchange.paging import Paginator
from freight_exchange.platform import clock
from freight_exchange.testing import virtual_time_options

__all__ = ["Run", "run"]

_SETTLE = timedelta(seconds=1)
_START = 1_900_000_000.0


@attrs.frozen(kw_only=True)
class Run:
    """Result of a run.

    Attributes:
        outcome: "complete", "unproven" where the client reports that, "error <name>", "endless" or the verdict's name.
        pages: Page requests that the server answered.
    """

    plan: Plan
    outcome: str
    result: CheckResult
    pages: int


def run(seed: int) -> Run:
    """Make the run of a seed in a separate event loop."""
    plan = Plan.of(seed)
    # The client's jitter is drawn from the module's generator.
    random.seed(seed)
    return anyio.run(_run, plan, backend=plan.backend, backend_options=virtual_time_options(plan.backend))


class _Warnings(logging.Handler):
    """Log handler that records the client's warning that a listing may be incomplete."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.incomplete = False

    def emit(self, record: logging.LogRecord) -> None:
        self.incomplete = self.incomplete or "the listing may hold more" in record.getMessage()

    def __enter__(self) -> None:
        logging.getLogger("freight_exchange").addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("freight_exchange").removeHandler(self)


def _wall_time() -> float:
    return _START + anyio.current_time()


async def _run(plan: Plan) -> Run:
    server = Server(plan)
    found: list[Any] = []
    with (
        mock.patch.object(clock, "wall_time", _wall_time),
        mock.patch.object(clock, "boot_time", anyio.current_time),
    ):
        async with httpx.AsyncClient(transport=server, trust_env=False) as http:
            client = FreightExchange(
                "https://paging.example/api", email="a@example", password="pw", http_client=http, strict=plan.strict
            )
            async with client as exchange:
                try:
                    outcome = await (_write if plan.reading == "write" else _read)(plan, server, exchange, found)
                except FreightExchangeError as error:
                    outcome = f"error {type(error).__name__}"
                except EndlessError:
                    outcome = "endless"
    return Run(plan=plan, outcome=outcome, result=check(plan, server, outcome, found), pages=len(server.served))


async def _read(plan: Plan, server: Server, exchange: FreightExchange, found: list[Any]) -> str:
    if plan.warm:
        await _listing(plan, exchange, sweep=False).collect()
    server.begin()
    warnings = _Warnings()
    with warnings:
        async for record in _listing(plan, exchange, sweep=plan.reading == "sweep"):
            found.append(record)
    return "unproven" if warnings.incomplete else "complete"


def _listing(plan: Plan, exchange: FreightExchange, *, sweep: bool) -> Paginator[Any]:
    options: dict[str, Any] = {"page_size": plan.page_size, "window": plan.window, "sweep": sweep}
    match plan.noun:
        case "bids":
            return exchange.bids.list(**options)
        case "offers":
            return exchange.offers.list(**options)
        case "routes":
            return exchange.routes.list(**options)
        case _:
            return exchange.requests.search(**options)


async def _write(plan: Plan, server: Server, exchange: FreightExchange, found: list[Any]) -> str:
    if plan.warm:
        await exchange.bids.list().collect()
    # A plain listing ends at a wholly hidden page: only a sweep shows what stood before.
    baseline = await exchange.bids.list(sweep=True).collect() if plan.baseline else None
    server.begin()
    try:
        await exchange.bids.submit(REQUEST, amount=AMOUNT, currency=CURRENCY)
    except OutcomeUnknownError as error:
        verdict = await error.reconcile(exchange, _SETTLE, baseline=baseline if plan.baseline else None)
        return type(verdict).__name__
    return "success"
