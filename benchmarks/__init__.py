"""Benchmarks of this package beside its peers: `make bench`."""
