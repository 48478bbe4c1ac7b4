"""Blocks of pages and examples, for their tests."""

from __future__ import annotations

from tools.pages import ROOT, environment_of

__all__ = ["ROOT", "TIMEOUT", "environment_of"]

TIMEOUT = 60.0
"""Seconds after which a program that does not end has failed."""
