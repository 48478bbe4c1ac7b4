"""Listings, page by page: await one page, iterate the records, iterate the pages (service document, section 4).

The service pages by number and size, clamps sizes silently, and lists change while they are read. What the pages say
about a listing is worked out in `walk`, which is pure; `paginator` fetches them.
"""

from __future__ import annotations

from freight_exchange.paging.page import Page
from freight_exchange.paging.page_sizes import DEFAULT_PAGE_SIZE, PageSizes
from freight_exchange.paging.paginator import FetchPage, Paginator

__all__ = ["DEFAULT_PAGE_SIZE", "FetchPage", "Page", "PageSizes", "Paginator"]
