"""Server of a listing, whose pages a test may hold back."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import attrs
from tests.unit.paging.listing_server import ListingServer, Rows

from freight_exchange.paging import PageSizes, Paginator
from freight_exchange.transport.background import BackgroundTasks


@attrs.define
class Server:
    """Server of a listing behind a network: a page is in flight until its gate opens."""

    source: ListingServer[int]
    tasks: BackgroundTasks = attrs.Factory(BackgroundTasks)
    sizes: PageSizes = attrs.Factory(PageSizes)
    gates: dict[int, anyio.Event] = attrs.Factory(dict)
    failures: dict[int, Exception] = attrs.Factory(dict)
    under_way: int = 0
    most_under_way: int = 0
    cancelled: list[int] = attrs.Factory(list)

    async def fetch(self, number: int, size: int) -> Rows[int]:
        page = self.failures.pop(number, None) or self.source.page
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await anyio.lowlevel.checkpoint()
            if gate := self.gates.get(number):
                await gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(number)
            raise
        finally:
            self.under_way -= 1
        if isinstance(page, Exception):
            raise page
        return page(number, size)

    def listing(
        self,
        *,
        window: int = 1,
        sweep: bool = False,
        page_size: int | None = 10,
        strict: bool = False,
        where: Callable[[int], bool] | None = None,
    ) -> Paginator[int]:
        return Paginator(
            lambda: self.fetch,
            operation="operation",
            sizes=self.sizes,
            tasks=lambda: self.tasks,
            identity=lambda record: record,
            page_size=page_size,
            strict=strict,
            window=window,
            sweep=sweep,
            where=where,
        )

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.source.requests]


MakeServer = Callable[[int], Server]
