"""Paging of long lists, with 50 rows on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla_console.web.page import Page

ROWS: Final = 50


class Slice(NamedTuple):
    """The rows of one page of a list. `number` is the page's number from 1, `total` the number of rows in the list."""

    rows: Sequence[Any]
    number: int
    pages: int
    total: int

    @classmethod
    def for_page(cls, page: Page, rows: Sequence[Any]) -> Slice:
        """Return the slice with the number in the input `page`, by default the first, or the last slice if the number
        is greater than its own. Raises BadInputError if the input is not a number from 1 to 1,000,000.
        """
        pages = max(1, -(-len(rows) // ROWS))
        number = min(page.integer("page", 1, 1_000_000, 1), pages)
        return cls(rows[(number - 1) * ROWS : number * ROWS], number, pages, len(rows))
