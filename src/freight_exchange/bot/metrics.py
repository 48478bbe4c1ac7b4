"""Metrics of a bot: counters, deliveries in flight, and durations; for Prometheus with the extra `metrics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from freight_exchange.errors import (
    ConfigurationError,
    DeadlineExceededError,
    OutcomeUnknownError,
    TransportError,
)
from freight_exchange.hooks import CallInfo, Work
from freight_exchange.instruments import Instrumentation

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.registry import Collector

    from freight_exchange.bot.bot import Bot
    from freight_exchange.bot.handler import Delivery

INSTALL_HINT: Final = 'metrics need the extra "metrics": install freight-exchange with it'

_PREFIX: Final = "freight_exchange_bot_"
_ENDINGS: Final = ("done", "dropped", "failed", "later", "doubt", "transient", "released", "dead")
"""Endings of an attempt."""
_OUTCOMES: Final = ("confirmed", "rejected", "doubtful", "not taken")
"""Outcomes of an offer, and of an answer to one. A `doubtful` one counts again once it is resolved."""
_PATHS: Final = frozenset(
    {
        "login", "request", "route", "carrier", "currency", "quote/request", "quote/getrequests", "quote/submitrequest",
        "quote/offer", "quote/getoffers", "quote/approveoffer", "quote/bid", "quote/submitoffer",
    }
)  # fmt: skip
"""Paths of the service document. Others are one series: `exchange.request()` takes any path."""
_HISTOGRAMS: Final = {
    "handler": ("handler_duration_seconds", "Time in a handler.", ("handler",),
                (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0)),
    "latency": ("event_latency_seconds", "Time from the scan that found an event to the first call of a handler.",
                ("handler",), (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)),
    "call": ("call_duration_seconds", "Time of a call of the service, with its retries, waits and login.",
             ("operation", "outcome"), (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)),
}  # fmt: skip
"""Name, help, labels and upper bounds of each histogram. Hours of latency are a backlog; a call's deadline is 60 s."""
_MAX_NAMED: Final = 5
_CUT_OFF: Final = 3


class InFlight(dict[int, str]):
    """Names of the deliveries that handlers work on."""

    def __str__(self) -> str:
        """Return the names in a line. Other threads may call this."""
        active = [*self.values()]
        names = "; ".join(active[:_MAX_NAMED])
        return names if len(active) <= _MAX_NAMED else f"{names}; and {len(active) - _MAX_NAMED} more"

    @contextmanager
    def track(self, delivery: Delivery) -> Iterator[str]:
        """Count a delivery as in flight during the block, and yield its name."""
        request = "" if delivery.subject is None else f" of request {delivery.subject}"
        name = f"the handler {delivery.name!r} of the event {delivery.kind!r}{request}"
        self[id(delivery)] = name
        try:
            yield name
        finally:
            del self[id(delivery)]


class Metrics(Instrumentation):
    """Counts and durations since the process began.

    An attempt for several merged deliveries counts once for each.
    """

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.deliveries: Counter[tuple[str, str]] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.in_flight = InFlight()
        self.histograms: dict[str, Any] = {}
        self.unanswered = 0

    @property
    def is_cut_off(self) -> bool:
        """`True` if the exchange has not answered several calls in a row."""
        return self.unanswered >= _CUT_OFF

    def outcomes_of(self, what: str) -> dict[str, int]:
        return {outcome: count for (kind, outcome), count in [*self.outcomes.items()] if kind == what}

    def count_ended(self, *endings: str) -> int:
        return sum(count for (_, ended), count in [*self.deliveries.items()] if ended in endings)

    def observe(self, histogram: str, *labels: str | float) -> None:
        """Observe a duration, the last argument, if somebody collects histograms."""
        *names, value = labels
        if self.histograms:
            self.histograms[histogram].labels(*names).observe(value)

    @contextmanager
    def span(self, work: Work) -> Iterator[None]:
        if not isinstance(work, CallInfo):
            yield
            return
        path = work.path if work.path in _PATHS else "other"
        began, outcome = anyio.current_time(), "cancelled"
        try:
            yield
            outcome, self.unanswered = "ok", 0
        except Exception as error:
            outcome = type(error).__name__
            is_silent = isinstance(error, TransportError | DeadlineExceededError | OutcomeUnknownError)
            self.unanswered = self.unanswered + 1 if is_silent and getattr(error, "status", None) is None else 0
            raise
        finally:
            self.observe("call", f"{work.method} {path}", outcome, anyio.current_time() - began)


def make_collector(bots: Sequence[Bot]) -> Collector:
    """Return a collector of the metrics of one bot, or of several with the label `bot`.

    Each series of a handler or an outcome exists from the start, as 0: one that first appears as 1 has not grown, and
    would raise no alert.
    """
    names = [bot._options.feed.name for bot in bots]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(
            f"two bots are named {repeated!r}, which the label `bot` must distinguish: give each its own name="
        )
    try:
        from prometheus_client import Histogram
        from prometheus_client.registry import Collector
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise ConfigurationError(INSTALL_HINT) from None
    for bot in bots:
        bot._metrics.histograms = bot._metrics.histograms or {
            key: Histogram(_PREFIX + name, help, labels, buckets=bounds, registry=None)
            for key, (name, help, labels, bounds) in _HISTOGRAMS.items()
        }

    class BotCollector(Collector):
        """Collector of the metrics of bots, for any registry."""

        def collect(self) -> Iterator[Metric]:
            found: dict[str, Metric] = {}
            for bot in bots:
                for metric in _collect(bot):
                    label = {"bot": bot._options.feed.name} if len(bots) > 1 else {}
                    samples = [sample._replace(labels=label | sample.labels) for sample in metric.samples]
                    metric.samples = []
                    found.setdefault(metric.name, metric).samples += samples
            yield from found.values()

        def describe(self) -> Iterator[Metric]:
            """Yield the metrics, so that every registry refuses a second collector: a page has each metric once."""
            return self.collect()

    return BotCollector()


def make_exposition(bot: Bot) -> Callable[[str], tuple[str, bytes]] | None:
    """Return a function from a header `Accept` to the type and text of a bot's metrics and its process's.

    `None` without the extra.
    """
    try:
        collector = make_collector([bot])
    except ConfigurationError:
        return None
    from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)

    def expose(accept: str) -> tuple[str, bytes]:
        encode, content_type = choose_encoder(accept)
        return content_type, encode(registry)

    return expose


def _collect(bot: Bot) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    def gauge(name: str, help: str, value: float) -> Metric:
        return GaugeMetricFamily(_PREFIX + name, help, value=float(value))

    def counter(name: str, help: str, labels: list[str], counts: Mapping[Any, int]) -> Metric:
        family = CounterMetricFamily(_PREFIX + name, help, labels=labels)
        for values, count in sorted(counts.items()):
            family.add_metric(values, count)
        return family

    status, metrics, handlers = bot.status(), bot._metrics, [handler.id for handler in [*bot]]
    yield gauge("up", "1 while the bot handles deliveries.", status.state == "running")
    yield gauge("live", "1 while the watermark is younger than three intervals, and during standby.", status.live)
    yield gauge("scans", "1 while this process scans, 0 while another replica does.", status.scans)
    yield gauge("in_flight", "Deliveries at their handlers.", status.in_flight)
    yield gauge("offers_in_doubt", "Offers and answers to offers whose outcome is being looked up.", status.in_doubt)
    yield gauge("offers_parked", "Offers and answers to offers for which a person has to decide.", status.parked)
    if status.scans:
        # What all replicas share has one series, from the one that scans.
        feed = status.feed
        # After a restart the watermark may be older than the bot; `live` follows the bot.
        age = status.age if feed is None or feed.cover_age is None else feed.cover_age
        yield gauge("cover_age_seconds", "Age of the watermark.", age.total_seconds())
        yield gauge("waiting", "Deliveries that are due and at no handler yet, up to 10,000.", status.waiting)
        yield gauge("waited_seconds", "Time that the oldest of them has been due.", status.waited.total_seconds())
        if feed is not None:
            yield gauge("unacknowledged", "Events that are not yet deliveries.", feed.unacknowledged)
            yield gauge("gaps", "Gaps that are not acknowledged.", len(feed.gaps))
    yield counter("events", "Events by kind.", ["kind"], {(kind,): count for kind, count in [*metrics.events.items()]})
    yield counter(
        "deliveries",
        "Ended attempts by handler and ending.",
        ["handler", "ending"],
        {(handler, ending): 0 for handler in handlers for ending in _ENDINGS} | dict(metrics.deliveries),
    )
    for name, help, counts in (
        ("offers", "Offers by outcome.", metrics.outcomes_of("offer")),
        ("answers", "Approvals and declines of offers by outcome.", metrics.outcomes_of("answer")),
    ):
        outcomes = dict.fromkeys(_OUTCOMES, 0) | counts
        yield counter(name, help, ["outcome"], {(outcome,): count for outcome, count in outcomes.items()})
    for key, histogram in metrics.histograms.items():
        if key != "call":
            for handler in handlers:
                histogram.labels(handler)
        yield from histogram.collect()
