"""Clocks, file locks and terminal text."""
