"""Adversary of the bot: simulated servers, operators and deploys, and a judge that knows what really happened."""

from __future__ import annotations

from .judge import Verdict
from .runner import run, scenario_names

__all__ = ["Verdict", "run", "scenario_names"]
