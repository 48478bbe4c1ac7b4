"""Entry point of `python -m freight_exchange`: the command line."""

from __future__ import annotations

from freight_exchange.cli import main

main()
