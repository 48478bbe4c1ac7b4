"""A bot whose service begins to cut pages shorter while an offer of the bot's is in doubt."""

from __future__ import annotations

from typing import Literal

import attrs
import pytest
from tests.unit.bot.ledger_rig import AMOUNT, UNANSWERED, amounts_on, eventually, offering_bot, sent, strike

from freight_exchange.store import MemoryStore
from freight_exchange.testing import Profile, Sandbox

pytestmark = pytest.mark.virtual_time

SIX_DAYS = 6 * 24 * 3600
EARLIER = 105


@pytest.mark.parametrize("stride", ["clamped", "asked"])
async def test_an_unanswered_offer_behind_a_lowered_clamp_is_not_made_again(
    stride: Literal["clamped", "asked"],
) -> None:
    """The account has more own bids than a page held when the bot began, and the new one is listed last."""
    sandbox = Sandbox(Profile(order="oldest", clamp_stride=stride))
    for _ in range(EARLIER):
        request = sandbox.exchange.publish(sandbox.shipper, sandbox.now() - SIX_DAYS)
        sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now() - SIX_DAYS, amount=990)
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await trial.idle()
        sandbox.exchange.profile = attrs.evolve(sandbox.exchange.profile, rows_clamp=50)
        strike(sandbox, UNANSWERED)
        index = sandbox.publish()
        await eventually(lambda: sent(sandbox) == 1)
        await trial.idle()
    assert sent(sandbox) == 1
    assert amounts_on(sandbox, index) == [AMOUNT]
