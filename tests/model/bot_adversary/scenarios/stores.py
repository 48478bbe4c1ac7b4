"""Store files that are lost, outdated or duplicated."""

from __future__ import annotations

from tests.model.bot_adversary.scenario import Scenario, is_offer


class StoreFromYesterday(Scenario, name="a store restored from yesterday"):
    """A restored copy lacks the latest offers. The bot finds them among its own bids."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        self.interval = self.any_of(60.0, 600.0)
        first = self.quoting(disk, think=self.any_of(0.0, 3.0))
        world.publish(4)
        await world.wait(self.interval * self.rng.uniform(1, 3))
        copy = disk.copy()
        for _ in range(self.rng.randrange(1, 5)):
            world.publish(self.rng.randrange(1, 4))
            await world.wait(self.interval * self.rng.uniform(1, 8))
        first.kill() if self.rng.random() < 0.5 else await first.stop()
        # The page about the file asks for it: the last offers have to be listed.
        await world.wait(self.settle + self.rng.uniform(0, 60))
        disk.put_back(copy)
        self.quoting(disk)
        world.publish(2)
        await world.wait(self.rng.uniform(1, self.interval))
        await self.finish(disk)


class StoreLost(Scenario, name="the store is lost"):
    """With a new file, an account that has offered before makes no second offer.

    A bid of the account is already listed, since the documentation asks operators to wait for the first ones.
    """

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        world.service.quirks.bid_lag = lambda: self.rng.uniform(0, 0.9) * self.settle
        self.quoting(disk)
        if self.rng.random() < 0.5:
            world.fail(when=is_offer, how=self.any_of("lost", "silent"), times=2)
        world.publish(4)
        await world.wait(self.rng.uniform(1, self.interval * 2))
        world.publish(self.rng.randrange(0, 3))
        await world.wait(self.rng.uniform(1, self.interval * 2))
        deploy = world.deploys[-1]
        deploy.kill() if self.rng.random() < 0.5 else await deploy.stop()
        if world.market.bids:
            await world.until(lambda: any(bid.shown_from <= world.now for bid in world.market.bids))
        disk.lose()
        world.heal()
        self.quoting(disk)
        await world.wait(self.rng.uniform(0, self.settle))
        world.publish(self.rng.randrange(0, 3))
        await self.finish(disk)


class DiskFull(Scenario, name="the disk is full in the middle"):
    """Writes of the store fail once, or from one of them on, or after they took effect. Later writes succeed."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        world.publish(3)
        for _ in range(self.rng.randrange(1, 4)):
            deploy = self.quoting(disk, think=self.any_of(0.0, 2.0))
            if self.rng.random() < 0.8:
                await deploy.running()
            world.publish(self.rng.randrange(0, 3))
            if self.rng.random() < 0.3:
                world.fail(when=is_offer, how=self.any_of("lost", "silent"), times=1)
            disk.fail_from(
                self.rng.randrange(1, 60),
                self.any_of("full", "failing"),
                times=self.any_of(1, 3, None),
                after_commit=self.rng.random() < 0.3,
            )
            await world.until(lambda deploy=deploy: deploy.is_gone, self.interval * self.rng.uniform(1, 4))  # type: ignore[misc]
            disk.mend()
            world.heal()
            if not deploy.is_gone and self.rng.random() < 0.7:
                deploy.kill() if self.rng.random() < 0.5 else await deploy.stop()
            await deploy.gone.wait() if deploy.is_gone else None
            if not deploy.is_gone:
                break
        await self.finish(disk)
