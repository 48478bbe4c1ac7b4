"""Operation of a bot: its `status`, `probes` on its port, and `admin` of its file while it is stopped."""
