"""Scripted faults: which calls they strike, and what the client sees."""
