"""Mutations of the send path and the login."""

from __future__ import annotations

from typing import Final

from tools.mutation_lists import Mutation, one

__all__ = ["MUTATIONS", "TESTS"]

TESTS: Final = ("tests/calls",)
"""Tests that run where a mutation names none."""

MUTATIONS: Final = (
    Mutation(
        "a write is tried again after its headers may have left",
        (
            (
                "transport/rules/retry_matrix.py",
                "Cause.INTERRUPTED: {R: RetryRule.RETRY, L: RetryRule.ONCE, W: RetryRule.UNKNOWN}",
                "Cause.INTERRUPTED: {R: RetryRule.RETRY, L: RetryRule.ONCE, W: RetryRule.RETRY}",
            ),
            ("transport/rules/retry_matrix.py", "        return not error.unsent\n", "        return False\n"),
            (
                "transport/middleware/outcome.py",
                "            if in_doubt(request):\n                # Only",
                "            if False:\n                # Only",
            ),
        ),
    ),
    one(
        "a write is tried again after a reply that is not about it",
        "transport/rules/retry_matrix.py",
        "Cause.BROKEN: {R: RetryRule.RETRY, L: RetryRule.ONCE, W: RetryRule.UNKNOWN}",
        "Cause.BROKEN: {R: RetryRule.RETRY, L: RetryRule.ONCE, W: RetryRule.RETRY}",
    ),
    one(
        "a write past its deadline is reported as not sent",
        "transport/middleware/deadline.py",
        "        if in_doubt(request):\n",
        "        if False:\n",
    ),
    one(
        "no single flight: each caller logs in for himself",
        "transport/auth/refresh.py",
        "        if task is None or task.is_finished:\n            task = self._start(reason)\n",
        "        task = self._start(reason)\n",
    ),
    Mutation(
        "a result beside a key Unauthorized is a refusal: the write is sent again",
        (
            (
                "wire/login.py",
                "    if success and (not data[fields.UNAUTHORIZED]",
                "    if False and (not data[fields.UNAUTHORIZED]",
            ),
            (
                "wire/login.py",
                "    return not any(_is_result(key, value) for key",
                "    return True or any(_is_result(key, value) for key",
            ),
        ),
    ),
    one(
        "a reply about something else than the write is its success",
        "endpoints/shared/reply_check.py",
        '    if found:\n        raise DecodeError(f"the reply does',
        '    if False:\n        raise DecodeError(f"the reply does',
    ),
    one(
        "a login ends with its first caller",
        "transport/auth/refresh.py",
        "            return await task.wait()\n        except TaskCancelledError:",
        "            return await self._refresh(reason)\n        except TaskCancelledError:",
    ),
    one(
        "no deadline",
        "transport/middleware/deadline.py",
        "with anyio.CancelScope(deadline=request.ends_at) as scope:",
        "with anyio.CancelScope() as scope:",
    ),
    one(
        "no budget: every call retries under an outage",
        "transport/middleware/retry.py",
        " or not self._budget.allows(cost_of(self.cause))",
        "",
    ),
    one(
        "Retry-After is not heeded",
        "transport/rules/retry_matrix.py",
        "return delay + chance() * min(1.0, 0.1 * delay)",
        "return 0.0",
    ),
)
