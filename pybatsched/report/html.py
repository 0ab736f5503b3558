"""Write tables as HTML. All texts are escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    """Return an HTML table."""
    kinds = [_kind(text) for text in rows[0]] if rows else [""] * len(head)
    cells = "".join(f"<th{kind}>{html.escape(text)}</th>" for text, kind in zip(head, kinds, strict=True))
    return _table(f"<tr>{cells}</tr>", ["".join(map(_cell, row)) for row in rows], name)


def grouped_table(
    groups: Sequence[str], members: Sequence[str], rows: Sequence[tuple[str, Sequence[Sequence[str]]]], name: str = ""
) -> str:
    """Return an HTML table with groups of equal columns; a row has a name, and values for each group."""
    above = "".join(f'<th class="group" colspan="{len(members)}">{html.escape(text)}</th>' for text in groups)
    cells = [f"<th{_first(k)}>{html.escape(text)}</th>" for _ in groups for k, text in enumerate(members)]
    head = f'<tr><th rowspan="2"></th>{above}</tr>\n<tr>{"".join(cells)}</tr>'
    body = [
        _cell(row) + "".join(f"<td{_first(k)}>{html.escape(text)}</td>" for own in of for k, text in enumerate(own))
        for row, of in rows
    ]
    return _table(head, body, name, ' class="grouped"')


def _first(position: int) -> str:
    return ' class="first"' if position == 0 else ""


def _table(head: str, rows: Sequence[str], name: str, kind: str = "") -> str:
    mark = (f' id="{name}"' if name else "") + kind
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table{mark}><thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _cell(text: str) -> str:
    return f"<td{_kind(text)}>{html.escape(text)}</td>"


def _kind(text: str) -> str:
    return "" if text[:1].isdigit() or text[:1] in {"-", ""} else ' class="text"'


def number(value: Any) -> str:
    """Return a figure as text.

    >>> number(1234567), number(0.123456), number(2.0), number(None)
    ('1,234,567', '0.1235', '2', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, float) and value.is_integer():
        return f"{value + 0.0:,.0f}"  # no -0
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
