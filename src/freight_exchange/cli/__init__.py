"""Command line `freight-exchange`; needs the extra `cli`.

`program` is the root command and imports the others when they run. `commands` has a module for each noun, `render`
the output. `client` creates the client of a command and runs its event loop, `terminal` has prompts and warnings.
`options`, `enum_choice` and `drafts` read values; `exit_status` and `messages` report errors.
"""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]

_EXTRA_PACKAGES = ("click", "rich")
_INSTALL_HINT = 'freight-exchange needs the extra "cli": pip install "freight-exchange[cli]"'


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        from freight_exchange.cli.program import run
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_PACKAGES:
            raise
        sys.stderr.write(f"{_INSTALL_HINT}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("\nError: interrupted\n")
        sys.exit(128 + signal.SIGINT)
    status = run(sys.argv[1:])
    # During the interpreter's shutdown, Ctrl-C would print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)
