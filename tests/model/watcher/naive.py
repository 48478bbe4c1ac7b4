"""Common polling loops, which use the same client under the same plans, and lose requests.

None is ever killed, and none has its clock set, so all losses are their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from tests.model.watcher.history import State, of_wire, state_of

from freight_exchange import FreightExchangeError

if TYPE_CHECKING:
    from tests.model.watcher.world import World

    from freight_exchange import FreightExchange

__all__ = ["NAIVE", "Naive", "naive_loop"]

_PAGE = 100
_WIDEST = 432_000
_REMEMBERED = 1000


class Naive:
    """Base of the loops. A loop identifies rows by their content, and reports unknown ones.

    Attributes:
        down_until: Until when the program is not running, by the loop's clock; it forgets nothing meanwhile.
    """

    def __init__(self) -> None:
        self.down_until = 0.0
        self._began = 0.0
        self._seen: OrderedDict[tuple[int, State], None] = OrderedDict()
        self._reported: dict[int, State] = {}

    def begin(self, now: float) -> None:
        self._began = now

    async def poll(self, exchange: FreightExchange, now: float) -> None:
        raise NotImplementedError

    async def _rows(self, exchange: FreightExchange, window: float, page: int) -> Sequence[Mapping[str, Any]]:
        body = {
            "type": "all",
            "secondsSinceUpdate": min(_WIDEST, max(1, int(window) + 1)),
            "offset": page,
            "rowsperpage": _PAGE,
        }
        reply = await exchange.request("POST", "quote/getrequests", body=body, repeatable=True)
        records = reply["raterequests"]
        rows = list(records.values()) if isinstance(records, dict) else records
        for row in rows:
            self._hand_out(row)
        return rows

    def _hand_out(self, row: Mapping[str, Any]) -> None:
        index, content = int(row["index"]), of_wire(row)
        if (index, content) in self._seen:
            self._seen.move_to_end((index, content))
            return
        self._seen[index, content] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        self._reported[index] = content

    def missed(self, world: World) -> int:
        """Return the number of requests whose last known state is wrong, without those from before the start."""
        final = {change.request: change for change in world.history.audit_log.changes}
        return sum(
            change.time > self._began
            and change.state.state != "withdrawn"
            and index not in world.history.holes
            and self._reported.get(index) != state_of(change.state)
            for index, change in final.items()
        )


class Newest(Naive):
    """Loop that reads the newest hundred requests of the last hour."""

    async def poll(self, exchange: FreightExchange, now: float) -> None:
        await self._rows(exchange, 3600.0, 0)


class SinceLast(Naive):
    """Loop that reads the updates since the last poll, page by page, until one is short."""

    overlap = 0.0

    def begin(self, now: float) -> None:
        super().begin(now)
        self._last = now

    async def poll(self, exchange: FreightExchange, now: float) -> None:
        window, self._last = now - self._last + self.overlap, now
        page = 0
        while len(await self._rows(exchange, window, page)) >= _PAGE:
            page += 1


class SinceLastAndMore(SinceLast):
    """Loop that also reads the minute before the last poll."""

    overlap = 60.0


NAIVE: Mapping[str, type[Naive]] = {
    "newest 100 of the last hour": Newest,
    "window since the last poll": SinceLast,
    "and 60 s overlap": SinceLastAndMore,
}


async def naive_loop(loop: Naive, world: World, exchange: FreightExchange) -> None:
    loop.begin(world.clocks.now())
    while True:
        try:
            await loop.poll(exchange, world.clocks.now())
        except (FreightExchangeError, TypeError, KeyError, ValueError):
            world.count("a poll failed")
        down = loop.down_until - world.clocks.loop()
        await anyio.sleep(max(world.plan.interval, down))
