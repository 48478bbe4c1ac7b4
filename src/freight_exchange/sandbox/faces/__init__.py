"""Ways to reach the exchange: `inprocess` for tests, `asgi` under any ASGI server, `tcp` for faults below HTTP.

`simulated_request` has the parts of `inprocess`, `tcp_server` those of `tcp`, and `http_framing` those that all share.
"""
