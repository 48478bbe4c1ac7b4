"""Replicas that `fleet_faults.py` kills and freezes, forked from one process that has imported the package.

It reads orders, one JSON line each, and prints the process id of each replica. A replica kills or freezes itself at
moments around an offer that its seed or a file selects, and records that beforehand.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import attrs

from freight_exchange import Bot, Context, FreightExchange, RateRequest, Timeouts
from freight_exchange.errors import FencedError
from freight_exchange.platform import clock
from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres.fleet import seat, work, work_sql
from freight_exchange.store.postgres.fleet.replica import Replica
from freight_exchange.store.protocol import Binding
from freight_exchange.transport.message import SendProgress

__all__ = ["IN_OFFERS", "LEASE", "price_of"]

_logger = logging.getLogger(__name__)

LEASE: Final = timedelta(seconds=2)
IN_OFFERS: Final = frozenset(("after sending", "before send", "within send", "after send", "before confirmed"))
"""Points between `sending` and its end. `within send` is the moment between the last check and the system call."""
_FAULTS_AT: Final = {
    **{f"{side} {step}": 0.01 for side in ("before", "after") for step in ("intent", "confirmed", "settle")},
    **dict.fromkeys(("before intent", "before sending"), 0.04),
    **dict.fromkeys(IN_OFFERS, 0.05),
}
"""Share of the visits of each point at which a replica kills or freezes itself."""


def price_of(quantity: int) -> Decimal:
    """Return the price of a request by its quantity."""
    return Decimal(1000 + quantity)


class _OneExchange(PostgresStore):
    """Store of replicas that reach one exchange through different addresses."""

    def join(self, binding: Binding, **options: Any) -> seat.PostgresSeat:
        return super().join(attrs.evolve(binding, base_url="http://exchange/api"), **options)


class _Faults:
    """Faults of one replica, drawn from its seed."""

    def __init__(self, seed: int, notes: str) -> None:
        self._random = Random(seed)
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._pause = Path(f"{notes}.pause")
        self._aim = Path(f"{notes}.aim.{os.getpid()}")

    def visit(self, point: str) -> None:
        if self._aim.exists() and self._aim.read_text() == point:
            self._aim.unlink(missing_ok=True)
            self._note("aimed", point)
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self._random.random() < _FAULTS_AT.get(point, 0.0) and not self._pause.exists():
            number = self._random.choice((signal.SIGKILL, signal.SIGSTOP))
            self._note(number.name, point)
            os.kill(os.getpid(), number)

    def _note(self, kind: str, point: str) -> None:
        os.write(self._notes, f"{kind},{point},{os.getpid()}\n".encode())

    def visit_sends(self) -> None:
        """Visit the moment between the last check of an offer and its system call."""
        trace, visit = SendProgress.trace, self.visit

        def trace_and_visit(self: SendProgress, event: str) -> None:
            trace(self, event)
            if event.endswith(".send_request_body.started") and self._limit is not None:
                visit("within send")

        SendProgress.trace = trace_and_visit  # type: ignore[method-assign]


def _remove_guard(name: str) -> None:
    """Disable one of the guards, to show that it is needed."""
    if name == "wait":
        seat._ADOPTION_WAIT = 0.0  # type: ignore[misc]
    elif name == "limit":
        clock.SendLimit.is_over = property(lambda limit: False)  # type: ignore[method-assign,assignment]
    elif name == "fences":
        Replica.fence = Replica.check = lambda *_: None  # type: ignore[method-assign]
        Replica.fence_term = lambda *_: None  # type: ignore[method-assign]
        work_sql.CLAIM = work_sql.CLAIM.replace("epoch = 0 AND", "")  # type: ignore[misc]
        heartbeat = Replica.heartbeat

        def heartbeat_on(self: Replica, connection: Any) -> bool:
            try:
                return heartbeat(self, connection)
            except FencedError:
                return False

        Replica.heartbeat = heartbeat_on  # type: ignore[method-assign]
        put = work.PostgresWork.put_effect

        def overwrite(self: Any, effect: Any, *, expected_state: str | None, expected_at: float | None = None) -> bool:
            return any(put(self, effect, expected_state=state) for state in (expected_state, *_STATES))

        work.PostgresWork.put_effect = overwrite  # type: ignore[method-assign]


_STATES: Final = ("intent", "sending", "unknown", "confirmed", None)


async def _run(order: dict[str, Any]) -> None:
    exchange = FreightExchange(
        order["url"],
        email="forwarder@demo.example",
        password="forwarder",
        timeouts=Timeouts(connect=2, read=3, write=3),
        deadline=8,
    )
    bot = Bot(
        store=_OneExchange(order["database"], lease=LEASE),
        start="backfill",
        interval=timedelta(seconds=1),
        settle=timedelta(seconds=1),
        concurrency=4,
    )

    @bot.on_new(retries=50)
    async def quote(request: RateRequest, ctx: Context) -> None:
        await ctx.offer(amount=price_of(request.quantity or 0), currency=840)

    faults = _Faults(order["seed"], order["notes"])
    faults.visit_sends()
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                async for _ in signals:
                    bot.stop()

            tasks.start_soon(stop)
            await bot.serve(exchange=exchange, failpoints=faults.visit)
            tasks.cancel_scope.cancel()


def _replica(order: dict[str, Any]) -> None:
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {os.getpid()} %(message)s", stream=sys.stdout)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for guard in order["without"]:
        _remove_guard(guard)
    anyio.run(_run, order, backend=order["backend"])


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            status = 1
            try:
                _replica(order)
                status = 0
            except BaseException:
                _logger.exception("the replica ended")
            finally:
                os._exit(status)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
