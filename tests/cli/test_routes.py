"""Tests of `routes`, and of `carriers` and `currencies`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.harness import ROUTE, Shell

from freight_exchange.cli.run import Status
from freight_sandbox import Fault
from freight_sandbox.faults import json_reply


def create(shell: Shell) -> Any:
    Path("route.json").write_text(json.dumps(ROUTE))
    (route,) = shell("routes", "create", "--file", "route.json", "--yes", "--json").objects
    return route


def test_route_is_created_updated_and_listed(shell: Shell) -> None:
    Path("route.json").write_text(json.dumps(ROUTE))
    result = shell("routes", "create", "--file", "route.json", "--vessel", "Ever Patient", "--yes", "--json")
    assert result.status == 0, result.err
    (created,) = result.objects
    assert created["vessel"] == "Ever Patient"
    assert created["departure"] == "2036-02-03T06:00:00+08:00"
    index = str(created["index"])
    updated = shell("routes", "update", index, "--vessel", "Ever Given", "--cy-cutoff", "2036-02-01 18:00", "--yes")
    assert updated.status == 0, updated.err
    output = shell("routes", "get", index).out
    assert "vessel       Ever Given\n" in output
    assert "cy cut-off   2036-02-01 18:00 HKT\n" in output
    assert "cfs cut-off  2036-01-31 12:00 HKT\n" in output
    (listed,) = shell("routes", "list", "--vessel", "Ever Given", "--json").objects
    assert str(listed["index"]) == index
    assert any(row["VESSEL"] == "Ever Given" for row in shell("routes", "list").rows)


def test_route_without_number_is_shown_as_sent(shell: Shell) -> None:
    no_number = json_reply(200, {})
    shell.exchange.faults.add(Fault(name="no number", path="route", method="POST", processed=True, mutate=no_number))
    Path("route.json").write_text(json.dumps(ROUTE))
    result = shell("routes", "create", "--file", "route.json", "--yes", "--json")
    assert result.status == 0, result.err
    (created,) = result.objects
    (listed,) = shell("routes", "list", "--vessel", "Ever Sandbox", "--json").objects
    sent = {name: value for name, value in listed.items() if name not in ("index", "extra")}
    assert created == sent | {"object": "route_draft"}
    assert result.err == "The route is created; the service did not return its number.\n"


def test_question_of_update_shows_change(shell: Shell) -> None:
    index = str(create(shell)["index"])
    result = shell("routes", "update", index, "--vessel", "Ever Given", typed="n\n")
    assert f"Change route {index}: vessel Ever Sandbox to Ever Given? [y/N]:" in result.err
    assert shell("routes", "update", index, "--yes").status == Status.USAGE
    assert "vessel       Ever Sandbox\n" in shell("routes", "get", index).out


def test_new_timezone_keeps_local_times(shell: Shell) -> None:
    created = create(shell)
    index = str(created["index"])
    update = ("routes", "update", index, "--timezone", "Europe/Berlin", "--departure", "2036-02-04T04:00:00Z")
    result = shell(*update, typed="n\n")
    assert result.status == Status.USAGE
    assert (
        f"Change route {index}: timezone Asia/Hong_Kong to Europe/Berlin,"
        " departure 2036-02-03 06:00 HKT to 2036-02-04 05:00 CET,"
        " cy_cutoff 2036-02-01 17:00 HKT to 2036-02-01 17:00 CET,"
        " cfs_cutoff 2036-01-31 12:00 HKT to 2036-01-31 12:00 CET? [y/N]:"
    ) in result.err
    (updated,) = shell(*update, "--yes", "--json").objects
    assert updated["cy_cutoff"] == "2036-02-01T17:00:00+01:00"
    assert updated["departure"] == "2036-02-04T05:00:00+01:00"
    assert updated["arrival"] == created["arrival"]


def test_carriers_and_currencies_are_listed(shell: Shell) -> None:
    assert shell("carriers").rows[0] == {"INDEX": "1", "NAME": "Pacific Star Line"}
    assert shell("currencies").rows[0] == {"INDEX": "840", "CODE": "USD", "NAME": "US Dollar"}
    assert shell("currencies", "--json").objects[0]["code"] == "USD"
