"""Ends of the process by signals at any point."""

from __future__ import annotations

from tests.model.bot_adversary.deploy import Deploy
from tests.model.bot_adversary.scenario import Scenario, is_offer
from tests.model.bot_adversary.service import Call


class KilledAnywhere(Scenario, name="killed at any point"):
    """SIGKILL at any call, at any statement of the store, or at any time; several times in a row."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        world.publish(self.rng.randrange(1, 5))
        for _ in range(self.rng.randrange(1, 6)):
            deploy = self.quoting(disk, think=self.any_of(0.0, 2.0))
            self._arm(deploy)
            world.publish(self.rng.randrange(0, 3))
            await world.until(lambda deploy=deploy: deploy.is_gone, self.rng.uniform(60, 400))  # type: ignore[misc]
            deploy.kill()
            world.heal()
            disk.mend()
            await world.wait(self.rng.uniform(0, self.any_of(1, 60)))
        await self.finish(disk)

    def _arm(self, deploy: Deploy) -> None:
        left = self.rng.randrange(1, 12)
        offers_only = self.rng.random() < 0.4

        def on_call(call: Call) -> None:
            nonlocal left
            left -= call.is_offer or not offers_only
            if left == 0:
                deploy.kill()

        match self.rng.randrange(4):
            case 0:
                self.world.before_call = on_call
            case 1:
                self.world.after_call = on_call
            case 2:
                at = deploy.disk.statements + self.rng.randrange(20, 400)

                def on_statement(statement: str) -> None:
                    if deploy.disk.statements >= at:
                        deploy.disk.mend()
                        deploy.kill()

                if self.rng.random() < 0.5:
                    deploy.disk.before = on_statement
                else:
                    deploy.disk.after = on_statement
            case _:
                pass


class Signalled(Scenario, name="signals at every point"):
    """SIGTERM at any call, and a second one at any time while it drains; handlers and answers are slow."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        world.publish(3)
        for _ in range(self.rng.randrange(1, 5)):
            if self.rng.random() < 0.6:
                how = self.any_of("lost", "silent", "refused", 500, 200)
                world.fail(when=is_offer, how=how, times=self.any_of(1, 2), delay=self.rng.uniform(0, 20))
            deploy = self.quoting(disk, think=self.any_of(0.0, 2.0, 60.0))
            left = self.rng.randrange(1, 12)

            def on_call(call: Call, deploy: Deploy = deploy) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    deploy.bot.stop()

            if self.rng.random() < 0.5:
                world.before_call = on_call
            else:
                world.after_call = on_call
            world.publish(self.rng.randrange(0, 2))
            await world.wait(self.rng.uniform(0, self.interval * 2))
            if not deploy.is_gone:
                deploy.bot.stop()
            await world.until(lambda deploy=deploy: deploy.is_gone, self.any_of(0.1, 10.0, 200.0))  # type: ignore[misc]
            if not deploy.is_gone:
                deploy.kill()
            world.heal()
        await self.finish(disk)
