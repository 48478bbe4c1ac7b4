"""Compared offers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from freight_exchange.cli.render.table import Column

if TYPE_CHECKING:
    from freight_exchange.quotes import ComparedOffer, Comparison

__all__ = ["comparison_columns"]


def comparison_columns(comparison: Comparison) -> Sequence[Column[ComparedOffer]]:
    """Return the columns of a comparison, one for each fee."""

    def fee_column(name: str) -> Column[ComparedOffer]:
        figures = {id(compared): fee for compared, fee in comparison.by_fee(name)}
        return Column(name.upper(), lambda row: _format_figure(figures.get(id(row))), align_right=True, drop_order=2)

    return (
        Column("RANK", lambda row: row.rank, align_right=True),
        Column("OFFER", lambda row: row.offer.id, align_right=True),
        Column(f"TOTAL {comparison.currency}", lambda row: _format_figure(row.total), align_right=True),
        Column("OFFERED", lambda row: f"{row.offer.amount} {row.currency}", align_right=True, drop_order=3),
        *map(fee_column, comparison.fee_names),
        Column("STATUS", lambda row: row.offer.status, drop_order=4),
        Column("OWN TERMS", lambda row: "; ".join(row.own_terms) or None, wraps=True, drop_order=1),
    )


def _format_figure(figure: Decimal | None) -> str | None:
    return None if figure is None else f"{figure:.2f}"
