"""Chain of a call: the layers between `CallExecutor.call` and the network, outermost first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from freight_exchange.transport.middleware.deadline import Deadline
from freight_exchange.transport.middleware.limiter import release_slots
from freight_exchange.transport.middleware.log_filter import LogFilter
from freight_exchange.transport.middleware.outcome import Outcome
from freight_exchange.transport.middleware.retry import Retry
from freight_exchange.transport.middleware.tracing import Tracing
from freight_exchange.transport.middleware.user import guard_middleware
from freight_exchange.transport.middleware.write_timing import WriteTiming

if TYPE_CHECKING:
    from freight_exchange.hooks import Hooks
    from freight_exchange.transport.auth.refresh import TokenRefresh
    from freight_exchange.transport.message import Middleware, Next
    from freight_exchange.transport.middleware.limiter import Limiter
    from freight_exchange.transport.middleware.retry import RetryBudget
    from freight_exchange.transport.middleware.throttle import Throttle
    from freight_exchange.transport.secrets import Redactor

__all__ = ["compose_call_chain", "compose_layers"]


def compose_call_chain(
    network: Next,
    *,
    budget: RetryBudget,
    hooks: Hooks,
    redactor: Redactor,
    user: Sequence[Middleware],
    token: TokenRefresh | None,
    throttle: Throttle,
    limiter: Limiter,
) -> Next:
    """Compose the layers of a call, outermost first. `token` is `None` for logins."""
    layers: list[Middleware] = [
        Deadline(redactor),  # ends all attempts, waits and logins of the call in time
        Retry(budget, hooks, redactor),  # repeats what is safe to repeat
        Outcome(redactor),  # makes a reply a result, or a masked error
        *map(guard_middleware, user),  # middleware of the user
        *([] if token is None else [token]),  # attaches the token, renews it after a refusal
        throttle,  # waits until the time that the service asked for
        limiter,  # bounds the requests in flight, and sends each in a task of the client
        Tracing(hooks, redactor),  # reports the attempt to log and hooks, after its end
        release_slots,  # frees the slots of `Limiter` before hooks run
        WriteTiming(limiter.latency),  # refuses a write whose connection is ready too late
        LogFilter(redactor),  # masks the logs of the HTTP libraries
    ]
    return compose_layers(layers, network)


def compose_layers(layers: Sequence[Middleware], send: Next) -> Next:
    """Wrap a sender in layers, the first outermost."""
    for layer in reversed(layers):
        send = _wrapped(layer, send)
    return send


def _wrapped(layer: Middleware, call_next: Next) -> Next:
    return lambda request: layer(request, call_next)
