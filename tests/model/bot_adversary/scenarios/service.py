"""Exchanges that are slow, refuse logins, or stand behind a failing gateway."""

from __future__ import annotations

from tests.model.bot_adversary.scenario import Scenario, is_offer


class SlowExchange(Scenario, name="the exchange takes offers after the client gave up"):
    """The exchange accepts an offer many seconds after it was sent, when its caller has given up."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        slowest = self.any_of(20.0, 45.0, 90.0)
        # The offer is there when it was handled, and that is late.
        self.settle = slowest + 30.0
        for _ in range(4):
            how, delay = self.any_of("lost", "silent", 504, 200), self.rng.uniform(0.5, 1) * slowest
            world.fail(when=is_offer, how=how, times=1, delay=delay)
        self.quoting(disk)
        world.publish(4)
        await world.wait(self.interval + self.rng.uniform(0, 120))
        if self.rng.random() < 0.6:
            deploy = world.deploys[-1]
            deploy.kill() if self.rng.random() < 0.5 else await deploy.stop()
        await self.finish(disk)


class LoginRevoked(Scenario, name="the login is revoked in the middle"):
    """Tokens expire at any time, and the password is changed for a while."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        password = world.service.quirks.password
        self.quoting(disk, think=self.any_of(0.0, 20.0))
        await world.wait(self.rng.uniform(1, 60))
        for _ in range(self.rng.randrange(1, 5)):
            world.publish(self.rng.randrange(1, 4))
            match self.rng.randrange(3):
                case 0:
                    await world.wait(self.rng.uniform(0, self.interval * 1.5))
                    world.service.revoke_tokens()
                case 1:
                    world.service.revoke_tokens()
                    world.service.quirks.password = "changed"
                    await world.wait(self.rng.uniform(10, 600))
                    world.service.quirks.password = password
                case _:
                    # The token ends under the very offer.
                    rule = world.fail(when=is_offer, how=self.any_of(401, 403), times=self.any_of(1, 3))
                    rule.body, rule.takes = {"Unauthorized": "access denied"}, False
            await world.wait(self.interval * self.rng.uniform(0.5, 2))
        # A rejected login is tried again less and less often.
        await world.wait(4 * 3600.0)
        deploy = world.deploys[-1]
        if not deploy.is_gone and self.rng.random() < 0.5:
            await deploy.stop()
        await self.finish(disk)


class GatewayPages(Scenario, name="a gateway answers in the exchange's place"):
    """Statuses and bodies do not show whether the offer was accepted."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        for _ in range(self.rng.randrange(1, 6)):
            how = self.any_of("lost", "silent", 500, 502, 503, 504, 429, 400, 200, 302)
            body = self.any_of([], {}, {"error": "bad gateway"}, {"bid": []}, {"bids": {}}, {"message": "try again"})
            # A refusal in JSON comes from the exchange; any other reply comes from a gateway.
            rule = world.fail(when=is_offer, how=how, times=self.any_of(1, 2))
            rule.body = [] if how == 400 else body
            rule.takes = how not in (400, 429) and self.rng.random() < 0.5
        self.quoting(disk)
        world.publish(6)
        await world.wait(self.interval * 2 + self.rng.uniform(0, 300))
        if self.rng.random() < 0.3:
            world.deploys[-1].kill()
        await self.finish(disk)


class ClockJumps(Scenario, name="clocks jump"):
    """The wall clock is set and the machine is suspended, during a run and between two runs."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        self.quoting(disk, think=self.any_of(0.0, 5.0))
        for _ in range(self.rng.randrange(2, 6)):
            world.publish(self.rng.randrange(1, 3))
            if self.rng.random() < 0.5:
                world.fail(when=is_offer, how=self.any_of("lost", "refused"), times=1)
            await world.wait(self.rng.uniform(0, self.interval * 2))
            deploy = world.deploys[-1]
            stopped = self.rng.random() < 0.5
            if stopped:
                deploy.kill() if self.rng.random() < 0.5 else await deploy.stop()
            world.wall_step += self.any_of(-86400.0, -3600.0, -30.0, 30.0, 3600.0, 86400.0, 400 * 86400.0)
            if self.rng.random() < 0.3:
                world.boot_step += self.any_of(60.0, 7200.0)
            if stopped:
                self.quoting(disk)
            await world.wait(self.rng.uniform(0, self.interval * 2))
        await self.finish(disk)
