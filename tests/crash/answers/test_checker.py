"""Tests of the checker of answers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.crash.answers.checker import APPROVE, FLAWS, PriceChange, check

from freight_exchange.testing import Profile, Sandbox
from freight_sandbox import Call

NOW = 1_900_000_000.0


class Market:
    """One request with offers of 900, 800 and 700, and a shipper who answers."""

    def __init__(self) -> None:
        self.exchange = Sandbox(Profile(second_approval="switched", decline_outcome="unchanged")).exchange
        self.request = self.exchange.publish(self.exchange.shipper, NOW)
        for amount in (900, 800, 700):
            self.exchange.offer(self.exchange.forwarder, self.request, NOW, amount=amount)
        self.token = self.exchange.token(self.exchange.shipper, NOW)

    def answer(self, offer: int, approved: int = 1) -> None:
        body = f'{{"offerIndex":{offer},"approved":{approved}}}'.encode()
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        self.exchange.handle(Call("POST", APPROVE, {}, headers, body), NOW + 10)

    def flaws(self, *changes: PriceChange) -> dict[str, int]:
        counts = check(self.exchange.audit_log, [self.request], changes)
        return {flaw: counts[flaw] for flaw in FLAWS if counts[flaw]}


def test_one_approval_of_the_cheapest_is_right() -> None:
    market = Market()
    assert market.flaws() == {"not approved": 1}
    market.answer(5001, approved=0)
    market.answer(5003)
    assert market.flaws() == {}


def test_request_whose_offers_were_all_declined_is_counted_apart() -> None:
    market = Market()
    for offer in (5001, 5002):
        market.answer(offer, approved=0)
    assert market.flaws() == {"not approved": 1}
    market.answer(5003, approved=0)
    counts = check(market.exchange.audit_log, [market.request])
    assert (counts["not approved"], counts["all offers declined"]) == (0, 1)
    # One without any offer is not among them.
    unoffered = market.exchange.publish(market.exchange.shipper, NOW)
    assert check(market.exchange.audit_log, [unoffered])["not approved"] == 1


@pytest.mark.parametrize(
    ("answers", "flaws"),
    [
        ([(5002, 1)], {"wrong offer approved": 1}),
        ([(5003, 1), (5002, 1)], {"approvals too many": 1, "wrong offer approved": 1}),
        ([(5001, 0), (5001, 0), (5003, 1)], {"declines too many": 1}),
    ],
)
def test_each_flaw_is_counted(answers: list[tuple[int, int]], flaws: dict[str, int]) -> None:
    market = Market()
    for answer in answers:
        market.answer(*answer)
    assert market.flaws() == flaws


def test_approval_after_a_person_or_at_a_raised_price_is_wrong() -> None:
    market = Market()
    market.exchange.select(5003, NOW + 5)
    market.answer(5002)
    assert market.flaws()["approvals too many"] == 1
    raised: Any = Market()
    raised.answer(5003)
    assert raised.flaws(PriceChange(NOW + 5, 5003, Decimal(999))) == {"wrong offer approved": 1}
