"""Tests of what operators see of a bot: its metrics and its probes."""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import timedelta
from functools import partial

import anyio
import pytest
from tests.bot.rig import INTERVAL, new_bot, offers

from freight_exchange import Bot, ConfigurationError
from freight_exchange.testing import Sandbox

prometheus = pytest.importorskip("prometheus_client")
PREFIX = "freight_exchange_bot_"


def response_of(bot: Bot, path: str) -> tuple[int, str]:
    address = bot.status().address
    assert address is not None
    try:
        with urllib.request.urlopen(f"http://{address[0]}:{address[1]}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.virtual_time
async def test_metrics_count_what_the_bot_does() -> None:
    sandbox, bots = Sandbox(), [new_bot(None, name=name) for name in ("tea", "silk")]
    for bot in bots:
        bot.on_new(id="quote")(offers())
        bot.on_updated(id="again", retries=0)(failing)
    registry = prometheus.CollectorRegistry()
    registry.register(bots[0].collector(bots[1]))
    async with sandbox.running(bots[0]) as trial:
        index = sandbox.publish()
        await trial.idle()
        sandbox.update(index, quantity=30)
        await anyio.sleep(2 * INTERVAL)
        await trial.idle()
        value = partial(registry.get_sample_value, labels={"bot": "tea"})
        assert (value(f"{PREFIX}up"), value(f"{PREFIX}live"), value(f"{PREFIX}offers_in_doubt")) == (1, 1, 0)

        def count(name: str, bot: str = "tea", **labels: str) -> float | None:
            found: float | None = registry.get_sample_value(PREFIX + name, {"bot": bot, **labels})
            return found

        assert count("offers_total", outcome="confirmed") == 1
        assert count("offers_total", outcome="not taken") == 0
        assert count("deliveries_total", handler="quote", ending="done") == 1
        assert count("deliveries_total", handler="again", ending="dead") == 1
        assert count("handler_duration_seconds_count", handler="quote") == 1
        assert count("event_latency_seconds_count", handler="quote") == 1
        # A series that first appears as 1 has not grown, and would raise no alert.
        assert count("deliveries_total", bot="silk", handler="again", ending="dead") == 0
        assert count("up", bot="silk") == 0
    with pytest.raises(ConfigurationError, match="two bots are named 'tea'"):
        bots[0].collector(new_bot(None, name="tea"))


async def failing(request: object, ctx: object) -> None:
    raise ValueError("no tariff")


@pytest.mark.anyio
async def test_probes_and_metrics_of_the_port() -> None:
    bot = Bot(store=None, interval=timedelta(seconds=1), port=0)
    bot.on_new(id="quote")(offers())
    async with Sandbox().running(bot) as trial:
        await trial.idle()
        for path, code, text in [
            ("/livez", 200, "running, watermark "), ("/readyz", 200, "running, "), ("/", 404, "there are /livez"),
            ("/metrics", 200, f"{PREFIX}up 1.0"),
        ]:  # fmt: skip
            found = await anyio.to_thread.run_sync(response_of, bot, path)
            assert (found[0], text in found[1]) == (code, True), found
    assert bot.status().address is None
