"""Retry of failed attempts: the rules of `retry_matrix` as the strategies of a tenacity `AsyncRetrying`.

The first attempt runs without tenacity, which costs more than the other layers.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import attrs
from tenacity import AsyncRetrying, RetryCallState

from freight_exchange.hooks import Retry as RetryEvent
from freight_exchange.transport.middleware.outcome import FailedAttemptError, outcome_unknown
from freight_exchange.transport.rules.retry_matrix import (
    MAX_WAIT,
    Cause,
    RetryRule,
    asked_wait,
    backoff,
    cause_of,
    cost_of,
    rule_of,
)

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.hooks import Hooks
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["Retry", "RetryBudget", "RetryRules"]

_logger = logging.getLogger("freight_exchange.transport")


class RetryBudget:
    """Token bucket that limits the retries of a client, so that retries do not make an outage worse.

    With 500 tokens, a thousand calls that all fail are at most 1,035 requests (1,100 when throttled).
    """

    __slots__ = ("_size", "tokens")

    def __init__(self, size: int) -> None:
        self._size = size
        self.tokens = size

    def allows(self, cost: int) -> bool:
        return self.tokens >= cost

    def spend(self, cost: int) -> None:
        self.tokens -= cost

    def reward(self) -> None:
        """Give one token back for a success."""
        if self.tokens < self._size:
            self.tokens += 1


class Retry:
    """Middleware that repeats an attempt if the retry matrix, the deadline and the budget allow it.

    Raises:
        FreightExchangeError: The error of the last attempt, settled: nothing took effect.
        OutcomeUnknownError: The write may have been carried out.
    """

    __slots__ = ("_budget", "_chance", "_hooks", "_redactor")

    def __init__(
        self, budget: RetryBudget, hooks: Hooks, redactor: Redactor, *, chance: Callable[[], float] = random.random
    ) -> None:
        self._budget = budget
        self._hooks = hooks
        self._redactor = redactor
        self._chance = chance

    async def __call__(self, request: Request, call_next: Next) -> Response:
        try:
            response = await call_next(request)
        except FailedAttemptError as failed:
            failure = failed
        else:
            self._budget.reward()
            return response
        # Outside of the handler, so that no later error has the first one as its context.
        response = await self._repeat(request, call_next, failure)
        self._budget.reward()
        return response

    async def _repeat(self, request: Request, call_next: Next, first: FailedAttemptError) -> Response:
        rules = RetryRules(request, self._budget, self._hooks, self._chance)
        failures = [first]
        numbers = itertools.count(2)

        async def attempt() -> Response:
            if failures:
                # The first attempt was made already; the rules apply to it as to any other.
                raise failures.pop()
            return await call_next(attrs.evolve(request, attempt=next(numbers)))

        try:
            return await rules.retrying()(attempt)
        except FailedAttemptError as failed:
            error = failed.error
        if rules.rule is RetryRule.UNKNOWN:
            raise outcome_unknown(request, error.message, self._redactor, error)
        request.progress.reset()
        error.settled = True
        raise error


class RetryRules:
    """Rules for the attempts of one call, as strategies of tenacity."""

    def __init__(
        self,
        request: Request,
        budget: RetryBudget,
        hooks: Hooks,
        chance: Callable[[], float] = random.random,
        now: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._request = request
        self._policy = request.context.retries
        self._budget = budget
        self._hooks = hooks
        self._chance = chance
        self._now = now
        self.extra_attempt_used = False
        self.cause = Cause.REFUSED
        self.rule = RetryRule.RAISE
        """Rule of the matrix for the last failure."""

    def retrying(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=self.is_repeatable,
            wait=self.delay,
            stop=self.is_over,
            before_sleep=self.announce,
            sleep=anyio.sleep,
            reraise=True,
        )

    def is_repeatable(self, state: RetryCallState) -> bool:
        """Apply the retry matrix (`retry=`)."""
        error = _error_of(state)
        if error is None:
            return False
        remaining = self._request.ends_at - self._now()
        self.cause = cause_of(error, remaining=remaining)
        self.rule = rule_of(error, self.cause, self._request.kind, self._policy)
        return self.rule is RetryRule.RETRY or (self.rule is RetryRule.ONCE and not self.extra_attempt_used)

    def delay(self, state: RetryCallState) -> float:
        """Return the backoff, or the delay that the service asked for (`wait=`)."""
        error = _error_of(state)
        assert error is not None, "only a failed attempt is repeated"
        return backoff(error, self.cause, self._policy, attempt=state.attempt_number, chance=self._chance)

    def is_over(self, state: RetryCallState) -> bool:
        """Return whether attempts, time or budget are used up (`stop=`)."""
        if state.attempt_number >= self._policy.attempts or not self._budget.allows(cost_of(self.cause)):
            return True
        if self.cause is Cause.UNAVAILABLE and asked_wait(_error_of(state)) > MAX_WAIT:
            return True
        return state.upcoming_sleep >= self._request.ends_at - self._now()

    async def announce(self, state: RetryCallState) -> None:
        """Take the tokens for the next attempt, and report it to log and hooks (`before_sleep=`)."""
        error = _error_of(state)
        assert error is not None, "only a failed attempt is repeated"
        request = self._request
        self._budget.spend(cost_of(self.cause))
        self.extra_attempt_used = self.extra_attempt_used or self.rule is RetryRule.ONCE
        number = request.progress.sends
        request.progress.reset()
        _logger.info("%s; retrying in %.2f s (call %s)", error, state.upcoming_sleep, request.call_id)
        if self._hooks:
            await self._hooks.emit(
                RetryEvent(
                    method=request.method,
                    path=request.path,
                    number=number,
                    delay=state.upcoming_sleep,
                    error=error,
                    call_id=request.call_id,
                )
            )


def _error_of(state: RetryCallState) -> FreightExchangeError | None:
    failure = state.outcome.exception() if state.outcome is not None else None
    return failure.error if isinstance(failure, FailedAttemptError) else None
