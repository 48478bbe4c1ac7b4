"""Base class of the scenarios, and their common steps."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import anyio

from .deploy import Deploy, quoting

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from .disk import Disk
    from .service import Call
    from .world import World

__all__ = ["Scenario"]


class Scenario:
    """Scenario of failures; a seed draws its variation.

    Attributes:
        name: Its name in tables.
        backends: The event loops that it runs on.
    """

    name: ClassVar[str]
    backends: ClassVar[tuple[str, ...]] = ("asyncio", "asyncio", "asyncio", "trio")
    all_scenarios: ClassVar[list[type[Scenario]]] = []

    def __init_subclass__(cls, *, name: str) -> None:
        cls.name = name
        cls.all_scenarios.append(cls)

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng: Random = world.rng
        self.interval: float = self.rng.choice([30.0, 60.0, 120.0])
        self.settle = 30.0
        self.owed_after = world.now
        self.options: dict[str, Any] = {}
        self.offers: dict[str, Any] = {}
        self.flaws: list[str] = []

    async def play(self) -> None:
        """Play the scenario."""
        raise NotImplementedError

    def deploy(self, disk: Disk, **options: Any) -> Deploy:
        """Create a process that is not started and has no handlers."""
        arguments = {
            "start": "backfill",
            "interval": timedelta(seconds=self.interval),
            "settle": timedelta(seconds=self.settle),
            **self.options,
            **options,
        }
        return Deploy(self.world, disk, **arguments)

    def quoting(self, disk: Disk, think: float = 0.0, **options: Any) -> Deploy:
        """Start a process that quotes each new request after a delay of up to `most` seconds."""
        deploy = self.deploy(disk, **options)
        deploy.bot.on_new(id="quote")(quoting(deploy, think=self.thoughts(think), **self.offers))
        return deploy.start()

    def thoughts(self, longest: float) -> Any:
        """Draw the delays of a handler."""
        return lambda: self.rng.uniform(0.0, longest) if longest else 0.0

    async def supervise(self, seconds: float, start: Callable[[], Deploy], pause: float = 10.0) -> None:
        """Keep a process running for a time, as a supervisor does."""
        end = anyio.current_time() + seconds
        deploy = start()
        while anyio.current_time() < end:
            if await self.world.until(lambda d=deploy: d.is_gone, end - anyio.current_time()):  # type: ignore[misc]
                await anyio.sleep(pause)
                deploy = start()

    async def finish(self, disk: Disk, start: Callable[[], Deploy] | None = None) -> Deploy:
        """Finish the open work with a process and an exchange that do not fail, and record the reports of the bot."""
        self.world.heal()
        disk.mend()
        running = next((each for each in self.world.deploys if each.disk is disk and not each.is_gone), None)
        last = running or (start() if start is not None else self.quoting(disk))
        await last.running()
        await anyio.sleep(self.interval * 2 + self.settle)
        if not await last.idle(within=6 * 3600.0) and not last.is_gone:
            self.flaws.append(f"the last process never became idle: {last.bot.status()}")
        if last.is_gone:
            self.flaws.append(f"the last process ended by {last.error!r}")
        else:
            await last.look()
            await last.stop()
            if last.error is not None:
                self.flaws.append(f"the last process drained, and ended by {last.error!r}")
        return last

    def any_of(self, *choices: Any) -> Any:
        """Draw one of the values."""
        return self.rng.choice(choices)


def is_offer(call: Call) -> bool:
    """Return whether a call submits an offer."""
    return call.is_offer
