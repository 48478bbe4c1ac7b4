"""Layers of the send path, each an async callable `(request, call_next) -> response`.

`transport/chain.py` composes them in order: `deadline`, `retry`, `outcome`, the `user`'s own, the token's
(`transport/auth/refresh.py`), `throttle` and `limiter`, which reports each attempt by `tracing`.
"""
