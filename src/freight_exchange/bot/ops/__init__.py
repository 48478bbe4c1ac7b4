"""What operators use: `status` of a bot, `probes` on its port, and `admin` of its file while it is stopped."""
