"""Delivery of events to handlers."""
