"""Resources of the exchange, one per file. Each method names a path, its parameters and a result type.

`shared.service` sends the calls by the conventions of the client. `reconcile` finds out whether a write took effect.
"""
