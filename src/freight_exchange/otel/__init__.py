"""OpenTelemetry: spans for calls, scans and handlers; needs the extra `otel`.

exchange = FreightExchange(instrumentation=OpenTelemetry())
"""

from __future__ import annotations

from freight_exchange.otel.instrumentation import OpenTelemetry

__all__ = ["OpenTelemetry"]
