"""Lowest layer of the package: root errors, clocks, file locks, task groups, text and version."""
