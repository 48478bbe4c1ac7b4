"""Simulated freight exchange."""
