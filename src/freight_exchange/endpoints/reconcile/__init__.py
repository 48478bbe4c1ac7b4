"""Reconciliation: find out whether a write took effect, by reading what the service shows."""
