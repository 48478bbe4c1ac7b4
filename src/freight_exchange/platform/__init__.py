"""Lowest layer of the package: root of the errors, clocks, file locks, task groups, text and version."""
