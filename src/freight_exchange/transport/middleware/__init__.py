"""Layers of the send path, each an async callable `(request, call_next) -> response`.

`transport/chain.py` composes them in this order: `deadline`, `retry`, `outcome`, middleware of the `user`, the token
(`transport/auth/refresh.py`), `throttle`, `limiter`, `tracing`, `release_slots` of `limiter`, `write_timing` and
`log_filter`.
"""
