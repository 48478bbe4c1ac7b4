"""Listings, page by page: await one page, iterate the records, or iterate the pages (service document, section 4).

The service pages by number and size, and reduces sizes silently. Listings change while they are read. `paginator`
and `prefetch` fetch pages. The modules of `core` are pure: `single_pass` and `window_walk` choose the next page and
detect the end, `sweep` and `reread` repeat passes, and `unpaged` reads a listing without pages.
"""

from __future__ import annotations

from freight_exchange.paging.core.page_sizes import DEFAULT_PAGE_SIZE, PageSizes
from freight_exchange.paging.page import Page
from freight_exchange.paging.paginator import FetchPage, Paginator

__all__ = ["DEFAULT_PAGE_SIZE", "FetchPage", "Page", "PageSizes", "Paginator"]
