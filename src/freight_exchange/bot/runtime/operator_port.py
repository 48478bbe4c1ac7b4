"""Operator's port of a bot."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from freight_exchange.bot.ops import probes
from freight_exchange.bot.ops.exposition import make_exposition
from freight_exchange.bot.runtime.options import check_host, check_port
from freight_exchange.bot.runtime.shutdown import CLOSE_TIMEOUT
from freight_exchange.bot.tasks import report_failure
from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from freight_exchange.bot.ops.collector import BotCollector
    from freight_exchange.bot.ops.status import BotStatus
    from freight_exchange.bot.runtime.options import BotOptions

__all__ = ["OperatorPort"]

_STORE_TIMEOUT: Final = 0.5
"""Seconds to wait for a taken port once the bot has the store."""


@attrs.frozen
class OperatorPort:
    """Operator's port.

    Attributes:
        host, port: Address; no port means none.
        status: Returns the status of the bot.
        collector: Returns the collector of its metrics, or raises `ConfigurationError` without the extra `metrics`.
    """

    host: str
    port: int | None
    status: Callable[[], BotStatus]
    collector: Callable[[], BotCollector]

    def __attrs_post_init__(self) -> None:
        if self.port is not None:
            check_port(self.port)
        check_host(self.host)

    async def serve(
        self,
        options: BotOptions,
        *,
        has_store: Callable[[], bool],
        on_open: Callable[[tuple[str, int]], None],
        on_failure: Callable[[BaseException], None],
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Open the port, and answer until cancelled.

        With `standby`, another process may hold the port until its drain and its lifespan have ended. Without, a second
        process must fail because of the store, not of the port.

        Args:
            options: Options of the bot.
            has_store: Returns whether the bot has its store.
            on_open: Called with the address.
            on_failure: Called with the error if the port cannot be opened later.
            task_status: Started once the bot may continue.
        """
        assert self.port is not None
        timeout = options.drain.total_seconds() + CLOSE_TIMEOUT if options.standby else 0.0
        try:
            listener, address = await probes.open_listener(self.host, self.port, timeout=timeout, counts=has_store)
        except ConfigurationError as error:
            another_may_hold_it = options.store is not None and not options.standby
            if not another_may_hold_it or getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
                raise
            task_status.started()
            with report_failure(on_failure):
                listener, address = await probes.open_listener(
                    self.host, self.port, timeout=_STORE_TIMEOUT, counts=has_store
                )
        else:
            task_status.started()
        on_open(address)
        await probes.serve(listener, self.status, make_exposition(self.collector))
