"""Scans: when, how far back, and which page next. Pure."""
