"""Operation of a bot: its `status`, `probes` on its port, and `admin` of its store.

`collector` and `exposition` give its metrics to Prometheus.
"""
