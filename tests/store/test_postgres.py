"""A store on PostgreSQL: passwords that no message shows, lost, stalled and frozen connections, and lost rights."""

from __future__ import annotations

import socket
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import anyio
import psycopg
import pytest
from tests.store.support import BINDING, read, write
from tests.support.postgres import PostgresServer

from freight_exchange import Feed, FreightExchange, RequestEvent
from freight_exchange.errors import ConfigurationError, FreightExchangeError, StoreAwayError, StoreError
from freight_exchange.feed.feed import WatchOptions
from freight_exchange.feed.sources import Requests
from freight_exchange.store import Store, fleet
from freight_exchange.store.database import Database
from freight_exchange.store.errors import ConflictError, StoreRefusedError
from freight_exchange.testing import FAULTS, Sandbox

_PASSWORD = "s3cret-Pa55"


@contextmanager
def session(address: str) -> Iterator[psycopg.Connection[object]]:
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


class _Proxy:
    """Proxy before a server, which can stop passing bytes on, in both directions."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.passes = threading.Event()
        self.passes.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.passes.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
                other = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            for source, sink in ((one, other), (other, one)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                self.passes.wait()
                sink.sendall(data)
        except OSError:
            pass
        source.close()
        sink.close()


class TestMasking:
    @pytest.mark.parametrize(
        "address",
        [
            f"postgresql://bots:{_PASSWORD}@127.0.0.1:1/freight",
            f"postgresql://bots:{_PASSWORD}@no-host.invalid/freight",
            f"postgresql://bots:{_PASSWORD}@127.0.0.1:port/freight",
            f"postgresql://bots:{_PASSWORD}@127.0.0.1:1/freight?sslmode=wrong",
            f"postgresql://bots:{_PASSWORD}@127.0.0.1:1/freight?nothing=1",
            f"postgresql://bots:{_PASSWORD}/@127.0.0.1:1/freight",
            f"postgresql://bots:{_PASSWORD}#@127.0.0.1:1/freight",
            f"postgresql://bots%3A{_PASSWORD}@127.0.0.1:1/freight",
            f"postgresql://bots:{_PASSWORD}@@127.0.0.1/freight",
            f"postgresql://127.0.0.1:1/freight?password={_PASSWORD}",
            f"postgres//bots:{_PASSWORD}@127.0.0.1/freight",
            f"mysql://bots:{_PASSWORD}@127.0.0.1/freight",
            f"bots:{_PASSWORD}@127.0.0.1/freight",
            f"host=127.0.0.1 port=1 user=bots password={_PASSWORD} dbname=freight",
            f"host=127.0.0.1;port=1;user=bots;password={_PASSWORD}",
            f"Host=127.0.0.1;Username=bots;Password={_PASSWORD}",
            f"host=127.0.0.1 password='{_PASSWORD}",
            f" postgresql://bots:{_PASSWORD}@127.0.0.1:1/freight",
        ],
    )
    async def test_no_message_shows_the_password(self, address: str) -> None:
        with pytest.raises(FreightExchangeError) as caught:
            async with Store(address):
                pass
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        error: BaseException | None = caught.value
        while error is not None:
            shown += repr(error.args)
            error = error.__context__ or error.__cause__
        assert _PASSWORD not in shown

    async def test_a_refused_login_shows_neither_the_password_nor_the_librarys_error(
        self, server: PostgresServer
    ) -> None:
        address = server.url("none").replace("postgres@", f"postgres:{_PASSWORD}@")
        store = Store(address)
        with pytest.raises(StoreRefusedError, match="does not exist; correct its address") as caught:
            async with store:
                pass
        assert caught.value.__context__ is None
        assert _PASSWORD not in f"{store!r} {store.place} {caught.value}"
        assert store.place == f"the database postgresql://postgres@127.0.0.1:{server.port}/none"

    async def test_what_a_statement_reports_is_masked(self, address: str) -> None:
        async with Store(address.replace("postgres@", f"postgres:{_PASSWORD}@")) as store:
            with pytest.raises(StoreError) as caught:
                await store.run(lambda db: db.run(f"SELECT '{_PASSWORD}'::integer"))
            assert _PASSWORD not in str(caught.value)


class TestLoss:
    async def test_a_connection_that_was_cut_while_idle_is_made_again(self, address: str) -> None:
        async with Store(address) as store:
            await store.join(BINDING)
            with session(address) as other:
                other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name <> ''")
            await store.run(fleet.beat, store.me)

    async def test_a_loss_in_a_transaction_is_reported_and_the_next_call_works(self, address: str) -> None:
        async with Store(address) as store:
            await store.join(BINDING)

            def lose(db: Database) -> None:
                db.run("UPDATE feed SET state = 'x'")
                with session(address) as other:
                    other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name <> ''")
                db.run("UPDATE feed SET state = 'y'")

            with pytest.raises(StoreAwayError, match="is away"):
                await store.run(lose)
            assert await read(store, "SELECT DISTINCT state FROM feed") == [(None,)]

    async def test_no_server_is_reported_as_away(self) -> None:
        with pytest.raises(StoreAwayError, match=r"cannot be reached: .*; check that the server runs"):
            async with Store("postgresql://postgres@127.0.0.1:1/none"):
                pass

    async def test_a_stalled_connection_is_given_up(self, server: PostgresServer, address: str) -> None:
        with closing(_Proxy(server.port)) as proxy:
            async with Store(address.replace(str(server.port), str(proxy.port))) as store:
                await store.join(BINDING)
                proxy.passes.clear()
                with anyio.fail_after(60), pytest.raises(StoreAwayError, match="no reply for 10 s"):
                    await store.run(fleet.beat, store.me)
                proxy.passes.set()
                await store.run(fleet.beat, store.me)

    async def test_a_frozen_replica_keeps_its_locks_for_seconds_and_then_writes_nothing(self, address: str) -> None:
        async with Store(address) as frozen, Store(address) as other:
            feed = (await frozen.join(BINDING)).feeds["requests"]
            await other.join(BINDING)
            held, thaw = threading.Event(), threading.Event()

            def freeze(db: Database) -> None:
                db.run("UPDATE feed SET state = 'frozen' WHERE id = :feed", feed=feed)
                held.set()
                thaw.wait()
                db.run("UPDATE feed SET epoch = 9 WHERE id = :feed", feed=feed)

            async def expect_loss() -> None:
                with pytest.raises(StoreAwayError):
                    await frozen.run(freeze)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(expect_loss)
                await anyio.to_thread.run_sync(held.wait)
                assert await other.run(fleet.take_feed, other.me, feed) == 1
                thaw.set()
            assert await read(other, "SELECT state, epoch FROM feed WHERE id = :feed", feed=feed) == [(None, 1)]

    async def test_a_deadlock_runs_the_function_again(self, address: str) -> None:
        async with Store(address) as one, Store(address) as other:
            await one.join(BINDING)
            barrier = threading.Barrier(2)
            runs = []

            def cross(db: Database, names: tuple[str, str]) -> None:
                runs.append(names)
                for name in names:
                    db.run("UPDATE feed SET epoch = epoch + 1 WHERE name = :name", name=name)
                    if len(runs) <= 2 and name == names[0]:
                        barrier.wait(10)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.run, cross, ("requests", "offers"))
                tasks.start_soon(other.run, cross, ("offers", "requests"))
            assert await read(one, "SELECT name, epoch FROM feed WHERE epoch > 0 ORDER BY name") == [
                ("offers", 2), ("requests", 2),
            ]  # fmt: skip
            assert len(runs) > 2

    async def test_a_lock_that_is_held_for_long_is_a_conflict(self, address: str) -> None:
        async with Store(address) as store:
            await store.join(BINDING)
            with pytest.raises(ConflictError, match="is held up by locks of other"):
                await store.run(_lock_elsewhere, address)


def _lock_elsewhere(db: Database, address: str) -> None:
    db.run("SET LOCAL lock_timeout = 1")
    with psycopg.connect(address) as other:
        other.execute("UPDATE freight_exchange.feed SET epoch = 1")
        db.run("UPDATE feed SET epoch = 2")


class TestDatabase:
    async def test_an_empty_database_has_no_store_for_administration(self, address: str) -> None:
        with pytest.raises(StoreError, match="has no store of this version yet: a bot, or a watch"):
            async with Store(address, beside=True):
                pass

    async def test_tables_of_others_are_refused_and_other_schemas_left_alone(self, address: str) -> None:
        with session(address) as other:
            other.execute("CREATE TABLE IF NOT EXISTS feed (a integer)")
        async with Store(address) as store:
            await store.join(BINDING)
        with session(address) as other:
            other.execute("UPDATE freight_exchange.meta SET value = '99'")
            with pytest.raises(StoreError, match=r"a newer version of this package .schema 99"):
                async with Store(address):
                    pass
            other.execute("DROP TABLE freight_exchange.meta")
            with pytest.raises(StoreError, match="is no store of this version"):
                async with Store(address):
                    pass

    async def test_two_first_replicas_make_the_tables_once(self, address: str) -> None:
        async def join() -> None:
            async with Store(address) as store:
                await store.join(BINDING)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(join)

    @pytest.mark.parametrize(
        ("statements", "kind", "message"),
        [
            (["ALTER DATABASE {name} SET default_transaction_read_only = on"], StoreAwayError, "is read-only"),
            (["DROP SCHEMA freight_exchange CASCADE"], StoreAwayError, "lacks its tables"),
            (["REVOKE ALL ON ALL TABLES IN SCHEMA freight_exchange FROM bots"], StoreRefusedError, "grant this user"),
            (
                ["ALTER TABLE freight_exchange.replica ENABLE ROW LEVEL SECURITY"],
                StoreRefusedError,
                "row-level security",
            ),
        ],
        ids=["read-only", "tables", "rights", "policy"],
    )
    async def test_what_a_running_bot_may_lose(
        self, own_address: str, statements: list[str], kind: type[StoreError], message: str
    ) -> None:
        address = own_address
        name = address.rpartition("/")[2]
        with session(address) as other:
            async with Store(address):
                pass
            exists = other.execute("SELECT 1 FROM pg_roles WHERE rolname = 'bots'").fetchone()
            other.execute("SELECT 1" if exists else "CREATE ROLE bots LOGIN")
            other.execute("GRANT USAGE ON SCHEMA freight_exchange TO bots")
            other.execute("GRANT ALL ON ALL TABLES IN SCHEMA freight_exchange TO bots")
            other.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA freight_exchange TO bots")
            async with Store(address.replace("postgres@", "bots@")) as store:
                await store.join(BINDING)
                for statement in statements:
                    other.execute(statement.format(name=name))
                if kind is StoreAwayError and "read-only" in message:
                    other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bots'")
                with pytest.raises(kind, match=message):
                    await store.run(fleet.beat, store.me)

    async def test_commits_are_synchronous_with_any_setting_of_the_role(self, own_address: str) -> None:
        address = own_address
        name = address.rpartition("/")[2]
        with session(address) as other:
            for setting in (
                "synchronous_commit = off",
                "default_transaction_isolation = serializable",
                "search_path = x",
            ):
                other.execute(f"ALTER DATABASE {name} SET {setting}")
        async with Store(address) as store:
            await store.join(BINDING)
            assert await read(store, "SHOW synchronous_commit") == [("on",)]
            assert await read(store, "SHOW transaction_isolation") == [("read committed",)]

    async def test_a_swallowed_error_of_a_statement_is_no_commit(self, address: str) -> None:
        async with Store(address) as store:
            await store.join(BINDING)

            def swallow(db: Database) -> None:
                db.run("UPDATE feed SET state = 'x'")
                with pytest.raises(psycopg.Error):
                    db.run("SELECT 1 / 0")

            with pytest.raises(StoreError, match="rolled a transaction back"):
                await store.run(swallow)
            assert await write(store, "UPDATE feed SET state = 'y' WHERE state = 'x'") == 0

    @pytest.mark.parametrize("address", ["postgresql://h/a b=c", "postgresql://h:x/d", "host=h;port=1", "//u:p@h/d"])
    def test_an_address_that_cannot_be_read_is_refused_at_once(self, address: str) -> None:
        with pytest.raises(ConfigurationError, match="cannot be read: write postgresql://USER@HOST:PORT/DATABASE"):
            Store(address)


async def test_a_feed_keeps_its_lease_through_an_outage_of_the_service(address: str) -> None:
    sandbox = Sandbox()
    second = timedelta(seconds=1)

    def feed(exchange: FreightExchange, *, standby: bool = False) -> Feed:
        service, client = exchange._feed_parts()
        options = WatchOptions(store=address, interval=second, lease=1.5, standby=standby)
        return Feed(Requests(service), client, options)

    async with sandbox.client() as exchange, feed(exchange) as first, anyio.create_task_group() as tasks:
        waiting = feed(exchange, standby=True)
        tasks.start_soon(waiting.__aenter__)
        sandbox.strike(*FAULTS["unavailable"](times=None))
        with anyio.move_on_after(5.0):
            await anext(first)
        async with Store(address, beside=True) as store:
            assert await read(store, "SELECT count(*) FROM replica") == [(2,)]
        sandbox.exchange.faults.clear()
        index = sandbox.publish()
        with anyio.fail_after(30.0):
            event = await anext(first)
        assert isinstance(event, RequestEvent)
        assert event.request.index == index
        tasks.cancel_scope.cancel()
