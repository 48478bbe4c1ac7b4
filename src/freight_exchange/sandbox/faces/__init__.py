"""Ways to reach the exchange: `inprocess` for tests, `asgi` under any ASGI server, `tcp` for faults below HTTP.

`simulated_request` and `tcp_server` hold the parts of the first and the last; `http_framing` is what all share.
"""
