"""Shipper's bot that crashes again and again while it answers offers, in virtual time, checked against the sandbox."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random

from freight_exchange import Bot, Context, Offer, OfferEvent
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAILPOINTS, FAULTS, Profile, Sandbox

__all__ = ["run_trial"]

_APPROVE = "quote/approveoffer"
_REQUESTS, _MOST_CRASHES = 3, 10
_POINTS = [point for point in FAILPOINTS if point.split()[1] not in ("selected", "reported", "known")]
_FAULTS = ("reset_after_processing", "reset_after_send", "server_error_after_commit", "stall", "throttled", "refused")


async def run_trial(seed: int, *, ledger: bool = True) -> Counter[str]:
    """Crash a bot up to ten times; count crashes, points, approvals, and what is wrong.

    Args:
        seed: Draws the crashes and the faults.
        ledger: Whether the handler answers through `ctx`; else by the client, as people write it.
    """
    random = Random(seed)
    # A second approval is carried out: of another offer, or, as people's retries send it, of the same one.
    profile = Profile(decline_outcome="declined", second_approval="switched" if ledger else "repeated")
    sandbox = Sandbox(profile, seed=seed)
    requests = [sandbox.publish() for _ in range(_REQUESTS)]
    cheapest: dict[int, int] = {}
    for request in requests:
        amounts = random.sample(range(500, 999), 2)
        cheapest[request] = min(amounts)
        for account, amount in zip((sandbox.forwarder, sandbox.rival), amounts, strict=True):
            async with sandbox.client(account) as forwarder:
                await forwarder.bids.submit(request, amount=amount, currency="USD")
    counts: Counter[str] = Counter()
    store = MemoryStore()
    for _ in range(_MOST_CRASHES):
        if random.random() < 0.7:
            sandbox.strike(*FAULTS[random.choice(_FAULTS)](path=_APPROVE))
        point = random.choice(_POINTS)
        bot = _bot(store, ledger=ledger)
        times = random.randint(1, 4)
        async with sandbox.running(bot, account=sandbox.shipper, crash_at=point, times=times) as trial:
            try:
                await trial.idle()
            except RuntimeError:
                counts["crashes"] += 1
                counts[f"crash {point}"] += 1
        if not trial.has_crashed and random.random() < 0.5:
            break
    async with sandbox.running(_bot(store, ledger=ledger), account=sandbox.shipper) as trial:
        await trial.idle()
        counts["dead letters"] += len(await trial._bot.dead_letters())
    return counts + _check(sandbox, cheapest)


def _bot(store: MemoryStore, *, ledger: bool) -> Bot:
    bot = Bot(store=store, interval=timedelta(minutes=1), settle=timedelta(seconds=10))

    # Both handlers decide the same: the cheapest is approved, and the other one declined first.
    @bot.on_offer(id="award")
    @bot.on_offer_answered(id="award")
    async def award(offer: Offer, ctx: Context) -> None:
        assert isinstance(ctx.event, OfferEvent)
        offers = ctx.event.listing.offers
        if len(offers) < 2 or ctx.event.listing.selected is not None:
            return
        ranked = sorted(offers, key=lambda entry: entry.amount or 0)
        if ledger:
            await ctx.approve(ranked[0])
        else:
            await ctx.exchange.offers.approve(ranked[0])

    @bot.on_offer(id="decline")
    async def decline(offer: Offer, ctx: Context) -> None:
        assert isinstance(ctx.event, OfferEvent)
        offers = ctx.event.listing.offers
        if len(offers) == 2 and offer.amount == max(entry.amount or 0 for entry in offers):
            await (ctx.decline(offer) if ledger else ctx.exchange.offers.decline(offer))

    return bot


def _check(sandbox: Sandbox, cheapest: dict[int, int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    amounts = {record.offer.index: record.offer.amount for record in sandbox.audit_log.offers}
    request_of = {record.offer.index: record.offer.request for record in sandbox.audit_log.offers}
    answers = [call for call in sandbox.audit_log.calls_to("POST", _APPROVE) if call.processed]
    approvals: Counter[int] = Counter()
    declines: Counter[int] = Counter()
    for call in answers:
        offer = int(call.parameters["offerIndex"])
        if call.parameters["approved"] == 1:
            approvals[request_of[offer]] += 1
            counts["wrong offer approved"] += amounts[offer] != cheapest[request_of[offer]]
        else:
            declines[offer] += 1
    counts["approvals"] += approvals.total()
    counts["declines"] += declines.total()
    counts["approvals too many"] += sum(number - 1 for number in approvals.values())
    counts["declines too many"] += sum(number - 1 for number in declines.values())
    counts["not approved"] += sum(request not in approvals for request in cheapest)
    return counts
