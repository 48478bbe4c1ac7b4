"""Listings that lag, freeze, repeat rows and lose them for a while."""

from __future__ import annotations

from tests.model.bot_adversary.deploy import Deploy, quoting
from tests.model.bot_adversary.disk import Disk
from tests.model.bot_adversary.scenario import Scenario, is_offer

_TEN_MINUTES = 600.0


class BidsListedLate(Scenario, name="own bids are not listed for ten minutes"):
    """Replies are lost and processes are killed. `settle` exceeds the lag, as the documentation requires."""

    lag = _TEN_MINUTES
    allows = True

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        if self.allows:
            self.settle = self.lag + 60.0
        world.service.quirks.bid_lag = lambda: self.rng.uniform(0.2, 1.0) * self.lag
        self.quoting(disk)
        await world.wait(self.rng.uniform(1, 60))
        if self.rng.random() < 0.5:
            # Some offers are answered before one is not.
            world.publish(3)
            await world.wait(self.interval * 2 + self.settle)
        world.fail(when=is_offer, how=self.any_of("lost", "silent", "refused", 500, 502), times=self.any_of(1, 2, 4))
        world.publish(4)
        await world.wait(self.interval + self.rng.uniform(0, 300))
        if self.rng.random() < 0.5:
            deploy = world.deploys[-1]
            await (deploy.stop() if self.rng.random() < 0.5 else _killed(deploy))
            self.quoting(disk)
        await world.wait(self.rng.uniform(60, 900))
        world.publish(1)
        await self.finish(disk)


class BidsFrozen(Scenario, name="the listing of bids is frozen or cached"):
    """Replies to offers are lost, and the listing in which the bot looks for them is minutes old."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        quirks = world.service.quirks
        if self.rng.random() < 0.5:
            quirks.bids_cached = self.rng.uniform(10, 300)
            self.settle = quirks.bids_cached + 30
        else:
            self.settle = self.interval * 1.5 + 60.0
        self.quoting(disk)
        world.publish(self.rng.randrange(0, 3))
        await world.wait(self.interval + self.rng.uniform(0, 100))
        if not quirks.bids_cached:
            quirks.bids_frozen = world.now
        world.fail(when=is_offer, how=self.any_of("lost", "silent", 500), times=self.any_of(1, 3))
        world.publish(3)
        await world.wait(self.interval + self.rng.uniform(5, 20))
        quirks.bids_frozen = None
        await self.finish(disk)


class SameRequestTwice(Scenario, name="the same request handed out twice"):
    """Rows come twice in small pages, as text and as numbers, in varying order."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        quirks = world.service.quirks
        quirks.twice = self.any_of(0.0, 0.3, 1.0)
        quirks.shuffled = self.rng.random() < 0.5
        quirks.clamp = self.any_of(3, 10, 100)
        self.quoting(disk, think=self.any_of(0.0, 10.0))
        for _ in range(self.rng.randrange(2, 6)):
            world.publish(self.rng.randrange(1, 5))
            quirks.as_text = self.rng.random() < 0.5
            await world.wait(self.interval * self.rng.uniform(0.3, 2))
        if self.rng.random() < 0.5:
            world.deploys[-1].kill()
        await self.finish(disk)


class WithdrawnAndReturned(Scenario, name="a request withdrawn and returned"):
    """A request that is listed again is delivered again, and gets no second offer."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        self._start(disk)
        requests = world.publish(4)
        await world.wait(self.interval * self.rng.uniform(0.2, 3))
        for _ in range(self.rng.randrange(1, 4)):
            away = self.rng.sample(requests, 2)
            for request in away:
                world.market.withdraw(request.index, world.now)
            await world.wait(self.interval * self.rng.uniform(0.5, 30))
            if self.rng.random() < 0.4:
                deploy = world.deploys[-1]
                await (deploy.stop() if self.rng.random() < 0.5 else _killed(deploy))
                self._start(disk)
            for request in away:
                world.market.bring_back(request.index, world.now)
                if self.rng.random() < 0.5:
                    world.market.update(request.index, world.now, self.rng.randrange(1, 400))
            await world.wait(self.interval * self.rng.uniform(0.5, 5))
        await self.finish(disk, lambda: self._start(disk))

    def _start(self, disk: Disk) -> Deploy:
        deploy = self.deploy(disk)
        deploy.bot.on_new(id="quote")(quoting(deploy))
        if self.rng.random() < 0.5:
            deploy.bot.on_updated(id="follow")(quoting(deploy))
        return deploy.start()


class Flapping(Scenario, name="listings served from a cache, and requests that flap"):
    """The listing is minutes old while look-ups and offers are live."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        world.service.quirks.requests_cached = self.rng.uniform(20, 200)
        self.quoting(disk, think=self.any_of(0.0, 5.0))
        requests = world.publish(4)
        for _ in range(self.rng.randrange(2, 8)):
            request = self.rng.choice(requests)
            if request.is_open(world.now):
                world.market.withdraw(request.index, world.now)
            else:
                world.market.bring_back(request.index, world.now)
            requests += world.publish(self.rng.randrange(0, 2))
            await world.wait(self.interval * self.rng.uniform(0.2, 1.5))
        for request in requests:
            if not request.is_open(world.now):
                world.market.bring_back(request.index, world.now)
        world.service.quirks.requests_cached = 0.0
        await self.finish(disk)


class AnswerLostAndListedLate(Scenario, name="the answer is lost and the bid is listed late"):
    """The process ends while the offer is in flight. The bid is listed just before `settle` ends."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        world.service.quirks.bid_lag = lambda: self.rng.uniform(0.5, 0.95) * self.settle
        failure = world.fail(
            when=is_offer, how=self.any_of("lost", "silent"), times=self.any_of(1, 2, 5), delay=self.any_of(0.0, 1.0)
        )
        world.publish(self.rng.randrange(1, 5))
        for _ in range(self.rng.randrange(1, 4)):
            self.quoting(disk)
            await world.until(lambda: failure.struck > 0, 300)
            await world.wait(self.rng.uniform(0, 60))
            world.deploys[-1].kill()
            await world.wait(self.rng.uniform(0, 20))
        await self.finish(disk)


class Rounded(Scenario, name="the service rounds, and a person's price is near"):
    """Amounts are rounded, and similar bids are on the same request."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        world.service.quirks.rounded = self.rng.random() < 0.7
        self.offers = {"allow_existing": True}
        self.owed_after = float("inf")
        requests = world.publish(4)
        for request in requests:
            price = request.index * 1000 + request.quantity * 5 // 4
            world.offer_by_hand(request.index, price + self.any_of(-1, 0, 1, 30))
        self.quoting(disk)
        await world.wait(self.interval)
        world.fail(when=is_offer, how=self.any_of("lost", "refused", 500), times=self.any_of(1, 3))
        for request in world.publish(3):
            if self.rng.random() < 0.7:
                world.offer_by_hand(request.index, request.index * 1000 + request.quantity * 5 // 4)
        await world.wait(self.interval + self.rng.uniform(0, 100))
        if self.rng.random() < 0.5:
            world.deploys[-1].kill()
        await self.finish(disk)


async def _killed(deploy: Deploy) -> None:
    deploy.kill()
