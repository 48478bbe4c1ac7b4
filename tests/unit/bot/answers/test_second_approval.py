"""Tests of a second approval if only the ledger or only the listing shows the first one."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from freight_exchange import AlreadyApprovedError, Bot, Context, Offer, OfferEvent
from freight_exchange.testing import Profile, Sandbox

pytestmark = pytest.mark.virtual_time

APPROVE = "quote/approveoffer"


class TwoHandlers:
    """Bot with two handlers, and the later one approves a different offer."""

    def __init__(self) -> None:
        self.errors = list[Exception]()
        self.bot = Bot(store=None, interval=timedelta(minutes=1), settle=timedelta(seconds=10))

        @self.bot.on_offer(id="a first")
        async def first(offer: Offer, ctx: Context) -> None:
            if offer.id == 5001:
                await ctx.approve(offer)

        @self.bot.on_offer(id="b second")
        async def second(offer: Offer, ctx: Context) -> None:
            assert isinstance(ctx.event, OfferEvent)
            if offer.id == 5002:
                try:
                    await ctx.approve(offer)
                except Exception as error:
                    self.errors.append(error)
                    raise


def offered(profile: Profile) -> tuple[Sandbox, int]:
    sandbox = Sandbox(profile)
    request = sandbox.publish()
    for amount in (900, 800):
        sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=amount)
    return sandbox, request


async def test_service_that_shows_approvals_late_gets_one() -> None:
    late = 5.0
    sandbox, _ = offered(Profile(second_approval="switched", late_visibility=late))
    two = TwoHandlers()
    async with sandbox.running(two.bot, account=sandbox.shipper) as trial:
        # The first scan may come before the offers are listed.
        await anyio.sleep(late)
        await trial.idle()
    assert len(sandbox.audit_log.calls_to("POST", APPROVE)) == 1
    assert [type(error) for error in two.errors] == [AlreadyApprovedError]


async def test_approval_by_a_person_stands_where_all_offers_stay_listed() -> None:
    sandbox, request = offered(Profile(second_approval="switched", selected_offer_shape="collection"))
    sandbox.exchange.select(5002, sandbox.now())
    bot, errors = Bot(store=None, interval=timedelta(minutes=1)), list[Exception]()

    @bot.on_offer
    async def approve(offer: Offer, ctx: Context) -> None:
        try:
            await ctx.approve(5001)
        except Exception as error:
            errors.append(error)
            raise

    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await trial.idle()
    assert sandbox.audit_log.calls_to("POST", APPROVE) == []
    assert {type(error) for error in errors} == {AlreadyApprovedError}
    assert sandbox.exchange.requests[request].selected == 5002
