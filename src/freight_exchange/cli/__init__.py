"""Command line `freight-exchange`; needs the extra `cli`.

`app` is the root command. `options` reads values, `run` runs the event loop and reports errors, `client` makes the
client, and `show` prints. The other modules have the commands. What takes long to import is imported in functions.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line and exit with its status."""
    # Outside of an event loop too, a container's first process obeys it, and what is half written is removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        from freight_exchange.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.stderr.write('freight-exchange needs the extra "cli": pip install "./freight-exchange[cli]"\n')
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("\nError: interrupted\n")
        sys.exit(128 + signal.SIGINT)
    status = run(sys.argv[1:])
    # During the interpreter's shutdown, Ctrl-C would print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)
