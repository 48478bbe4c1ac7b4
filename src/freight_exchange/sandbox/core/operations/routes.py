"""Routes: list with all filters, create and replace (service document, 4.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from freight_exchange.sandbox.core.paging import page, refuse_missing
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.core.validation import Fields, Refusal
from freight_exchange.sandbox.model.state import Route

__all__ = ["create", "search", "update"]

_TEXTS: Mapping[str, Callable[[Route], str]] = {
    "origin": lambda route: route.origin,
    "destination": lambda route: route.destination,
    "vessel": lambda route: route.vessel,
    "voyageId": lambda route: route.voyageid,
    "timezone": lambda route: route.timezone,
}
_TIMES: Mapping[str, Callable[[Route], str]] = {
    "departure": lambda route: route.departure,
    "arrival": lambda route: route.arrival,
    "cycutoff": lambda route: route.cycutoff,
    "cfscutoff": lambda route: route.cfscutoff,
}
_RANGES: Mapping[str, str] = {
    "depart": "departure",
    "arrival": "arrival",
    "cy": "cycutoff",
    "cfs": "cfscutoff",
}


def search(context: RequestContext) -> Answer:
    fields, profile, database, renderer = context.fields, context.profile, context.database, context.renderer
    wanted = _filter(fields, profile.route_text_match == "contains")
    rows = [route for route in database.routes.recent(context.read_time) if wanted(route)]
    if "index" in fields:
        index = fields.identifier("index")
        rows = [route for route in rows if route.index == index]
        if not rows:
            refuse_missing(profile)
        return Answer(renderer.collection("routes", [renderer.route(route) for route in rows]))
    rows = database.sorter.plain(profile.order, rows, lambda route: route.index)
    visible = page(context, rows, profile.default_rows, lambda route: True)
    return Answer(renderer.collection("routes", [renderer.route(route) for route in visible]))


def _filter(fields: Fields, contains: bool) -> Callable[[Route], bool]:
    """Return whether a route meets every filter. Date-times compare as text; both bounds are included."""
    tests: list[Callable[[Route], bool]] = []
    for name, read in _TEXTS.items():
        if name in fields:
            tests.append(_text_test(read, fields.text(name), contains))
    for name, read in _TIMES.items():
        if name in fields:
            tests.append(_between(read, fields.date(name), fields.date(name)))
    for prefix, name in _RANGES.items():
        lowest = fields.date(f"{prefix}Start") if f"{prefix}Start" in fields else ""
        highest = fields.date(f"{prefix}End") if f"{prefix}End" in fields else "~"
        if (lowest, highest) != ("", "~"):
            tests.append(_between(_TIMES[name], lowest, highest))
    if "carrierId" in fields:
        carrier = fields.identifier("carrierId")
        tests.append(lambda route: route.carrier == carrier)
    return lambda route: all(test(route) for test in tests)


def _text_test(read: Callable[[Route], str], wanted: str, contains: bool) -> Callable[[Route], bool]:
    if contains:
        return lambda route: wanted.casefold() in read(route).casefold()
    return lambda route: wanted == read(route)


def _between(read: Callable[[Route], str], lowest: str, highest: str) -> Callable[[Route], bool]:
    return lambda route: lowest <= read(route) <= highest


def create(context: RequestContext) -> Answer:
    context.require_role("forwarder")
    return _written(context, context.database.put_route(_image(context, 0), context.now))


def update(context: RequestContext) -> Answer:
    """Replace a route. PUT needs all fields; it does not keep the values of omitted ones."""
    context.require_role("forwarder")
    index = context.fields.identifier("index")
    if context.database.routes.get(index) is None:
        raise Refusal(context.profile.unknown_id_status, "There is no such route.", "index")
    return _written(context, context.database.put_route(_image(context, index), context.now))


def _image(context: RequestContext, index: int) -> Route:
    fields = context.fields
    wanted = context.profile.carrier_field
    if wanted == "either":
        wanted = "carrier" if "carrier" in fields or "carrierId" not in fields else "carrierId"
    route = Route(
        index=index,
        origin=fields.text("origin"),
        destination=fields.text("destination"),
        cycutoff=fields.date("cycutoff"),
        cfscutoff=fields.date("cfscutoff"),
        departure=fields.date("departure"),
        arrival=fields.date("arrival"),
        carrier=fields.identifier(wanted),
        vessel=fields.text("vessel"),
        voyageid=fields.text("voyageId"),
        timezone=fields.text("timezone"),
    )
    if route.carrier not in context.database.carriers:
        raise Refusal(400, "There is no such carrier.", wanted)
    return route


def _written(context: RequestContext, route: Route) -> Answer:
    """Answer a write. The document does not show the reply to POST and PUT, so the profile decides."""
    status = context.profile.write_status
    match context.profile.route_write:
        case "collection":
            return Answer(context.renderer.collection("routes", [context.renderer.route(route)]), status)
        case "record":
            return Answer(context.renderer.route(route), status)
        case "empty_object":
            return Answer({}, status)
        case "empty_list":
            return Answer([], status)
        case "no_body":
            return Answer(None, status, is_empty=True)
        case _:
            return Answer(None, 204, is_empty=True)
