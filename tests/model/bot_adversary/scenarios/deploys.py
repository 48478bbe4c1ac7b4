"""Deploys that change the bot's handlers, or run one bot twice."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.model.bot_adversary.deploy import Deploy, price_of, quoting
from tests.model.bot_adversary.disk import Disk
from tests.model.bot_adversary.scenario import Scenario, is_offer

from freight_exchange import RateRequest

_EAST = {"Hong Kong", "Busan"}
_WEST = {"Hamburg", "Callao"}


class HandlersRenamed(Scenario, name="handlers renamed, reordered and split between deploys"):
    """Each deploy has different handlers for the same requests. The last one has the names of all earlier handlers."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        self._origins: dict[str, object] = {}
        for number in range(self.rng.randrange(2, 5)):
            if self.rng.random() < 0.5:
                world.fail(when=is_offer, how=self.any_of("lost", "refused", 500), times=self.any_of(1, 2))
            self._start(disk, number)
            world.publish(self.rng.randrange(1, 4))
            await world.wait(self.interval * self.rng.uniform(0.3, 2))
            deploy = world.deploys[-1]
            deploy.kill() if self.rng.random() < 0.5 else await deploy.stop()
        await self.finish(disk, lambda: self._all(disk))

    def _start(self, disk: Disk, number: int) -> None:
        deploy = self.deploy(disk)
        factor = Decimal(self.any_of("1.25", "1.5", "2"))
        think = self.thoughts(self.any_of(0.0, 30.0))

        def price(request: RateRequest) -> Decimal:
            return price_of(request, factor)

        handlers: list[tuple[str, dict[str, Any]]] = self.any_of(
            [("quote", {})],
            [(f"quote_{number}", {"from_start": self.rng.random() < 0.5})],
            [("east", {"origin": _EAST}), ("west", {"origin": _WEST})],
            [("west", {"origin": _WEST}), ("quote", {}), ("east", {"origin": _EAST})],
            [("east", {}), ("quote", {"origin": _WEST})],
        )
        origins = {name: filters.get("origin") for name, filters in handlers}
        if any(origin is not None and self._origins.get(name) is not origin for name, origin in origins.items()):
            # What waits for a handler is dropped where a deploy narrows its filter.
            self.world.gaps.append((0.0, self.world.now))
        self._origins |= origins
        for name, filters in handlers:
            deploy.bot.on_new(id=name, **filters)(quoting(deploy, think=think, price=price))
        deploy.start()

    def _all(self, disk: Disk) -> Deploy:
        deploy = self.deploy(disk)
        for name in ("quote", "east", "west", *(f"quote_{number}" for number in range(5))):
            deploy.bot.on_new(id=name, from_start=name == "quote")(quoting(deploy))
        return deploy.start()


class TwoMachines(Scenario, name="two machines with two stores on one account"):
    """Two machines are started by mistake, at once or one after the other. Each offers once, and logs a warning."""

    async def play(self) -> None:
        world = self.world
        disks = [world.disk("a"), world.disk("b")]
        world.publish(2)
        self.quoting(disks[0], think=self.any_of(0.0, 5.0))
        await world.wait(self.any_of(0.0, 20.0, 200.0))
        self.quoting(disks[1], think=self.any_of(0.0, 5.0))
        for _ in range(self.rng.randrange(1, 4)):
            world.publish(self.rng.randrange(1, 4))
            await world.wait(self.interval * self.rng.uniform(0.5, 3))
        await world.wait(self.interval * 2)
        for disk in disks:
            await self.finish(disk)


class ClonedMachine(Scenario, name="a machine cloned with its store"):
    """Two machines continue from one copy of the store."""

    async def play(self) -> None:
        world = self.world
        disks = [world.disk("a"), world.disk("b")]
        self.quoting(disks[0])
        world.publish(3)
        await world.wait(self.interval * 2)
        world.publish(1)
        await world.wait(self.rng.uniform(0, self.interval))
        disks[1].put_back(disks[0].copy())
        self.quoting(disks[1])
        for _ in range(self.rng.randrange(1, 4)):
            world.publish(self.rng.randrange(1, 4))
            await world.wait(self.interval * self.rng.uniform(0.5, 3))
        for disk in disks:
            await self.finish(disk)


class PriceRaisesAfterRestart(Scenario, name="the price function raises after a restart"):
    """Offers are in doubt during a deploy with a broken or changed tariff. A later deploy corrects the tariff."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        world.fail(when=is_offer, how=self.any_of("lost", "refused", "silent", 500), times=self.any_of(1, 2, 3))
        self.quoting(disk)
        world.publish(4)
        await world.wait(self.interval * self.rng.uniform(0.5, 2))
        for broken in (True, False):
            deploy = world.deploys[-1]
            deploy.kill() if self.rng.random() < 0.5 else await deploy.stop()
            self._start(disk, broken=broken)
            world.publish(self.rng.randrange(0, 2))
            await world.wait(self.rng.uniform(10, 900))
        last = await self.finish(disk)
        if last.dead:
            # A person replays what died of the broken tariff.
            again = self.quoting(disk)
            await again.running()
            for letter in last.dead:
                await again.bot.replay(letter.event, letter.handler)
            await world.wait(30.0)
            last.dead = []
            await self.finish(disk)

    def _start(self, disk: Disk, *, broken: bool) -> None:
        error = self.any_of(KeyError("no tariff"), ZeroDivisionError(), ValueError("NaN"))
        factor = Decimal(self.any_of("1.25", "1.75"))

        def price(request: RateRequest) -> Decimal:
            if broken:
                raise error
            return price_of(request, factor)

        deploy = self.deploy(disk)
        deploy.bot.on_new(id="quote")(quoting(deploy, price=price))
        deploy.start()
