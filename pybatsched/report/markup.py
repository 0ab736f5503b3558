"""Tables and numbers of a page. All that is given is text."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    """Write a table; all of it is text."""
    kinds = [_kind(word) for word in rows[0]] if rows else [""] * len(head)
    cells = "".join(f"<th{kind}>{html.escape(word)}</th>" for word, kind in zip(head, kinds, strict=True))
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    mark = f' id="{name}"' if name else ""
    return f'<div class="wide"><table{mark}><thead><tr>{cells}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _cell(word: str) -> str:
    return f"<td{_kind(word)}>{html.escape(word)}</td>"


def _kind(word: str) -> str:
    return "" if word[:1].isdigit() or word[:1] in {"-", ""} else ' class="text"'


def number(value: Any) -> str:
    """Write a number as in tables: four digits, or one after the point; - for None.

    >>> number(0.123456), number(1234.56), number(3.0), number(None)
    ('0.1235', '1,234.6', '3', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, float) and value.is_integer():
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
