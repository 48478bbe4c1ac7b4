"""Layers of the send path, each an async callable `(request, call_next) -> response`.

`transport/chain.py` composes them in this order: `deadline`, `retry`, `outcome`, middleware of the `user`, the token
(`transport/auth/refresh.py`), `throttle` and `limiter`, which reports each attempt by `tracing`.
"""
