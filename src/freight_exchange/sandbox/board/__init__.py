"""The sandbox's board: a page on which a person is the shipper, makes trouble, and watches programs cope."""

from __future__ import annotations

from .desk import Desk
from .samples import samples
from .site import PATH, Board

__all__ = ["PATH", "Board", "Desk", "samples"]
