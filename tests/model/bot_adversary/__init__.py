"""Adversary of the bot: simulated servers, operators and deploys, and a checker that knows what really happened."""

from __future__ import annotations

from .checker import CheckResult
from .runner import run, scenario_names

__all__ = ["CheckResult", "run", "scenario_names"]
