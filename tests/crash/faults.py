"""Faults of the exchange during runs with kills."""

from __future__ import annotations

from typing import Final

__all__ = ["TRANSIENT_FAULTS"]

TRANSIENT_FAULTS: Final = (
    "reset_before_headers",
    "reset_after_send",
    "reset_after_processing",
    "reset_mid_reply",
    "fin_no_bytes",
    "truncated_length",
    "stall",
    "unavailable",
    "server_error",
    "server_error_after_commit",
    "bad_gateway",
    "html_200",
    "throttled_seconds",
)
