"""Scans of a feed: what they ask of the service, and what is written down of the replies."""
