"""Tests of a bot's metrics, parsed by Prometheus' own parser, from any registry and thread."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args, get_type_hints

import anyio
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest, make_asgi_app
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from tests.old.ops.statuses import FEED, STATES, STATUS

import freight_exchange.bot
from freight_exchange import Bot, BotStatus, ConfigurationError, Context, RateRequest, RetryLater
from freight_exchange.bot.delivery.retry_policy import Decision
from freight_exchange.bot.metrics.call_times import PATHS
from freight_exchange.bot.metrics.histogram import Histogram
from freight_exchange.bot.metrics.metrics import ENDINGS, OUTCOMES, Metrics
from freight_exchange.bot.ops.collector import BotCollector, Exposition
from freight_exchange.bot.ops.metrics_source import MetricsSource
from freight_exchange.testing import Sandbox
from freight_sandbox.service import OPERATIONS

PREFIX = "freight_exchange_bot_"
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def collector(metrics: Metrics, status: BotStatus = STATUS, *handlers: str) -> BotCollector:
    return BotCollector([MetricsSource("bot", lambda: status, metrics, lambda: handlers)])


def parse(text: str) -> Samples:
    """Return the samples of a page, by name without the prefix, and labels."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def scrape(metrics: Metrics, status: BotStatus = STATUS, *handlers: str) -> Samples:
    registry = CollectorRegistry()
    registry.register(collector(metrics, status, *handlers))
    return parse(generate_latest(registry).decode())


def plain(samples: Samples) -> dict[str, float]:
    """Return the samples without labels, by name."""
    return {name: value for (name, labels), value in samples.items() if not labels}


def labelled(samples: Samples, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a name, by the sorted values of their labels."""
    return {tuple(sorted(value for _, value in labels)): n for (key, labels), n in samples.items() if key == name}


async def quote(request: RateRequest, ctx: Context) -> None: ...


LABELS = st.text(max_size=12) | st.sampled_from(['"', "\\", "\n", "\\n", '}",x="', "} 5", "a,b", "Quoter.quote"])
COUNTS = st.integers(0, 2**53)


@given(
    st.builds(
        attrs.evolve,
        st.just(STATUS),
        state=st.sampled_from(STATES),
        live=st.booleans(),
        age=st.timedeltas(timedelta(0), timedelta(days=10**6)),
        feed=st.sampled_from([None, FEED]),
        in_flight=st.integers(0, 1000),
        waiting=st.integers(0, 10**6),
        in_doubt=COUNTS,
        parked=COUNTS,
        scans=st.booleans(),
    )
)
def test_gauges_are_those_of_the_status(status: BotStatus) -> None:
    gauges = plain(scrape(Metrics(), status))
    expected: dict[str, float] = {
        "up": status.state == "running",
        "live": status.live,
        "scans": status.scans,
        "in_flight": status.in_flight,
        "offers_in_doubt": status.in_doubt,
        "offers_parked": status.parked,
    }
    if status.scans:
        expected |= {
            "cover_age_seconds": status.age.total_seconds() if status.feed is None else 12.5,
            "waiting": status.waiting,
            "waited_seconds": 7.5,
        }
    if status.scans and status.feed is not None:
        expected |= {"unacknowledged": 7, "gaps": 1, "found_late_total": 3}
    assert gauges == expected


@given(
    st.dictionaries(LABELS, COUNTS, max_size=3),
    st.dictionaries(st.tuples(LABELS, LABELS), COUNTS, max_size=3),
    st.dictionaries(LABELS, COUNTS, max_size=3),
)
def test_counters_have_any_label(
    events: dict[str, int], deliveries: dict[tuple[str, str], int], offers: dict[str, int]
) -> None:
    counted = Counter(offers)
    metrics = Metrics(events=Counter(events), deliveries=Counter(deliveries), offers=counted, answers=counted)
    samples = {key: value for key, value in scrape(metrics).items() if key[1] and not key[0].endswith("_bucket")}
    expected = {("events_total", frozenset({("kind", kind)})): count for kind, count in events.items()}
    expected |= {
        ("deliveries_total", frozenset({("handler", handler), ("ending", ending)})): count
        for (handler, ending), count in deliveries.items()
    }
    expected |= {
        (name, frozenset({("outcome", outcome)})): offers.get(outcome, 0)
        for name in ("offers_total", "answers_total")
        for outcome in {*OUTCOMES, *offers}
    }
    assert samples == expected


def test_series_exist_before_they_count() -> None:
    # A series that first appears as 1 has not grown: an alert would miss the first dead letter.
    empty = scrape(Metrics(), STATUS, "quote", "log")
    assert [*ENDINGS] == [*get_args(get_type_hints(Decision)["ending"])]
    assert labelled(empty, "deliveries_total") == {
        tuple(sorted((handler, ending))): 0 for handler in ("quote", "log") for ending in ENDINGS
    }
    assert labelled(empty, "offers_total") == {(outcome,): 0 for outcome in OUTCOMES}
    for name in ("handler_duration_seconds_count", "event_latency_seconds_count"):
        assert labelled(empty, name) == {("quote",): 0, ("log",): 0}
    first = Metrics(deliveries=Counter({("quote", "dead"): 1}), offers=Counter({"not taken": 1}))
    grown = scrape(first, STATUS, "quote", "log")
    assert grown.keys() == empty.keys()
    assert sum(grown[key] != empty[key] for key in grown) == 2


def test_every_outcome_that_is_counted_is_known() -> None:
    package = Path(freight_exchange.bot.__file__).parent
    places = [
        re.findall(r"_metrics\.(?:offers|answers)\[(.*?)\] \+= 1", file.read_text()) for file in package.rglob("*.py")
    ]
    assert {word for place in places for one in place for word in re.findall(r'"(.*?)"', one)} == {*OUTCOMES}


def test_watermark_of_a_bot_that_was_down_is_old_though_it_is_live() -> None:
    days = attrs.evolve(STATUS, age=timedelta(seconds=5), feed=attrs.evolve(FEED, cover_age=timedelta(days=3)))
    begins = attrs.evolve(days, feed=attrs.evolve(FEED, cover_age=None))
    for status, seconds in ((days, 3 * 86400), (begins, 5)):
        gauges = plain(scrape(Metrics(), status))
        assert (gauges["cover_age_seconds"], gauges["live"]) == (seconds, 1)


@given(st.lists(st.floats(0, 1000), max_size=20))
def test_histogram_is_cumulative(durations: list[float]) -> None:
    histogram = Histogram((0.5, 1.0, 60.0))
    for duration in durations:
        histogram.observe(duration)
    bounds = (0.5, 1.0, 60.0, float("inf"))
    assert histogram.buckets() == [(bound, sum(one <= bound for one in durations)) for bound in bounds]
    assert histogram.total == pytest.approx(sum(durations))


def test_names_are_spelt_as_on_dashboards() -> None:
    metrics = Metrics(deliveries=Counter({('a"b\\c\nd', "done"): 3}))
    metrics.handler_times["quote",].observe(0.75)
    registry = CollectorRegistry()
    registry.register(collector(metrics))
    text = generate_latest(registry).decode()
    assert (
        "# HELP freight_exchange_bot_deliveries_total Ended attempts by handler and ending.\n"
        "# TYPE freight_exchange_bot_deliveries_total counter\n"
        'freight_exchange_bot_deliveries_total{ending="done",handler="a\\"b\\\\c\\nd"} 3.0\n'
    ) in text or 'deliveries_total{handler="a\\"b\\\\c\\nd",ending="done"} 3.0\n' in text
    assert "\nfreight_exchange_bot_cover_age_seconds 12.5\n" in text
    assert 'freight_exchange_bot_handler_duration_seconds_bucket{handler="quote",le="1.0"} 1.0\n' in text
    assert 'freight_exchange_bot_handler_duration_seconds_sum{handler="quote"} 0.75\n' in text


def test_page_of_the_port_has_the_process_too_in_either_format() -> None:
    page = Exposition(collector(Metrics()))
    content_type, text = page("")
    assert content_type.startswith("text/plain; version=")
    names = {name for name, _ in parse(text.decode())}
    assert {"up", "process_start_time_seconds", "python_info"} <= names
    content_type, text = page("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    families = parse_openmetrics(text.decode())  # type: ignore[no-untyped-call]  # the library's own
    assert f"{PREFIX}up" in {family.name for family in families}


def test_endings_are_counted_over_all_handlers() -> None:
    metrics = Metrics(deliveries=Counter({("quote", "done"): 3, ("log", "done"): 2, ("log", "dead"): 1}))
    assert [metrics.count_ended(ending) for ending in ("done", "dead", "failed")] == [5, 1, 0]


@pytest.mark.virtual_time
@pytest.mark.both_backends
async def test_durations_of_handlers_events_and_calls_are_observed() -> None:
    sandbox = Sandbox()
    sandbox.publish()
    bot = Bot(store=None, start="backfill")
    attempts: list[int] = []

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        attempts.append(ctx.attempt)
        await anyio.sleep(2)
        if len(attempts) == 1:
            raise RetryLater(600, "later")
        await ctx.offer(amount=1840, currency="USD")

    registry = CollectorRegistry()
    registry.register(bot.collector())
    async with sandbox.running(bot):
        await anyio.sleep(700)
        samples = parse(generate_latest(registry).decode())
    assert labelled(samples, "handler_duration_seconds_count") == {("quote",): 2}
    assert labelled(samples, "handler_duration_seconds_sum")["quote",] >= 4
    assert labelled(samples, "event_latency_seconds_count") == {("quote",): 1}
    assert labelled(samples, "event_latency_seconds_sum")["quote",] < 1
    calls = labelled(samples, "call_duration_seconds_count")
    assert calls["POST quote/getrequests", "ok"] > 10
    assert calls["POST quote/submitoffer", "ok"] == 1


async def test_calls_of_other_paths_are_one_series() -> None:
    sandbox = Sandbox()
    sandbox.publish()
    bot = Bot(store=None, start="backfill")

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        with pytest.raises(Exception, match="404"):
            await ctx.exchange.request("GET", f"quote/special/{request.index}")

    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert bot.status().dead == 0
    assert [key for key in bot._metrics.call_times.series() if "other" in key[0]] == [("GET other", "NotFoundError")]


async def test_collector_is_scraped_before_during_and_after_from_any_thread() -> None:
    sandbox = Sandbox()
    bot = Bot(store=None)

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None: ...

    registry = CollectorRegistry()
    registry.register(bot.collector())

    def up() -> float:
        return plain(parse(generate_latest(registry).decode()))["up"]

    assert (up(), await anyio.to_thread.run_sync(up)) == (0, 0)
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert (up(), await anyio.to_thread.run_sync(up)) == (1, 1)
    assert (up(), await anyio.to_thread.run_sync(up)) == (0, 0)


async def test_collector_is_mounted_in_an_asgi_application() -> None:
    fastapi = pytest.importorskip("fastapi")
    sandbox = Sandbox()
    bot = Bot(store=None)

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None: ...

    registry = CollectorRegistry()
    registry.register(bot.collector())
    app = fastapi.FastAPI()
    app.mount("/metrics", make_asgi_app(registry))
    scope = {"type": "http", "method": "GET", "path": "/metrics/", "headers": [], "query_string": b"", "root_path": ""}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async with sandbox.running(bot) as trial:
        await trial.idle()
        await app(scope, receive, send)
    assert plain(parse(sent[-1]["body"].decode()))["up"] == 1


@pytest.mark.parametrize("auto_describe", [False, True])
def test_second_collector_in_one_registry_is_refused(auto_describe: bool) -> None:
    registry = CollectorRegistry(auto_describe=auto_describe)
    registry.register(Bot(store=None).collector())
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(Bot(store=None).collector())


def test_bots_of_one_process_share_a_registry_by_the_label_bot() -> None:
    bots = [Bot(store=None, name=name) for name in ("sea", "air")]
    for bot in bots:
        bot.on_new(id=f"{bot._options.name}-quote")(quote)
    registry = CollectorRegistry(auto_describe=True)
    registry.register(bots[0].collector(bots[1]))
    page = generate_latest(registry).decode()
    samples = parse(page)
    assert page.count(f"# TYPE {PREFIX}up gauge") == 1
    assert {dict(labels)["bot"] for name, labels in samples if name == "up"} == {"sea", "air"}
    assert ("deliveries_total", frozenset({"bot": "air", "handler": "air-quote", "ending": "done"}.items())) in samples
    assert all("bot" in dict(labels) for _, labels in samples)


def test_two_bots_of_one_name_cannot_be_distinguished() -> None:
    with pytest.raises(ConfigurationError, match="two bots are named 'bot'"):
        Bot(store=None, name="bot").collector(Bot(store=None, name="bot"))


def test_without_the_extra_the_collector_names_it() -> None:
    code = """
import sys
sys.modules["prometheus_client"] = None
from freight_exchange import Bot, ConfigurationError
bot = Bot(store=None, port=0)
try:
    bot.collector()
except ConfigurationError as error:
    print(error)
from freight_exchange.bot.ops.exposition import make_exposition
print(make_exposition(bot.collector))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == 'metrics need the extra "metrics": pip install "freight-exchange[metrics]"\nNone\n'


def test_each_address_of_the_service_document_has_a_series_of_its_own() -> None:
    assert {path for _, path in OPERATIONS} | {"login"} == PATHS
