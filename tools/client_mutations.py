"""Breaks the client's send path and its login on purpose, and shows which test goes red.

Each mutation is made in a copy of the tree, and the tests that are to notice run until one fails. Prints a table; exits
with 1 if a mutation survives, or if the code that it changes is not there any more. `--only WORD` makes those whose
name holds the word.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's own folder is on the path, the tree's root is not, and what follows needs it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.mutating import Mutation, main, one

MUTATIONS = (
    Mutation(
        "a write is tried again after its headers may have left",
        (
            (
                "transport/retry.py",
                "Cause.INTERRUPTED: {R: Rule.RETRY, L: Rule.ONCE, W: Rule.UNKNOWN}",
                "Cause.INTERRUPTED: {R: Rule.RETRY, L: Rule.ONCE, W: Rule.RETRY}",
            ),
            ("transport/retry.py", "        return not error.unsent\n", "        return False\n"),
            (
                "transport/call.py",
                "            if self._in_doubt:\n                # Whatever",
                "            if False:\n                # Whatever",
            ),
        ),
    ),
    one(
        "a write is tried again after an answer that says nothing of it",
        "transport/retry.py",
        "Cause.BROKEN: {R: Rule.RETRY, L: Rule.ONCE, W: Rule.UNKNOWN}",
        "Cause.BROKEN: {R: Rule.RETRY, L: Rule.ONCE, W: Rule.RETRY}",
    ),
    one(
        "a write that ran out of time is said not to have happened",
        "transport/call.py",
        '        if self._in_doubt:\n            return self._unknown(_doubtful(f"{message} after',
        '        if False:\n            return self._unknown(_doubtful(f"{message} after',
    ),
    one(
        "no single flight: each caller logs in for himself",
        "transport/auth/refresh.py",
        "        if job is None or job.finished:\n            job = self._start(reason)\n",
        "        job = self._start(reason)\n",
    ),
    one(
        "a result beside a key Unauthorized is a refusal: the write is sent again",
        "wire/login.py",
        "    if not isinstance(data, dict) or fields.UNAUTHORIZED not in data "
        "or (success and not data[fields.UNAUTHORIZED]):\n        return False\n    return not any(",
        "    if not isinstance(data, dict):\n        return False\n    return fields.UNAUTHORIZED in data or not any(",
    ),
    one(
        "a reply about something else than the write is its success",
        "endpoints/reply_check.py",
        '    if found:\n        raise DecodeError(f"the reply is about',
        '    if False:\n        raise DecodeError(f"the reply is about',
    ),
    one(
        "a login ends with whoever asked for it first",
        "transport/auth/refresh.py",
        "            return await job.wait()\n        except EndedError:",
        "            return await self._renew(reason)\n        except EndedError:",
    ),
    one(
        "no deadline",
        "transport/call.py",
        "with anyio.CancelScope(deadline=request.ends_at) as scope:",
        "with anyio.CancelScope() as scope:",
    ),
    one(
        "no budget: every call retries under an outage",
        "transport/call.py",
        "if isinstance(decision, Again) and self._caller.budget.spend(decision.cost):",
        "if isinstance(decision, Again):",
    ),
    one(
        "Retry-After is not heeded",
        "transport/retry.py",
        "delay = retry_after + chance() * min(1.0, 0.1 * retry_after)",
        "delay = 0.0",
    ),
)

TESTS = (
    "tests/unit/transport",
    "tests/faults/test_matrix.py",
    "tests/faults/test_outage.py",
    "tests/faults/test_login.py",
)


if __name__ == "__main__":
    sys.exit(main(__doc__, MUTATIONS, TESTS))
