"""Version of the package. The build reads it here; the metadata of an installation is slow to read."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
