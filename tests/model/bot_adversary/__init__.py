"""Adversary of the bot: servers, operators and deploys of its own making, and a judge that knows the truth."""

from __future__ import annotations

from .judge import Verdict
from .runner import run, scenario_names

__all__ = ["Verdict", "run", "scenario_names"]
