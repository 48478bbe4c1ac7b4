"""OpenTelemetry: spans for calls, scans and handlers; needs the extra `otel`.

exchange = FreightExchange(instrumentation=OpenTelemetry())
"""

from __future__ import annotations

try:
    from freight_exchange.otel.instrumentation import OpenTelemetry
except ModuleNotFoundError as error:
    if error.name != "opentelemetry":
        raise
    raise ModuleNotFoundError(
        'freight_exchange.otel needs the extra "otel": pip install "freight-exchange[otel]"', name=error.name
    ) from None

__all__ = ["OpenTelemetry"]
