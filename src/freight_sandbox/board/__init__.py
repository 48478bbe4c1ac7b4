"""Web page of the sandbox. A person acts there as the shipper, and switches faults on.

`site` serves the page and its JSON, `controller` changes the exchange, `view` shows its state, and `traffic` its calls.
`labels` has the words, `quirks` reads values of the profile, and `guard` protects the server from pages of other sites.
"""

from __future__ import annotations

from freight_sandbox.board.controller import BoardController
from freight_sandbox.board.site import PATH, Board

__all__ = ["PATH", "Board", "BoardController"]
