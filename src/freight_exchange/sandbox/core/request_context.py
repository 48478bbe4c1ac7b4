"""One call under way: who calls, with what, and what the operations may touch."""

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
    """What an operation gives: a value to be sent as JSON, or `empty` for no body at all."""

    payload: Any = None
    status: int = 200
    empty: bool = False


@attrs.frozen
class RequestContext:
    """The context of one call, or of what is done without one, and then `call`, its number, is `None`.

    Reads see the state of `seen_at`, which late visibility puts before `now`.
    """

    database: Database
    profile: Profile
    renderer: Renderer
    fields: Fields
    account: Account
    now: float
    seen_at: float
    call: int | None

    def side(self, role: str) -> None:
        """Refuses the other side of the market, where the profile says that rights are enforced."""
        if self.profile.roles == "enforced" and self.account.role not in (role, "both"):
            raise Refusal(403, "This operation is not permitted for your account.")

    def written(self, payload: Any) -> Answer:
        return Answer(payload, self.profile.write_status)


Operation = Callable[[RequestContext], Answer]
