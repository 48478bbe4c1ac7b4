"""Context of a call: the caller, the parameters and the state that operations use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from freight_exchange.sandbox.core.database import Database
from freight_exchange.sandbox.core.validation import Fields, Refusal
from freight_exchange.sandbox.model.profile import Profile
from freight_exchange.sandbox.model.state import Account
from freight_exchange.sandbox.rendering.renderer import Renderer

__all__ = ["Answer", "Operation", "RequestContext"]


@attrs.frozen
class Answer:
    """Result of an operation: a payload to send as JSON; with `is_empty`, the reply has no body."""

    payload: Any = None
    status: int = 200
    is_empty: bool = False


@attrs.frozen
class RequestContext:
    """Context of one operation. `call` is the number of its HTTP call; `None` if there is none.

    Reads show the state at `read_time`, which is before `now` if the profile has late visibility.
    """

    database: Database
    profile: Profile
    renderer: Renderer
    fields: Fields
    account: Account
    now: float
    read_time: float
    call: int | None

    def require_role(self, role: str) -> None:
        """Refuse accounts of another role, if the profile enforces roles."""
        if self.profile.roles == "enforced" and self.account.role not in (role, "both"):
            raise Refusal(403, "This operation is not permitted for your account.")

    def write_answer(self, payload: Any) -> Answer:
        return Answer(payload, self.profile.write_status)


Operation = Callable[[RequestContext], Answer]
