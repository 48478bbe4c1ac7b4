"""Tests of the operator's port of a bot, and of a bot in standby."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute
from prometheus_client.parser import text_string_to_metric_families
from tests.old.ops.replies import GET, HOST, port, read, reply_to
from tests.old.rig import Shared

from freight_exchange import Bot, ConfigurationError
from freight_exchange.bot.ops.probes import open_listener
from freight_exchange.testing import Sandbox


async def does_nothing(request: Any, ctx: Any) -> None:
    pass


class TestOperatorPort:
    async def test_has_address_and_answers(self) -> None:
        sandbox = Sandbox()
        sandbox.publish()
        bot = Bot(store=None, start="backfill", port=0)
        handled = anyio.Event()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            handled.set()

        assert bot.status().address is None
        async with sandbox.running(bot) as trial:
            await trial.idle()
            await handled.wait()
            assert trial.status.address is not None
            host, number = trial.status.address
            assert host == HOST
            assert read(await reply_to(number, GET)).body.startswith("running, watermark ")
            assert read(await reply_to(number, b"GET /readyz HTTP/1.1\r\n\r\n")).code == 200
            page = read(await reply_to(number, b"GET /metrics HTTP/1.1\r\n\r\n")).body
            samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
            assert ("freight_exchange_bot_events_total", {"kind": "new"}, 1.0) in [sample[:3] for sample in samples]
        assert bot.status().address is None
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp(HOST, number)

    async def test_is_closed_after_failed_start(self) -> None:
        listener, (_, number) = await open_listener(HOST, 0)
        await listener.aclose()

        def lifespan() -> Any:
            raise LookupError("no database")

        bot = Bot(store=None, port=number, lifespan=lifespan)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None: ...

        for _ in range(2):
            with pytest.raises(LookupError, match="no database"):
                await bot.serve(exchange=Sandbox().client())
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp(HOST, number)

    async def test_taken_port_fails_at_startup(self) -> None:
        sandbox = Sandbox()
        async with port() as number:
            bot = Bot(store=None, port=number)
            bot.on_new(id="quote")(does_nothing)
            with pytest.raises(ConfigurationError, match=f"cannot listen on .*port {number}"):
                await bot.serve(exchange=sandbox.client())
        assert not sandbox.audit_log.calls

    async def test_host_with_several_addresses_has_one_port(self) -> None:
        listener, (host, number) = await open_listener("localhost", 0)
        async with listener:
            ports = {one.extra(SocketAttribute.local_port) for one in listener.listeners}
            assert ports == {number}
            assert host == "localhost"


def standing_by(store: Shared, number: int) -> Bot:
    bot = Bot(
        store=store,
        start="backfill",
        interval=timedelta(seconds=1),
        drain=timedelta(0),
        port=number,
        standby=True,
    )
    bot.on_new(id="quote")(does_nothing)
    return bot


async def until(true: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await anyio.sleep(0.01)


class TestStandby:
    async def test_answers_on_own_port(self) -> None:
        store = Shared()
        async with Sandbox().running(standing_by(store, 0)) as trial:
            await until(lambda: trial.status.state == "standby" and trial.status.address)
            await anyio.sleep(2)
            _, number = trial.status.address or (HOST, 0)
            assert read(await reply_to(number, GET)).body.startswith("standby, ")
            assert read(await reply_to(number, GET)).code == 200
            assert read(await reply_to(number, b"GET /readyz HTTP/1.1\r\n\r\n")).code == 503
            store.is_held = False
            await trial.idle()
            assert read(await reply_to(number, b"GET /readyz HTTP/1.1\r\n\r\n")).code == 200

    async def test_waits_for_port_of_earlier_process(self, caplog: pytest.LogCaptureFixture) -> None:
        """The earlier process releases its store first, and its port later."""
        store, sandbox = Shared(), Sandbox()
        listener, (_, number) = await open_listener(HOST, 0)
        async with sandbox.running(standing_by(store, number)) as trial:
            await until(lambda: trial.status.state == "standby")
            await anyio.sleep(1)
            store.is_held = False
            await trial.idle()
            assert trial.status.address is None
            await listener.aclose()
            await until(lambda: trial.status.address)
            assert read(await reply_to(number, GET)).body.startswith("running, ")
        (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert line.startswith(f"cannot listen on the operator's port {number} of '127.0.0.1': ")
        assert line.endswith("; waiting for the port")

    @pytest.mark.parametrize("held", [True, False])
    async def test_port_of_other_program_raises(self, held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("freight_exchange.bot.runtime.operator_port.CLOSE_TIMEOUT", 1.0)
        store = Shared()
        store.is_held = held
        async with port() as number:
            bot = standing_by(store, number)
            async with anyio.create_task_group() as tasks:

                async def free() -> None:
                    await until(lambda: bot.status().state == "standby")
                    # The process that holds the store may also have the port, as long as it runs.
                    await anyio.sleep(2)
                    assert bot.status().state == "standby"
                    store.is_held = False

                if held:
                    tasks.start_soon(free)
                with pytest.raises(ConfigurationError, match=f"cannot listen on .*port {number}"):
                    await bot.serve(exchange=Sandbox().client())
        assert (store.is_held, bot.status().state) == (False, "stopped")

    @pytest.mark.parametrize("host", ["192.0.2.1", "b\u00fccher_x"])
    async def test_invalid_host_raises_at_once(self, host: str) -> None:
        bot = Bot(store=Shared(), port=0, host=host, standby=True)
        bot.on_new(id="quote")(does_nothing)
        with anyio.fail_after(60), pytest.raises(ConfigurationError, match="cannot listen on"):
            await bot.serve(exchange=Sandbox().client())
