"""Arguments of `Bot`."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

import pytest

from freight_exchange import Bot, ConfigurationError

DURATIONS = ["interval", "allowance", "drain", "settle", "selection_interval", "retention"]
WHOLE = "must be an integer from"
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
LONE = "holds half a character (a lone surrogate), which cannot be kept"

INVALID: list[tuple[str, list[Any], str]] = [
    ("exchange", [5, "https://host/api", object], "must be a FreightExchange, not a {type}"),
    ("concurrency", [0, -1, 1001, 2.0, True, None, "8", math.inf], WHOLE + " 1 to 1000, not {value!r}"),
    ("port", [-1, 65536, 80.0, True, "80"], WHOLE + " 0 to 65535, not {value!r}"),
    ("lifespan", [5, "pool", {"pool": 1}], "must be a function, not a {type}"),
    *[(name, [30, 0.5, 0, True, "30 s"], "must be a timedelta") for name in DURATIONS],
    *[(name, [-SECOND], "must be ") for name in DURATIONS],
    *[(name, [timedelta(0)], "must be a timedelta of more than 0") for name in ("interval", "allowance")],
    ("interval", [SECOND / 2], "must be at least one second, to spare the service"),
    *[(name, [timedelta(0), SECOND / 2], "must be at least 0:00:01, not") for name in ("selection_interval", "lease")],
    *[(name, [DAY + SECOND], "must be at most") for name in ("interval", "allowance")],
    ("retention", [6 * DAY - SECOND], "must be at least 6 days, 0:00:00, not 5 days"),
    ("start", ["yesterday", 5, None, True, -SECOND, 6 * DAY], "must be "),
    ("name", ["", None, 5], "must be "),
    ("name", ["\ud800", "bids \udfff"], LONE),
    ("standby", [1, None, "yes"], "must be "),
    ("store", [5, object(), b"bot.db"], "must be "),
    ("host", [5, None, ""], "must be "),
]


def error(**arguments: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Bot(**{"store": None, **arguments})
    assert len(str(caught.value)) < 250
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"), [(name, value, message) for name, values, message in INVALID for value in values]
)
def test_invalid_value_raises(name: str, value: Any, message: str) -> None:
    expected = f"{name} {message.format(value=value, type=type(value).__name__)}"
    assert re.match(re.escape(expected), error(**{name: value}))


def test_lifespan_with_wrong_signature_raises() -> None:
    async def two(exchange: Any, settings: Any) -> Any:
        yield settings

    async def by_name(*, exchange: Any) -> Any:
        yield exchange

    for lifespan, missing in ((two, "'settings'"), (by_name, "'exchange'"), (dict.get, ""), (type, "")):
        message = error(lifespan=lifespan)
        assert message.startswith("lifespan must be a function of the exchange, or of nothing: ")
        assert missing in message


def test_limits_are_accepted() -> None:
    Bot(
        store=None,
        concurrency=1,
        port=0,
        drain=timedelta(0),
        settle=timedelta(0),
        start=timedelta(0),
        retention=6 * DAY,
    )
    Bot(store=None, concurrency=1000, port=65535, interval=DAY, allowance=DAY)
    Bot(store="bot.db", start=5 * DAY, standby=True, name="bids", host="::1")
    Bot(store=None, drain=timedelta.max, settle=timedelta.max, selection_interval=timedelta.max)


def test_store_is_required() -> None:
    with pytest.raises(TypeError, match="store"):
        Bot()  # type: ignore[call-arg]  # the user must decide whether anything lasts
