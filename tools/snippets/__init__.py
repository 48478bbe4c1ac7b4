"""Python blocks of the README and the pages, run as a reader runs them.

Each block is a whole program, or names the file that it continues. `python -m tools.snippets` installs what each page
installs into an environment of its own, saves every block as a file, and runs `python FILE` or `pytest`. The
tests do the same in environments of links, and fork each process from one that has imported the package.
"""
