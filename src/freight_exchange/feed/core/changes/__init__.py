"""Comparison of a page with what was known before. Pure."""
