"""Scans of offers: pages, look-ups and their transactions."""
