"""Passes through a listing: the next page to request, the end, and the proof that no row was missed. Pure."""
