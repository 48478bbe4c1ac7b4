"""The program `freight-exchange`: the exchange from a shell, for people and for scripts. Needs the extra `cli`."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]

_NEEDED = ("click", "rich")
_INSTALL = 'freight-exchange needs the extra "cli": pip install "freight-exchange[cli]"'


def main() -> None:
    """Do what the command line says, and end the process with a status of `cli.ending`."""
    try:
        from freight_exchange.cli.program import run
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        sys.stderr.write(f"{_INSTALL}\n")
        sys.exit(2)
    status = run(sys.argv[1:])
    # What is left is the interpreter's, which a Ctrl-C now would end with a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)
