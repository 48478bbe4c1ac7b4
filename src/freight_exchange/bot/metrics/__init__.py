"""Metrics of a bot: counters, deliveries in flight, and histograms of durations.

`bot.ops.collector` and `bot.ops.exposition` give them to Prometheus.
"""
