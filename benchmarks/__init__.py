"""Costs of this package beside those of its peers: `make bench`."""
