"""Listings that the document shows without pages."""

from __future__ import annotations

import pytest
from tests.unit.paging.listing_server import ListingServer, Rows

from freight_exchange.errors import (
    BadRequestError,
)
from freight_exchange.paging import PageSizes
from freight_exchange.paging.core.unpaged import UnpagedListing


def test_a_listing_without_pages_is_one_request() -> None:
    walk = UnpagedListing[int]("operation", PageSizes(), lambda row: row)
    assert walk.take(Rows((1, 2, 2))) == (1, 2)
    assert walk.ended


@pytest.mark.parametrize("rows", [10, 15, 20, 25, 50, 100])
def test_a_round_number_of_rows_without_pages_is_looked_past_once(rows: int) -> None:
    for behind in ((), tuple(range(rows))):
        walk = UnpagedListing[int]("operation", PageSizes(), lambda row: row)
        assert walk.take(Rows(tuple(range(rows)))) == tuple(range(rows))
        assert (walk.number, walk.size, walk.ended) == (1, rows, False)
        assert walk.take(Rows(behind)) == ()
        assert walk.ended


def test_a_listing_that_is_paged_though_the_document_shows_no_pages_is_read_whole() -> None:
    server, walk = ListingServer([*range(45)], clamp=20), UnpagedListing[int]("operation", PageSizes(), lambda row: row)
    found = [*walk.take(server.page(0, 20))]
    while not walk.ended:
        found += walk.take(server.page(walk.number, walk.size))
    assert found == [*range(45)]


def test_a_refused_second_page_ends_a_listing_without_pages() -> None:
    walk = UnpagedListing[int]("operation", PageSizes(), lambda row: row)
    assert not walk.fail(BadRequestError(status=400))
    walk.take(Rows(tuple(range(10))))
    assert walk.fail(BadRequestError(status=400))
    assert walk.ended
