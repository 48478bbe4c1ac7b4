"""Tests of the login that processes share: who logs in, and which tokens are adopted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from tests.unit.transport.fleet import ADA, EMAIL, HOUR, Process, Service, all_of, kept, put
from tests.unit.transport.tokens import crowd

from freight_exchange.errors import LoginRejectedError, TransportError
from freight_exchange.platform import clock
from freight_exchange.transport.auth.token_store import TokenFile
from freight_exchange.transport.message import Request, Response


@pytest.mark.virtual_time
@pytest.mark.usefixtures("calendar")
class TestOneForAll:
    async def test_eight_processes_make_one_login(self, store: TokenFile) -> None:
        service = Service()
        fleet = [Process(service, store) for _ in range(8)]
        assert await all_of(fleet) == {200}
        assert service.logins == 1
        assert Counter(len(process.adopted) for process in fleet) == {1: 7, 0: 1}
        assert {found for process in fleet for found in process.adopted} == {("t1", ADA)}
        assert sorted(len(process.reasons) for process in fleet) == [0] * 7 + [1]

    async def test_so_does_the_next_run(self, store: TokenFile) -> None:
        service = Service()
        await Process(service, store).call()
        await anyio.sleep(HOUR / 2)
        late = Process(service, store)
        assert await late.call() == 200
        assert service.logins == 1
        assert late.adopted == [("t1", ADA)]

    async def test_adopted_token_keeps_its_age(self, store: TokenFile) -> None:
        service = Service()
        await Process(service, store).call()
        await anyio.sleep(HOUR / 2)
        late = Process(service, store)
        await late.call()
        await anyio.sleep(HOUR / 2)
        await late.call()
        assert late.sent == ["t1", "t2"]

    @pytest.mark.parametrize("lifetime", [None, 0.0, -5.0])
    async def test_token_without_lifetime_is_shared_until_refused(
        self, lifetime: float | None, store: TokenFile
    ) -> None:
        service = Service(lifetime=lifetime)
        fleet = [Process(service, store) for _ in range(3)]
        assert await all_of(fleet) == {200}
        await anyio.sleep(400 * 24 * HOUR)
        assert await all_of([*fleet, Process(service, store)]) == {200}
        assert service.logins == 1
        service.revoke()
        assert await all_of(fleet) == {200}
        assert service.logins == 2

    async def test_a_day_of_eight_takes_the_logins_of_one(self, store: TokenFile) -> None:
        service = Service()
        fleet = [Process(service, store) for _ in range(8)]
        for _ in range(24 * 15):
            assert await all_of(fleet) == {200}
            await anyio.sleep(240)
        # One for each fifty-five minutes or so.
        assert 24 <= service.logins <= 27
        assert service.most_at_once == 1

    async def test_refused_token_is_replaced_although_a_login_returns_the_same(self, store: TokenFile) -> None:
        service = Service()
        service.same_token = True
        fleet = [Process(service, store) for _ in range(8)]
        for _ in range(6 * 15):
            assert await all_of(fleet) == {200}
            await anyio.sleep(240)
        assert 6 <= service.logins <= 8

    async def test_a_wave_of_refusals_makes_one_more(self, store: TokenFile) -> None:
        service = Service()
        fleet = [Process(service, store) for _ in range(8)]
        await all_of(fleet)
        service.revoke()
        assert await all_of(fleet) == {200}
        assert service.logins == 2
        assert {process.sent[-1] for process in fleet} == {"t2"}

    async def test_a_slow_login_is_waited_for(self, store: TokenFile) -> None:
        service = Service()
        service.takes = 20.0
        assert await all_of([Process(service, store) for _ in range(8)]) == {200}
        assert service.logins == 1

    async def test_a_login_that_fails_gives_the_next_one_its_turn(self, store: TokenFile) -> None:
        service = Service()
        service.failure = TransportError("down")
        fleet = [Process(service, store) for _ in range(3)]
        assert await all_of(fleet) == {TransportError}
        assert service.most_at_once == 1
        service.failure = None
        assert await all_of(fleet) == {200}
        assert service.logins == 4

    async def test_rejected_credentials_are_each_processs_own(self, store: TokenFile) -> None:
        service = Service()
        service.failure = LoginRejectedError("wrong", status=200)
        process = Process(service, store)
        assert await all_of([process]) == {LoginRejectedError}
        assert await all_of([process]) == {LoginRejectedError}
        assert service.logins == 1

    async def test_two_accounts_in_the_users_folder_do_not_meet(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("freight_exchange.transport.auth.token_store.state_folder", lambda: tmp_path)
        service, store = Service(), TokenFile(inline=True)
        fleet = [Process(service, store, account=account) for account in (EMAIL, "you@co.example") for _ in range(2)]
        assert await all_of(fleet) == {200}
        assert service.logins == 2
        assert caplog.records == []

    async def test_two_accounts_in_one_file_are_warned_and_served(
        self, store: TokenFile, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = Service()
        for account in (EMAIL, "you@co.example", EMAIL):
            process = Process(service, store, account=account)
            assert await process.call() == 200
            assert process.adopted == []
        assert service.logins == 3
        assert {record.getMessage().partition(" is not used: ")[2] for record in caplog.records} == {
            "it holds the login of another account or service: give each a file of its own"
        }


@pytest.mark.virtual_time
@pytest.mark.usefixtures("calendar")
class TestWhatIsNotTaken:
    async def test_refused_token_is_not_adopted_again(self, store: TokenFile, path: Path) -> None:
        service = Service()
        service.logins = 1
        service.revoke()
        put(path, kept("t1"))
        process = Process(service, store)
        assert await process.call() == 200
        assert process.sent == ["t1", "t2"]
        # The refused token is written back; this time the age of the token causes the login.
        await anyio.sleep(HOUR)
        put(path, kept("t1"))
        assert await process.call() == 200
        assert process.sent == ["t1", "t2", "t3"]
        assert len(process.adopted) == 1

    async def test_refusal_of_an_adopted_token_causes_a_login(self, store: TokenFile, path: Path) -> None:
        service = Service()
        process = Process(service, store)
        await process.call()
        service.logins = 2
        put(path, kept("t2"))
        service.revoke()
        assert await crowd(process.call, 100) == [200] * 100
        assert service.logins == 3
        assert Counter(process.sent) == {"t1": 101, "t2": 100, "t3": 100}

    async def test_refusals_forever_are_no_storm(self, store: TokenFile) -> None:
        service = Service()
        fleet = [Process(service, store) for _ in range(8)]
        await all_of(fleet)
        service.refuses_all = True
        began = anyio.current_time()
        while anyio.current_time() < began + 300:
            assert await all_of(fleet) == {401}
            await anyio.sleep(5)
        # As many as without a file: one in thirty seconds for each process.
        assert service.logins <= 8 * 11
        for process in fleet:
            assert process.sent
        service.refuses_all = False
        await anyio.sleep(31)
        assert await all_of(fleet) == {200}

    async def test_a_call_is_replayed_twice_at_most(
        self, store: TokenFile, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A second replay follows only if the first one used the token of another process."""
        service = Service()
        service.refuses_all = True
        process = Process(service, store)
        put(path, kept("theirs"))
        assert await process.call() == 401
        assert process.sent == ["theirs", "t1"]
        await anyio.sleep(31)
        # Whenever one is refused, somebody has another.
        send = service.send

        async def refuse(request: Request) -> Response:
            put(path, kept(f"theirs{len(process.sent)}"))
            return await send(request)

        monkeypatch.setattr(service, "send", refuse)
        process.sent.clear()
        assert await process.call() == 401
        assert process.sent == ["t1", "theirs1", "theirs2"]

    async def test_a_token_of_its_own_is_not_replayed_again_though_it_was_long_in_coming(
        self, store: TokenFile
    ) -> None:
        service = Service()
        service.refuses_all = True
        service.takes = 31.0
        process = Process(service, store)
        assert await process.call() == 401
        assert process.sent == ["t1", "t2"]
        assert service.logins == 2

    async def test_refused_write_with_an_adopted_token_is_not_replayed(self, store: TokenFile, path: Path) -> None:
        service = Service()
        service.logins = 1
        service.revoke()
        put(path, kept("t1"))
        process = Process(service, store)
        assert await process.call(replayable=False) == 401
        await anyio.sleep(5)
        assert await process.call(replayable=False) == 200
        assert process.sent == ["t1", "t2"]

    @pytest.mark.parametrize(("age", "lifetime"), [(HOUR, HOUR), (HOUR - 299, HOUR), (9.5, 10.0), (-400, HOUR)])
    async def test_token_that_is_due_is_not_adopted(
        self, age: float, lifetime: float, store: TokenFile, path: Path
    ) -> None:
        put(path, kept("old", age=age, lifetime=lifetime))
        process = Process(Service(), store)
        assert await process.call() == 200
        assert process.sent == ["t1"]

    @pytest.mark.parametrize(("age", "lifetime"), [(HOUR - 310, HOUR), (-200, HOUR), (1e7, None)])
    async def test_token_that_is_not_due_is_adopted(
        self, age: float, lifetime: float | None, store: TokenFile, path: Path
    ) -> None:
        put(path, kept("old", age=age, lifetime=lifetime))
        process = Process(Service(), store)
        assert await process.call() == 200
        assert process.sent == ["old"]

    async def test_own_token_is_not_adopted_after_the_wall_clock_was_set_back(
        self, store: TokenFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a boot id of the machine, the file would look fresh forever."""
        monkeypatch.setattr("freight_exchange.platform.clock.boot_id", lambda: "")
        service = Service()
        process = Process(service, store)
        await process.call()
        monkeypatch.setattr(clock, "wall_time", lambda: 1.9e9)
        await anyio.sleep(HOUR)
        assert await process.call() == 200
        assert process.sent == ["t1", "t2"]

    async def test_after_a_clock_that_jumps_nothing_is_taken_that_has_expired(
        self, store: TokenFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = Service()
        fleet = [Process(service, store) for _ in range(3)]
        await all_of(fleet)
        # The machine slept: the loop's clock stood still, and so may the calendar.
        monkeypatch.setattr(clock, "boot_time", lambda: 1e5 + 8 * HOUR + anyio.current_time())
        assert await all_of(fleet) == {200}
        assert service.logins == 2
        assert {process.sent[-1] for process in fleet} == {"t2"}
