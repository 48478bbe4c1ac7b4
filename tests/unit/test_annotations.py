"""Annotations of the public API, as read at run time by `typing.get_type_hints` and `attrs.resolve_types`."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import resolve_name

import attrs
import pytest
from tests.unit.blocks import ROOT

MODULES = (
    "freight_exchange",
    "freight_exchange.bot",
    "freight_exchange.cargo",
    "freight_exchange.errors",
    "freight_exchange.hooks",
    "freight_exchange.models",
    "freight_exchange.options",
    "freight_exchange.otel",
    "freight_exchange.paging",
    "freight_exchange.bulk",
    "freight_exchange.quotes",
    "freight_exchange.store",
    "freight_exchange.tariff",
    "freight_exchange.testing",
)
RESOURCES = ("Bids", "Carriers", "Currencies", "Offers", "Requests", "Routes")

DOCUMENTED = sorted(
    name
    for page in (ROOT / "docs" / "api").glob("*.md")
    for name in re.findall(r"^::: ([\w.]+)", page.read_text(), re.MULTILINE)
)


def _public_objects(module: str) -> Iterator[type | Callable[..., object]]:
    """Yield the classes and functions of a module, and the classes behind a client's resources."""
    found = import_module(module)
    for name in found.__all__:
        value = getattr(found, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield value
    if module == "freight_exchange":
        for resource in RESOURCES:
            yield resolve_name(f"freight_exchange.endpoints.resources.{resource}")


def _functions_of(cls: type) -> Iterator[Callable[..., object]]:
    """Yield the constructor, the public methods and the getters of a class."""
    for name, member in inspect.getmembers(cls):
        function = member.fget if isinstance(member, property) else getattr(member, "func", member)
        if (name == "__init__" or not name.startswith("_")) and inspect.isroutine(function):
            yield function


def _unresolved(value: type | Callable[..., object]) -> Iterator[str]:
    for part in (value, *(_functions_of(value) if isinstance(value, type) else ())):
        try:
            typing.get_type_hints(part)
        except NameError as error:
            yield f"{value.__qualname__}: {part}: {error}"


@pytest.mark.parametrize("module", MODULES)
def test_annotations_resolve_at_run_time(module: str) -> None:
    assert [problem for value in _public_objects(module) for problem in _unresolved(value)] == []


def test_annotations_of_the_reference_resolve_at_run_time() -> None:
    values = [resolve_name(name) for name in DOCUMENTED]
    checked = [value for value in values if inspect.isclass(value) or inspect.isfunction(value)]
    assert [problem for value in checked for problem in _unresolved(value)] == []
    assert len(checked) > 100


@pytest.mark.parametrize("module", MODULES)
def test_fields_of_records_resolve_at_run_time(module: str) -> None:
    for value in _public_objects(module):
        if isinstance(value, type) and attrs.has(value):
            resolved = attrs.fields(attrs.resolve_types(value))
            assert not any(isinstance(field.type, str) for field in resolved), value
