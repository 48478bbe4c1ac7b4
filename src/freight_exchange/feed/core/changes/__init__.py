"""Comparison of a page with the known state of its requests. Pure."""
