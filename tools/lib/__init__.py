"""Modules that the tools import or run."""

from __future__ import annotations
