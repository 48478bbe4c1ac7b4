"""Scans of a feed: their requests to the service, and the commits of the replies."""
