"""Calls of the exchange: resources, the service behind them, and reconciliation."""
