"""The sandbox's board: a page on which a person is the shipper, makes trouble, and watches programs cope."""

from __future__ import annotations

from freight_exchange.sandbox.board.controller import BoardController
from freight_exchange.sandbox.board.samples import samples
from freight_exchange.sandbox.board.site import PATH, Board

__all__ = ["PATH", "Board", "BoardController", "samples"]
