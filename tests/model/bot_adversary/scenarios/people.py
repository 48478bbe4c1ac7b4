"""People who make offers by hand on the bot's account."""

from __future__ import annotations

from decimal import Decimal

from tests.model.bot_adversary.scenario import Scenario, is_offer


class PersonBeforeStart(Scenario, name="a person offers before the bot starts"):
    """A request with a person's bid at the start never gets an offer."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        requests = world.publish(6)
        for request in self.rng.sample(requests, 3):
            world.offer_by_hand(request.index, self.any_of(request.index * 1000, 77))
        await world.wait(self.rng.uniform(0, 60))
        self.quoting(disk, think=self.any_of(0.0, 5.0))
        await world.wait(self.rng.uniform(30, 200))
        world.publish(2)
        await self.finish(disk)


class PersonWhileDeciding(Scenario, name="a person offers while the bot decides"):
    """A person offers while a handler works on the same request, at any price; replies are lost."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        self.quoting(disk, think=self.any_of(40.0, 200.0))
        await world.wait(self.rng.uniform(5, 100))
        requests = world.publish(6)
        same = self.rng.random() < 0.5
        if self.rng.random() < 0.5:
            world.fail(when=is_offer, how=self.any_of("lost", "refused", "silent", 500, 503), times=2)
        await world.wait(self.rng.uniform(self.interval, self.interval + 60))
        for request in requests[:4]:
            price = request.index * 1000 + Decimal(request.quantity) * Decimal("1.25")
            world.offer_by_hand(request.index, price if same else price + self.any_of(-200, 1, 90))
            await world.wait(self.rng.uniform(0, 20))
        await self.finish(disk)
