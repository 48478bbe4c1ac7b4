"""Prometheus collector of the metrics of bots; needs the extra `metrics`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from freight_exchange.bot.metrics.metrics import ENDINGS, OUTCOMES

if TYPE_CHECKING:
    from prometheus_client import Metric

    from freight_exchange.bot.metrics.histogram import Histogram
    from freight_exchange.bot.ops.metrics_source import MetricsSource
    from freight_exchange.bot.ops.status import BotStatus

__all__ = ["BotCollector", "Exposition"]

Labels = TypeVar("Labels", bound=tuple[str, ...])

_PREFIX = "freight_exchange_bot_"


class BotCollector(Collector):
    """Collector of the metrics of one bot, or of several with the label `bot`, for any registry.

    Args:
        bots: The bots, each with a different name.
    """

    def __init__(self, bots: Sequence[MetricsSource]) -> None:
        self._bots = {bot.name: _BotMetrics(bot) for bot in bots}

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; each has the series of all bots."""
        if len(self._bots) == 1:
            for bot in self._bots.values():
                yield from bot.collect()
            return
        found: dict[str, Metric] = {}
        for name, bot in self._bots.items():
            for metric in bot.collect():
                labelled = [sample._replace(labels={"bot": name, **sample.labels}) for sample in metric.samples]
                metric.samples = []
                found.setdefault(metric.name, metric).samples += labelled
        yield from found.values()

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics, so that every registry refuses a second collector: a page has each metric once."""
        return self.collect()


class _BotMetrics:
    """Metrics of a bot.

    Each series of a handler or an outcome exists from the start, as 0: one that first appears as 1 has not grown, and
    would raise no alert.
    """

    def __init__(self, source: MetricsSource) -> None:
        self._status = source.status
        self._metrics = source.metrics
        self._handlers = source.handlers

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield from self._gauges(self._status())
        yield from self._counters()
        yield from self._histograms()

    def _gauges(self, status: BotStatus) -> Iterator[Metric]:
        feed = status.feed
        # After a restart the watermark may be older than the bot; `live` follows the bot.
        age = status.age if feed is None or feed.cover_age is None else feed.cover_age
        yield _gauge("up", "1 while the bot handles deliveries.", status.state == "running")
        yield _gauge("live", "1 while the watermark is younger than three intervals, and during standby.", status.live)
        yield _gauge("scans", "1 while this process scans, 0 while another replica does.", status.scans)
        yield _gauge("in_flight", "Deliveries at their handlers.", status.in_flight)
        yield _gauge(
            "offers_in_doubt", "Offers and answers to offers whose outcome is being looked up.", status.in_doubt
        )
        yield _gauge("offers_parked", "Offers and answers to offers for which a person has to decide.", status.parked)
        if not status.scans:
            # What all replicas share has one series, from the one that scans.
            return
        yield _gauge("cover_age_seconds", "Age of the watermark.", age.total_seconds())
        yield _gauge("waiting", "Deliveries that are due and at no handler yet, up to 10,000.", status.waiting)
        yield _gauge("waited_seconds", "Time that the oldest of them has been due.", status.waited.total_seconds())
        if feed is not None:
            yield _gauge("unacknowledged", "Events that are not yet deliveries.", feed.unacknowledged)
            yield _gauge("gaps", "Gaps that are not acknowledged.", len(feed.gaps))
            late = CounterMetricFamily(f"{_PREFIX}found_late", "Requests that deep scans found late.")
            late.add_metric([], feed.late)
            yield late

    def _counters(self) -> Iterator[Metric]:
        metrics = self._metrics
        deliveries = {(handler, ending): 0 for handler in self._handlers() for ending in ENDINGS} | metrics.deliveries
        offers, answers = _by_outcome(metrics.offers), _by_outcome(metrics.answers)
        events = {(kind,): count for kind, count in dict(metrics.events).items()}
        yield _counter("events", "Events by kind.", ["kind"], events)
        yield _counter("deliveries", "Ended attempts by handler and ending.", ["handler", "ending"], deliveries)
        yield _counter("offers", "Offers by outcome.", ["outcome"], offers)
        yield _counter("answers", "Approvals and declines of offers by outcome.", ["outcome"], answers)

    def _histograms(self) -> Iterator[Metric]:
        metrics = self._metrics
        handlers = [(handler,) for handler in self._handlers()]
        yield _histogram(
            "handler_duration_seconds", "Time in a handler.", ["handler"], metrics.handler_times.series(handlers)
        )
        yield _histogram(
            "event_latency_seconds",
            "Time from the scan that found an event to the first call of a handler.",
            ["handler"],
            metrics.event_latencies.series(handlers),
        )
        yield _histogram(
            "call_duration_seconds",
            "Time of a call of the service, with its retries, waits and login.",
            ["operation", "outcome"],
            metrics.call_times.series(),
        )


class Exposition:
    """Text of a bot's metrics and of those of its process.

    Args:
        collector: The collector of the bot's metrics.
    """

    def __init__(self, collector: BotCollector) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def __call__(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the text, in a format that the value of a header `Accept` selects."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, help, value=float(value))


def _counter(name: str, help: str, labels: list[str], counts: Mapping[Labels, int]) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, help, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family


def _by_outcome(counts: Mapping[str, int]) -> Mapping[tuple[str], int]:
    return {(outcome,): count for outcome, count in (dict.fromkeys(OUTCOMES, 0) | {**counts}).items()}


def _histogram(name: str, help: str, labels: list[str], histograms: Mapping[tuple[str, ...], Histogram]) -> Metric:
    family = HistogramMetricFamily(_PREFIX + name, help, labels=labels)
    for values, histogram in sorted(histograms.items(), key=lambda series: series[0]):
        buckets = [(_bound(bound), count) for bound, count in histogram.buckets()]
        family.add_metric(values, buckets, sum_value=histogram.total)
    return family


def _bound(seconds: float) -> str:
    return "+Inf" if math.isinf(seconds) else str(seconds)
