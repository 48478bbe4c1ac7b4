"""Resources of the exchange, one per file: a method is a path, its parameters and a result type.

`service` sends their calls in the `conventions` of the client; `arguments` checks what they take, `reply_check` the
replies to writes, and `reporting` reports unreadable rows. `reconcile` finds out whether a write took effect.
"""
