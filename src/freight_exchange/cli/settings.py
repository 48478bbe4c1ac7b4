"""What the options before the command say. No I/O, and next to nothing of the SDK: help and completion pass here."""

from __future__ import annotations

import logging
import sys

import attrs

from freight_exchange.platform.text import CleanFormatter

__all__ = ["Settings"]


@attrs.frozen(kw_only=True)
class Settings:
    """What every command is told.

    Attributes:
        url: The API root, where an option or the environment says it.
        email: The account, where they say it.
        token_file: Where the login is kept, where they say it.
        timeout: Seconds that a call may take.
    """

    url: str | None = None
    email: str | None = None
    token_file: str | None = None
    timeout: float = 60.0

    @staticmethod
    def be_heard(verbosity: int) -> None:
        """Write the SDK's log to standard error."""
        heard = logging.StreamHandler(sys.stderr)
        heard.setFormatter(CleanFormatter("%(levelname)s %(name)s: %(message)s"))
        logger = logging.getLogger("freight_exchange")
        logger.addHandler(heard)
        logger.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)
