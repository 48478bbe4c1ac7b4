"""A bot that hears nothing says so within three intervals, whatever the reason, and lives on when it hears again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot.ledger_rig import INTERVAL, amounts_on, eventually, new_bot, offering_bot, strike
from tests.unit.bot.rig import Shared

from freight_exchange.bot.ops import probes
from freight_exchange.errors import LoginRejectedError, NotFoundError
from freight_exchange.feed.lease import Lease
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Profile, Sandbox, Trial

pytestmark = pytest.mark.virtual_time

THREE = 3 * INTERVAL.total_seconds()
DEAF = ["stall", "html_200", "garbage_status", "refused", "unavailable_forever", "unauthorized_forever", "half_json"]
LOGIN_REJECTED = [
    "login_message_200",
    "login_message_400",
    "login_message_401",
    "login_message_403",
    "login_message_422",
]
DAY = timedelta(days=1)


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


def state(trial: Trial) -> str:
    return trial.status.state


def port(trial: Trial, path: str) -> int:
    """What the operator's port says."""
    said = probes.answer(f"GET {path} HTTP/1.1\r\n\r\n".encode(), lambda: trial.status, None)
    return int(said.split()[1])


async def turns_bad(trial: Trial, *, sooner: bool = False) -> None:
    """Once the cover is three intervals old, and neither before nor later; or by then, if something is known sooner."""
    await anyio.sleep(THREE - trial.status.age.total_seconds() - 0.1)
    assert port(trial, "/livez") == 200 or sooner
    await anyio.sleep(0.2)
    assert port(trial, "/livez") == port(trial, "/readyz") == 503


async def recovers(trial: Trial) -> None:
    await eventually(lambda: port(trial, "/livez") == port(trial, "/readyz") == 200, within=timedelta(minutes=20))


@pytest.mark.parametrize("fault", DEAF)
async def test_a_deaf_feed_turns_bad_and_recovers(sandbox: Sandbox, fault: str) -> None:
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await trial.idle()
        assert port(trial, "/livez") == port(trial, "/readyz") == 200
        sandbox.strike(*FAULTS[fault](times=None))
        await turns_bad(trial, sooner=fault == "unauthorized_forever")
        index = sandbox.publish()
        await anyio.sleep(3600)
        assert port(trial, "/livez") == 503
        sandbox.exchange.faults.clear()
        await recovers(trial)
        await eventually(lambda: amounts_on(sandbox, index))
        await trial.idle()
    assert len(amounts_on(sandbox, index)) == 1


@pytest.mark.parametrize("fault", ["stall", "refused", "unavailable_forever", "login_hung", "login_message_500"])
async def test_a_bot_that_never_gets_as_far_as_its_first_scan_turns_bad(sandbox: Sandbox, fault: str) -> None:
    sandbox.strike(*FAULTS[fault](times=None))
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await anyio.sleep(1)
        assert (port(trial, "/livez"), port(trial, "/readyz")) == (200, 503)
        await turns_bad(trial)
        assert state(trial) == "starting"
        await anyio.sleep(600)
        assert port(trial, "/livez") == 503
        sandbox.exchange.faults.clear()
        await recovers(trial)
        index = sandbox.publish()
        await eventually(lambda: amounts_on(sandbox, index))


@pytest.mark.parametrize("fault", LOGIN_REJECTED)
async def test_a_login_that_is_rejected_at_the_first_start_is_raised(sandbox: Sandbox, fault: str) -> None:
    strike(sandbox, fault, path="login", times=None)
    bot = offering_bot(MemoryStore())
    with pytest.raises(LoginRejectedError):
        await bot.serve(exchange=sandbox.client())
    assert bot.status().state == "stopped"
    assert not bot.status().live


async def test_a_wrong_address_is_raised(sandbox: Sandbox) -> None:
    strike(sandbox, "not_found_page", path=None, times=None)
    with pytest.raises(NotFoundError):
        await offering_bot(MemoryStore()).serve(exchange=sandbox.client())


@pytest.mark.parametrize("store", [MemoryStore, lambda: None], ids=["kept", "None"])
@pytest.mark.parametrize("fault", LOGIN_REJECTED)
async def test_a_login_that_is_rejected_later_is_waited_out(sandbox: Sandbox, store: Any, fault: str) -> None:
    bot = offering_bot(store())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        strike(sandbox, fault, path="login", times=None)
        sandbox.exchange.expire_tokens()
        await turns_bad(trial, sooner=True)
        await eventually(lambda: state(trial) == "login-rejected")
        index = sandbox.publish()
        for _ in range(36):
            await anyio.sleep(100)
            assert not trial.status.live
        sandbox.exchange.faults.clear()
        await recovers(trial)
        await eventually(lambda: amounts_on(sandbox, index))
        await trial.idle()
    assert len(amounts_on(sandbox, index)) == 1


async def test_a_password_that_is_changed_and_changed_back_is_waited_out(sandbox: Sandbox) -> None:
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await trial.idle()
        password, sandbox.forwarder.password = sandbox.forwarder.password, "another"
        sandbox.exchange.expire_tokens()
        await turns_bad(trial, sooner=True)
        tried = len(sandbox.audit_log.logins)
        await anyio.sleep(2 * 3600)
        # Often enough to be back soon, and not so often that an account is locked for it.
        assert 4 <= len(sandbox.audit_log.logins) - tried <= 16
        sandbox.forwarder.password = password
        await recovers(trial)
        index = sandbox.publish()
        await eventually(lambda: amounts_on(sandbox, index))


async def test_a_login_that_is_rejected_while_priming_is_waited_out(sandbox: Sandbox) -> None:
    # The login is taken, the first scan fails for a while, and then the password is changed.
    strike(sandbox, "unavailable_forever", path="quote/getrequests", times=None)
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await eventually(lambda: sandbox.audit_log.logins)
        await anyio.sleep(60)
        strike(sandbox, "login_message_401", path="login", times=None)
        sandbox.exchange.expire_tokens()
        sandbox.exchange.faults.clear()
        strike(sandbox, "login_message_401", path="login", times=None)
        await anyio.sleep(600)
        assert port(trial, "/livez") == 503
        sandbox.exchange.faults.clear()
        await recovers(trial)


async def test_while_a_login_is_waited_out_the_cover_grows_older(sandbox: Sandbox) -> None:
    bot = offering_bot(MemoryStore())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        began = anyio.current_time()
        strike(sandbox, "login_message_401", path="login", times=None)
        sandbox.exchange.expire_tokens()
        looks = 0
        while anyio.current_time() < began + 3600:
            await anyio.sleep(60)
            silent = anyio.current_time() - began
            if state(trial) != "login-rejected":
                # Another try is on its way.
                continue
            looks += 1
            feed = trial.status.feed
            assert feed is not None
            assert feed.cover_age is not None
            for age in (trial.status.age, feed.cover_age):
                assert silent <= age.total_seconds() <= silent + INTERVAL.total_seconds()
            gauges = {family.name: family.samples for family in bot.collector().collect()}
            (sample,) = gauges["freight_exchange_bot_cover_age_seconds"]
            assert sample.value == feed.cover_age.total_seconds()
        assert looks > 50
    stopped = bot.status()
    await anyio.sleep(600)
    assert bot.status() == stopped


async def test_a_stop_is_heard_while_a_login_is_waited_out(sandbox: Sandbox) -> None:
    bot = offering_bot(MemoryStore())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        strike(sandbox, "login_message_401", path="login", times=None)
        sandbox.exchange.expire_tokens()
        await anyio.sleep(3600)
        assert state(trial) == "login-rejected"
        began = anyio.current_time()
    assert anyio.current_time() - began < 1
    assert state(trial) == "stopped"


async def test_handlers_that_hang_make_nothing_look_dead(sandbox: Sandbox) -> None:
    # Live is that the service is heard, and not that handlers are quick: those have their own bound.
    bot = new_bot(MemoryStore(), concurrency=1, drain=timedelta(0))

    @bot.on_new(timeout=3600)
    async def hang(request: Any, ctx: Any) -> None:
        await anyio.sleep_forever()

    sandbox.publish()
    async with sandbox.running(bot) as trial:
        for _ in range(20):
            await anyio.sleep(60)
            assert port(trial, "/livez") == 200 or state(trial) == "starting"
        assert trial.status.in_flight == 1


async def test_tokens_that_end_every_five_seconds_change_nothing() -> None:
    sandbox = Sandbox(Profile(token_lifetime=5))
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        index = sandbox.publish()
        await trial.idle()
        for _ in range(30):
            await anyio.sleep(13)
            assert port(trial, "/livez") == 200
    assert len(amounts_on(sandbox, index)) == 1


async def test_a_restart_after_days_is_live_while_it_catches_up(sandbox: Sandbox) -> None:
    store = MemoryStore()
    async with sandbox.running(offering_bot(store)) as trial:
        await trial.idle()
    await anyio.sleep(2 * DAY.total_seconds())
    async with sandbox.running(offering_bot(store)) as trial:
        await anyio.sleep(0.01)
        assert port(trial, "/livez") == 200
        await trial.idle()
        assert port(trial, "/readyz") == 200


async def test_a_restart_after_days_under_an_outage_turns_bad(sandbox: Sandbox) -> None:
    store = MemoryStore()
    async with sandbox.running(offering_bot(store)) as trial:
        await trial.idle()
    await anyio.sleep(2 * DAY.total_seconds())
    sandbox.strike(*FAULTS["stall"](times=None))
    async with sandbox.running(offering_bot(store)) as trial:
        await anyio.sleep(1)
        assert port(trial, "/livez") == 200
        await turns_bad(trial)
        sandbox.exchange.faults.clear()
        await recovers(trial)


async def test_a_bot_that_stands_by_is_live_and_not_ready(sandbox: Sandbox) -> None:
    """A supervisor must not end it for hearing nothing: it is not its turn yet."""
    store, index = Shared(), sandbox.publish()
    async with sandbox.running(offering_bot(store, standby=True)) as trial:
        await eventually(lambda: state(trial) == "standby", within=timedelta(seconds=1))
        for _ in range(60):
            await anyio.sleep(60)
            assert (port(trial, "/livez"), port(trial, "/readyz"), state(trial)) == (200, 503, "standby")
            assert (trial.status.age < timedelta(seconds=1), trial.status.feed) == (True, None)
        store.is_held = False
        await trial.idle()
        assert (port(trial, "/readyz"), state(trial)) == (200, "running")
    assert len(amounts_on(sandbox, index)) == 1


@pytest.mark.parametrize("fault", ["stall", "unavailable_forever"])
async def test_a_bot_that_has_stood_by_turns_bad_three_intervals_after_its_turn_has_come(
    sandbox: Sandbox, fault: str
) -> None:
    store = Shared()
    sandbox.strike(*FAULTS[fault](times=None))
    async with sandbox.running(offering_bot(store, standby=True)) as trial:
        await anyio.sleep(3600)
        store.is_held = False
        await anyio.sleep(THREE - 5)
        assert (port(trial, "/livez"), state(trial)) == (200, "starting")
        await turns_bad(trial)
        await anyio.sleep(600)
        assert port(trial, "/livez") == 503
        sandbox.exchange.faults.clear()
        await recovers(trial)


async def test_a_bot_that_could_stand_by_and_need_not_never_says_so(sandbox: Sandbox) -> None:
    seen: set[str] = set()
    sandbox.strike(*FAULTS["unavailable_forever"](times=None))
    async with sandbox.running(offering_bot(MemoryStore(), standby=True)) as trial:
        for _ in range(int(THREE) + 20):
            seen.add(state(trial))
            await anyio.sleep(1)
        assert (seen, port(trial, "/livez")) == ({"starting"}, 503)


async def test_nor_while_its_store_takes_its_time_to_open(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    take = Lease.take

    async def slowly(hold: Lease, *which: Any, **how: Any) -> None:
        await anyio.sleep(20)
        await take(hold, *which, **how)

    monkeypatch.setattr(Lease, "take", slowly)
    async with sandbox.running(offering_bot(MemoryStore(), standby=True)) as trial:
        for _ in range(19):
            await anyio.sleep(1)
            seen.add(state(trial))
        assert seen == {"starting"}
        assert trial.status.age > timedelta(seconds=15)
        await trial.idle()


async def test_a_stop_is_heard_while_a_bot_stands_by(sandbox: Sandbox) -> None:
    async with sandbox.running(offering_bot(Shared(), standby=True)) as trial:
        await anyio.sleep(3600)
        began = anyio.current_time()
    assert anyio.current_time() - began < 1
    assert (state(trial), trial.status.live) == ("stopped", False)


async def test_a_login_that_is_rejected_later_is_no_time_to_stand_by(sandbox: Sandbox) -> None:
    """The bot takes its store anew each time that it tries again."""
    async with sandbox.running(offering_bot(MemoryStore(), standby=True)) as trial:
        await trial.idle()
        strike(sandbox, "login_message_401", path="login", times=None)
        sandbox.exchange.expire_tokens()
        await turns_bad(trial, sooner=True)
        await anyio.sleep(THREE)
        for _ in range(36_000):
            await anyio.sleep(0.1)
            assert (trial.status.live, state(trial) == "standby") == (False, False)


async def test_a_lifespan_that_takes_its_time_is_a_start_and_not_an_end(sandbox: Sandbox) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        await anyio.sleep(20)
        yield

    bot = offering_bot(MemoryStore(), lifespan=lifespan)
    for _ in range(2):
        async with sandbox.running(bot) as trial:
            await anyio.sleep(10)
            assert state(trial) == "starting"
            assert (port(trial, "/livez"), port(trial, "/readyz")) == (200, 503)
            await trial.idle()
            assert port(trial, "/readyz") == 200
        assert state(trial) == "stopped"
        assert port(trial, "/livez") == 503


async def test_a_lifespan_that_hangs_turns_bad(sandbox: Sandbox) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        await anyio.sleep(600)
        yield

    async with sandbox.running(offering_bot(MemoryStore(), lifespan=lifespan)) as trial:
        await anyio.sleep(1)
        await turns_bad(trial)
        assert state(trial) == "starting"
