"""The order of the items of an expiry span, which pages continue in: see `SpanPosition`.

It is that of SQLite's indexes over expiry, so a page reads as many entries as it returns.
"""

from __future__ import annotations

from perseid.store.types import SpanPosition


def span_order_sql(after: SpanPosition | None) -> str:
    """The rest of a statement over a span; `{base}` stands for the base of its items."""
    if after is None:
        return "ORDER BY {base}, size, terms, number LIMIT :limit"
    # Without the base in the order, SQLite sees that the index has this order.
    return (
        "AND {base} = :upto AND (size, terms, number) > (:size, :terms, :number)"
        " ORDER BY size, terms, number LIMIT :limit"
    )
