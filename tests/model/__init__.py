"""Models: random schedules of failures against the sandbox, and checkers that judge what a program was told.

Run one from the shell: `python -m tests.model watcher --runs 1000`.
"""

from __future__ import annotations
