"""The exchange and the shell of the command line's tests."""

from __future__ import annotations

from tests.unit.cli.rig import served, shell

__all__ = ["served", "shell"]
