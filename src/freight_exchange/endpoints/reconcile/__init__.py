"""Reconciliation: find out whether a write took effect, from the listings that show it.

`reconcile` repeats complete readings until the settle time has passed. `evidence`, `request_evidence` and
`route_evidence` draw the conclusion from one reading. `shared_readings` lets concurrent reconciliations share readings.
"""
