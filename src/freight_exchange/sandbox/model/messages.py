"""Messages between the exchange and its faces."""

from __future__ import annotations

from freight_sandbox.wire import Call, Cut, Reply, WireFault

__all__ = ["Call", "Cut", "Reply", "WireFault"]
