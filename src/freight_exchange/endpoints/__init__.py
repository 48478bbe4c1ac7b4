"""Resources of the exchange, one per file: a method is a path, its parameters and a result type.

`shared.service` sends their calls in the conventions of the client. `reconcile` finds out whether a write took effect.
"""
