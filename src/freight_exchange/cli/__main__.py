"""`python -m freight_exchange.cli` is `freight-exchange`."""

from __future__ import annotations

from freight_exchange.cli import main

main()
