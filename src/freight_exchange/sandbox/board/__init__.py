"""Web page of the sandbox, on which a person is the shipper and switches faults on.

`site` serves the page and its JSON, `controller` changes the exchange, and `view` and `traffic` show its state and its
calls. `labels` has the words, `quirks` reads the profile's values, `guard` keeps other sites out, and `samples` has
example requests."""

from __future__ import annotations

from freight_exchange.sandbox.board.controller import BoardController
from freight_exchange.sandbox.board.samples import samples
from freight_exchange.sandbox.board.site import PATH, Board

__all__ = ["PATH", "Board", "BoardController", "samples"]
