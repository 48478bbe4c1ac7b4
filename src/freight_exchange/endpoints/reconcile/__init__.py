"""Reconciliation: find out whether a write took effect, from the listings that show it.

`reconcile` repeats complete readings until the time to settle has passed; `evidence` and `route_evidence` conclude
from one reading; `shared_readings` lets concurrent reconciliations share readings.
"""
