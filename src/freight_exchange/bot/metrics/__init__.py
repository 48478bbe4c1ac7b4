"""Metrics of a bot: counters, deliveries in flight, and histograms of durations."""
