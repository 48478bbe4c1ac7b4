"""Requests missing from scans: which of them count as withdrawn, and which are looked up. Pure."""
