"""Tests of replies about another write: the outcome is unknown, and reconciliation finds it."""

from __future__ import annotations

import pytest
from tests.faults.support import REQUEST, Kind, arm, patient, stocked

from freight_exchange import Applied, OutcomeUnknownError
from freight_exchange.testing import FAULTS, Sandbox
from freight_sandbox import Profile

pytestmark = pytest.mark.virtual_time

OF_SUBMIT = ("reply_of_another_request", "reply_with_another_amount", "reply_with_another_currency")


@pytest.mark.parametrize("profile", [Profile(), Profile(number_form="string"), Profile(number_form="exponent")])
@pytest.mark.parametrize("name", OF_SUBMIT)
async def test_reply_about_another_offer_makes_the_outcome_unknown(name: str, profile: Profile) -> None:
    sandbox = stocked(Sandbox(profile))
    async with patient(sandbox, http_client=sandbox.http_client()) as exchange:
        arm(sandbox, name, Kind.WRITE)
        with pytest.raises(OutcomeUnknownError, match="does not match what was sent") as caught:
            await exchange.bids.submit(REQUEST, amount="1840.50", currency=840)
        assert isinstance(await caught.value.reconcile(exchange), Applied)
    assert len(sandbox.audit_log.offers_on(REQUEST)) == 1


@pytest.mark.parametrize("name", ["reply_of_another_request", "approval_of_another_offer"])
async def test_a_reply_about_another_approval_is_a_doubt(name: str) -> None:
    sandbox = stocked(Sandbox())
    offer = sandbox.exchange.offer(sandbox.forwarder, REQUEST, sandbox.now())
    async with sandbox.client(sandbox.shipper) as shipper:
        await shipper.offers.get(REQUEST)
        sandbox.strike(*FAULTS[name](path="quote/approveoffer"))
        with pytest.raises(OutcomeUnknownError, match="does not match what was sent") as caught:
            await shipper.offers.approve(offer)
        assert isinstance(await caught.value.reconcile(shipper), Applied)
    assert [call.processed for call in sandbox.audit_log.calls_to("POST", "quote/approveoffer")] == [True]
